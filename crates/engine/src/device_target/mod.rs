//! A target over a device: turns a round's windows into rows, runs them, reads the outcome back once.

mod drafter;
mod lane;
mod load;
mod queue;
mod resume;
mod staging;

use forerunner_lanes::{Limits, OpenLane, PendingSource, Round, RoundOut, Target, TargetError, TokenId};
use forerunner_models::Lfm2;
use forerunner_models::lfm2::{Activations, State};
use forerunner_tensor::{
    Accepted, Device, DeviceError, DeviceWindow, DrawRow, DrawTables, Element, PageTable, ReadBackPart,
    RoundKey, Rows, bf16,
};

use crate::pages::{CommittedPages, HeldPages, PagePool};
use crate::prefix::PrefixCache;
use drafter::Drafter;
use lane::Lane;
use queue::{Outcome, Queue, QueuedRound, Shape};
use resume::Reservation;
use staging::{LOGPROB_WIDTH, Staging};

pub use load::{TargetOptions, kept_page_bytes};

/// An LFM2 target and its drafter on device `D`, behind the scheduler's seam.
pub struct DeviceTarget<D: Device> {
    device: D,
    limits: Limits,
    model: Lfm2<D>,
    /// Layers whose rows the drafter reads; empty without one.
    taps: Vec<usize>,
    state: State<D>,
    activations: Activations<D>,
    drafter: Option<Drafter<D>>,
    lanes: Vec<Option<Lane>>,
    pool: PagePool,
    held: HeldPages,
    committed: CommittedPages,
    prefixes: PrefixCache,
    table: PageTable<D>,
    buffers: Buffers<D>,
    queue: Queue<D>,
}

/// Device arrays that change every round.
struct Buffers<D: Device> {
    rows: Rows<D>,
    windows: D::Buffer<DeviceWindow>,
    rules: D::Buffer<DrawRow>,
    draw_tables: DrawTables<D>,
    drawn: D::Buffer<i32>,
    /// Stands for a drafter's drafts where there is none.
    no_drafts: D::Buffer<i32>,
    logprobs: LogprobBuffers<D>,
    accepted: D::Buffer<Accepted>,
    /// Rows copied within a buffer: from which, to which.
    copy_from: D::Buffer<i32>,
    copy_to: D::Buffer<i32>,
}

/// Draws that ask for log-probabilities, and what they get ([`Device::log_probabilities`]).
struct LogprobBuffers<D: Device> {
    index: D::Buffer<i32>,
    tokens: D::Buffer<i32>,
    values: D::Buffer<f32>,
}

impl<D: Device> Target for DeviceTarget<D> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, index: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        assert!(self.lanes[index].is_none(), "lane {index} is open");
        let Reservation { pages, held } = self.reserve(index, open)?;
        self.device.upload(&mut self.table.pages, index * self.table.pages_per_lane, &pages);
        self.held.open(&pages);
        let lane = Lane::new(index, open, pages, held);
        lane.upload_tables(&self.device, open, &mut self.buffers.draw_tables);
        self.lanes[index] = Some(lane);
        Ok(held)
    }

    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        self.commit_pages(round).map_err(|error| failed(&error))?;
        let (mut staging, mut outcome) = self.queue.take_spare();
        self.queue.count += 1;
        staging.fill(round, self.queue.count, &self.lanes, &self.limits);
        self.upload(&staging, round);
        if let Err(error) = self.run(&staging) {
            self.queue.give_back(staging, outcome);
            return Err(failed(&error));
        }
        let read_back = self.queue_read_back(&staging, &mut outcome);
        for (index, window) in round.windows.iter().enumerate() {
            let lane = self.lanes[window.lane].as_mut().expect("a window's lane is open");
            lane.queued += window.rows() - window.drafts;
            lane.last_window = Some((self.queue.count, index));
        }
        self.queue.push(QueuedRound { staging, outcome, read_back });
        Ok(())
    }

    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError> {
        let QueuedRound { mut staging, mut outcome, read_back } =
            self.queue.pop().expect("a round is queued before it is read");
        let read = self.device.wait(read_back, &mut outcome.words);
        match read {
            Ok(()) => {
                outcome.report(&staging, &self.limits, out);
                self.advance(&mut staging, &outcome);
            }
            Err(_) => self.void_rounds(),
        }
        self.queue.give_back(staging, outcome);
        read.map_err(|error| failed(&error))
    }

    fn close(&mut self, index: usize) {
        assert!(self.lanes[index].is_some(), "lane {index} is not open");
        self.keep_pages(index);
        let lane = self.lanes[index].take().expect("an open lane");
        self.held.close(&lane.pages);
        lane.pages.iter().for_each(|page| self.pool.release(*page));
    }

    fn pages_in_use(&self) -> usize {
        self.held.in_use()
    }

    fn pages_total(&self) -> usize {
        self.pool.total()
    }
}

impl<D: Device> DeviceTarget<D> {
    /// The logits of the last round's first draw.
    pub(crate) fn last_logits(&self) -> Result<Vec<f32>, TargetError> {
        self.downloaded(&self.activations.logits, self.buffers.draw_tables.vocabulary)
    }

    /// The taps of the last round's first `rows` rows: `[rows, taps * hidden]`.
    pub(crate) fn last_taps(&self, rows: usize) -> Result<Vec<bf16>, TargetError> {
        let width = self.taps.len() * self.model.config().hidden;
        self.downloaded(&self.activations.taps, rows * width)
    }

    /// The rows of the last round's first block of drafts, after the last norm: `[block, hidden]`.
    ///
    /// # Panics
    /// Without a drafter.
    pub(crate) fn last_block(&self) -> Result<Vec<bf16>, TargetError> {
        let drafter = self.drafter.as_ref().expect("a target with a drafter");
        let config = drafter.model.config();
        self.downloaded(&drafter.activations.normed, config.block * config.hidden)
    }

    fn downloaded<T: Element>(&self, buffer: &D::Buffer<T>, count: usize) -> Result<Vec<T>, TargetError> {
        let mut values = vec![T::default(); count];
        let downloaded = self.device.download(buffer, 0, &mut values);
        downloaded.map_err(|error| TargetError::Failed(error.to_string()))?;
        Ok(values)
    }

    fn upload(&mut self, staging: &Staging, round: &Round<'_>) {
        let device = &self.device;
        let Buffers { rows, windows, rules, logprobs, draw_tables, copy_from, copy_to, .. } =
            &mut self.buffers;
        rows.count = staging.tokens.len();
        device.upload(&mut rows.token, 0, &staging.tokens);
        device.upload(&mut rows.lane, 0, &staging.lanes);
        device.upload(&mut rows.position, 0, &staging.positions);
        device.upload(&mut rows.key_end, 0, &staging.key_ends);
        device.upload(windows, 0, &staging.windows);
        device.upload(rules, 0, &staging.rules);
        device.upload(&mut logprobs.index, 0, &staging.logprob_index);
        device.upload(&mut self.activations.draw_index, 0, &staging.draw_index);
        device.upload(copy_from, 0, &staging.keep_from);
        device.upload(copy_to, 0, &staging.keep_to);
        let words = draw_tables.vocabulary.div_ceil(32);
        for (row, mask) in round.masks.iter().enumerate() {
            device.upload(&mut draw_tables.masks, row * words, mask.allowed);
        }
        if let Some(drafter) = &mut self.drafter {
            drafter.prepare(device, staging);
        }
    }

    /// Queues the whole round: verify, draw, accept, absorb, hold.
    fn run(&mut self, staging: &Staging) -> Result<(), DeviceError> {
        let DeviceTarget { device, limits, model, taps, state, activations, drafter, table, buffers, .. } =
            self;
        let key = round_key(staging);
        device.round(key, &mut || {
            let Buffers {
                rows,
                windows,
                rules,
                logprobs,
                draw_tables,
                drawn,
                no_drafts,
                accepted,
                copy_from,
                copy_to,
            } = &mut *buffers;
            if key.continued {
                let drafts = drafter.as_ref().map_or(&*no_drafts, |drafter| &drafter.activations.drafts);
                device.held_tokens(windows, key.windows, accepted, drafts, limits.block, rows);
            }
            let taps: &[usize] = if key.tapped { taps } else { &[] };
            model.forward(device, rows, table, taps, state, activations);
            let tap_width = taps.len() * model.config().hidden;
            device.copy_rows(&mut activations.taps, copy_from, copy_to, key.kept, tap_width);
            if key.draws > 0 {
                model.head(device, key.draws, activations);
                device.draw(&activations.logits, rules, rows, draw_tables, key.draws, drawn);
            }
            if key.log_probabilities > 0 {
                device.log_probabilities(
                    &activations.logits,
                    draw_tables.vocabulary,
                    drawn,
                    &logprobs.index,
                    key.log_probabilities,
                    &mut logprobs.tokens,
                    &mut logprobs.values,
                );
            }
            device.accept(windows, key.windows, rows, drawn, draw_tables, accepted);
            if let Some(drafter) = drafter.as_mut().filter(|_| key.absorbed > 0) {
                drafter.absorb(device, &activations.taps, table);
                if key.blocks > 0 {
                    let outcome = drafter::Outcome { windows, window_count: key.windows, accepted };
                    drafter.hold(device, model.embedding(), &outcome, table, draw_tables, key);
                }
            }
            Ok(())
        })
    }

    fn queue_read_back(&self, staging: &Staging, outcome: &mut Outcome) -> D::ReadBack {
        outcome.reshape(Shape {
            draws: staging.draw_index.len(),
            windows: staging.windows.len(),
            layers: self.model.config().layers.len(),
            slots: staging.block_rules.len() * self.limits.block,
            told: staging.logprob_index.len() * LOGPROB_WIDTH,
        });
        let Shape { draws, windows, layers, slots, told } = outcome.shape();
        let no_confidence = &self.activations.logits;
        let (drafts, confidence) = match &self.drafter {
            Some(drafter) => (&drafter.activations.drafts, &drafter.activations.confidence),
            None => (&self.buffers.no_drafts, no_confidence),
        };
        self.device.queue_read_back(&[
            ReadBackPart::I32(&self.buffers.drawn, draws),
            ReadBackPart::Accepted(&self.buffers.accepted, windows),
            ReadBackPart::I32(&self.activations.routing.distinct, layers),
            ReadBackPart::I32(drafts, slots),
            ReadBackPart::F32(confidence, slots),
            ReadBackPart::I32(&self.buffers.logprobs.tokens, told),
            ReadBackPart::F32(&self.buffers.logprobs.values, told),
        ])
    }

    /// Moves each lane to its new length.
    fn advance(&mut self, staging: &mut Staging, outcome: &Outcome) {
        for index in 0..staging.planned.len() {
            let window = staging.planned[index].clone();
            let Accepted { drafts, length, anchor, .. } = outcome.accepted()[index];
            let lane = self.lanes[window.lane].as_mut().expect("a window's lane is open");
            if window.pending == PendingSource::LastDraw {
                staging.learn(index, lane.anchor);
            }
            let kept = staging.kept_tokens(index, drafts as usize);
            lane.tokens.extend(kept.iter().map(|token| *token as TokenId));
            lane.queued -= window.rows() - window.drafts;
            assert_eq!(
                length as usize,
                lane.length(),
                "lane {} is longer or shorter on the device",
                window.lane
            );
            lane.anchor = anchor;
            if lane.drafted && staging.absorbs(window.lane) {
                lane.absorbed = lane.length();
            }
            self.keep(window.lane, window.position);
        }
    }

    /// After a round that failed: those behind it are void, and nothing they left is gone on with.
    fn void_rounds(&mut self) {
        while let Some(QueuedRound { staging, mut outcome, read_back }) = self.queue.pop() {
            // It computed from what the failed round left; what it says is of no use.
            let _ = self.device.wait(read_back, &mut outcome.words);
            self.queue.give_back(staging, outcome);
        }
        for lane in self.lanes.iter_mut().flatten() {
            lane.queued = 0;
            lane.last_window = None;
        }
    }
}

fn failed(error: &DeviceError) -> TargetError {
    TargetError::Failed(error.to_string())
}

fn round_key(staging: &Staging) -> RoundKey {
    RoundKey {
        rows: staging.tokens.len(),
        continued: staging.continued,
        draws: staging.draw_index.len(),
        windows: staging.windows.len(),
        blocks: staging.block_rules.len(),
        depth: staging.depth,
        tapped: staging.tapped,
        kept: staging.keep_from.len(),
        absorbed: staging.absorb.index.len(),
        plain_greedy: staging.plain_greedy,
        log_probabilities: staging.logprob_index.len(),
    }
}
