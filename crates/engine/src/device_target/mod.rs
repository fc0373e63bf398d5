//! A target over a device: turns a round's windows into rows, runs them, reads the outcome back once.

mod drafter;
mod lane;
mod load;
mod resume;
mod staging;

use forerunner_lanes::{
    HeldDraft, Limits, OpenLane, Round, RoundOut, Target, TargetError, TokenId, WindowOut,
};
use forerunner_models::Lfm2;
use forerunner_models::lfm2::{Activations, State};
use forerunner_tensor::{
    Accepted, Device, DeviceError, DeviceWindow, DrawRow, DrawTables, PageTable, ReadBack, RoundKey, Rows,
};

use crate::pages::PagePool;
use crate::prefix::PrefixCache;
use drafter::Drafter;
use lane::Lane;
use resume::Reservation;
use staging::Staging;

pub use load::TargetOptions;

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
    prefixes: PrefixCache,
    table: PageTable<D>,
    buffers: Buffers<D>,
    staging: Staging,
}

/// Device arrays that change every round.
struct Buffers<D: Device> {
    rows: Rows<D>,
    windows: D::Buffer<DeviceWindow>,
    rules: D::Buffer<DrawRow>,
    draw_tables: DrawTables<D>,
    drawn: D::Buffer<i32>,
    accepted: D::Buffer<Accepted>,
    /// Rows copied within a buffer: from which, to which.
    copy_from: D::Buffer<i32>,
    copy_to: D::Buffer<i32>,
}

impl<D: Device> Target for DeviceTarget<D> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, index: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        assert!(self.lanes[index].is_none(), "lane {index} is open");
        let Reservation { pages, held } = self.reserve(index, open)?;
        self.device.upload(&mut self.table.pages, index * self.table.pages_per_lane, &pages);
        let lane = Lane::new(index, open, pages, held);
        lane.upload_tables(&self.device, open, &mut self.buffers.draw_tables);
        self.lanes[index] = Some(lane);
        Ok(held)
    }

    fn round(&mut self, round: &Round<'_>, out: &mut RoundOut) -> Result<(), TargetError> {
        self.staging.fill(round, &self.lanes, &self.limits);
        self.upload(round);
        self.run().and_then(|()| self.read_back()).map_err(|error| TargetError::Failed(error.to_string()))?;
        self.report(round, out);
        self.advance(round, out);
        Ok(())
    }

    fn close(&mut self, index: usize) {
        assert!(self.lanes[index].is_some(), "lane {index} is not open");
        self.keep_pages(index);
        let lane = self.lanes[index].take().expect("an open lane");
        lane.pages.iter().for_each(|page| self.pool.release(*page));
    }

    fn pages_in_use(&self) -> usize {
        self.lanes.iter().flatten().map(|lane| lane.pages.len()).sum()
    }
}

impl<D: Device> DeviceTarget<D> {
    /// The logits of the last round's first draw.
    pub(crate) fn last_logits(&self) -> Result<Vec<f32>, TargetError> {
        let mut logits = vec![0.0; self.buffers.draw_tables.vocabulary];
        let downloaded = self.device.download(&self.activations.logits, 0, &mut logits);
        downloaded.map_err(|error| TargetError::Failed(error.to_string()))?;
        Ok(logits)
    }

    fn upload(&mut self, round: &Round<'_>) {
        let (device, staging) = (&self.device, &self.staging);
        let Buffers { rows, windows, rules, draw_tables, copy_from, copy_to, .. } = &mut self.buffers;
        rows.count = staging.tokens.len();
        device.upload(&mut rows.token, 0, &staging.tokens);
        device.upload(&mut rows.lane, 0, &staging.lanes);
        device.upload(&mut rows.position, 0, &staging.positions);
        device.upload(&mut rows.key_end, 0, &staging.key_ends);
        device.upload(windows, 0, &staging.windows);
        device.upload(rules, 0, &staging.rules);
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
    fn run(&mut self) -> Result<(), DeviceError> {
        let DeviceTarget {
            device, model, taps, state, activations, drafter, table, buffers, staging, ..
        } = self;
        let key = round_key(staging);
        device.round(key, &mut || {
            let Buffers { rows, windows, rules, draw_tables, drawn, accepted, copy_from, copy_to } =
                &mut *buffers;
            let taps: &[usize] = if key.tapped { taps } else { &[] };
            model.forward(device, rows, table, taps, state, activations);
            let tap_width = taps.len() * model.config().hidden;
            device.copy_rows(&mut activations.taps, copy_from, copy_to, key.kept, tap_width);
            if key.draws > 0 {
                model.head(device, key.draws, activations);
                device.draw(&activations.logits, rules, rows, draw_tables, key.draws, drawn);
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

    fn read_back(&mut self) -> Result<(), DeviceError> {
        let Buffers { drawn, accepted, .. } = &self.buffers;
        let Staging { outcome, .. } = &mut self.staging;
        let distinct = &self.activations.routing.distinct;
        match &self.drafter {
            Some(drafter) => self.device.read_back(&mut [
                ReadBack::I32(drawn, &mut outcome.drawn),
                ReadBack::Accepted(accepted, &mut outcome.accepted),
                ReadBack::I32(distinct, &mut outcome.distinct),
                ReadBack::I32(&drafter.activations.drafts, &mut outcome.drafts),
                ReadBack::F32(&drafter.activations.confidence, &mut outcome.confidence),
            ]),
            None => self.device.read_back(&mut [
                ReadBack::I32(drawn, &mut outcome.drawn),
                ReadBack::Accepted(accepted, &mut outcome.accepted),
                ReadBack::I32(distinct, &mut outcome.distinct),
            ]),
        }
    }

    fn report(&self, round: &Round<'_>, out: &mut RoundOut) {
        let Staging { windows, outcome, .. } = &self.staging;
        out.clear();
        out.drawn.extend(outcome.drawn.iter().map(|token| *token as TokenId));
        out.distinct_experts = outcome.distinct.iter().map(|count| *count as usize).sum();
        for (index, (window, row)) in round.windows.iter().zip(windows).enumerate() {
            let drawn = if window.draws { row.first_draw as usize } else { 0 };
            let held = out.held.len();
            if row.block >= 0 {
                let first = row.block as usize * self.limits.block;
                out.held.extend((first..first + window.hold).map(|slot| HeldDraft {
                    token: outcome.drafts[slot] as TokenId,
                    confidence: if self.limits.has_confidence { outcome.confidence[slot] } else { f32::NAN },
                }));
            }
            out.windows.push(WindowOut {
                drawn: drawn..drawn + if window.draws { window.drafts + 1 } else { 0 },
                accepted: outcome.accepted[index].drafts as usize,
                held: held..out.held.len(),
            });
        }
    }

    /// Moves each lane to its new length.
    fn advance(&mut self, round: &Round<'_>, out: &RoundOut) {
        for (index, window) in round.windows.iter().enumerate() {
            let Accepted { length, anchor, .. } = self.staging.outcome.accepted[index];
            let kept = self.staging.kept_tokens(index, out.windows[index].accepted);
            let lane = self.lanes[window.lane].as_mut().expect("a window's lane is open");
            lane.tokens.extend(kept.iter().map(|token| *token as TokenId));
            assert_eq!(
                length as usize,
                lane.length(),
                "lane {} is longer or shorter on the device",
                window.lane
            );
            lane.anchor = anchor;
            if lane.drafted && self.staging.absorbs(window.lane) {
                lane.absorbed = lane.length();
            }
            self.keep(window.lane, window.position);
        }
    }
}

fn round_key(staging: &Staging) -> RoundKey {
    RoundKey {
        rows: staging.tokens.len(),
        draws: staging.draw_index.len(),
        windows: staging.windows.len(),
        blocks: staging.block_rules.len(),
        depth: staging.depth,
        tapped: staging.tapped,
        kept: staging.keep_from.len(),
        absorbed: staging.absorb.index.len(),
        plain_greedy: staging.plain_greedy,
    }
}
