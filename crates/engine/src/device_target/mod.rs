//! A target over a device: turns a round's windows into rows, runs them, reads the outcome back once.

mod drafter;
mod lane;
mod load;
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
use drafter::Drafter;
use lane::Lane;
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
}

impl<D: Device> Target for DeviceTarget<D> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, index: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        assert!(self.lanes[index].is_none(), "lane {index} is open");
        let pages_needed = load::pages_for(open.context);
        if pages_needed > self.pool.total() || open.context > self.limits.context {
            return Err(TargetError::TooLarge { pages_needed, pages_total: self.pool.total() });
        }
        if pages_needed > self.pool.free() {
            return Err(TargetError::Full { pages_needed, pages_free: self.pool.free() });
        }
        let mut pages = Vec::with_capacity(pages_needed);
        self.pool.take(pages_needed, &mut pages);
        self.device.upload(&mut self.table.pages, index * self.table.pages_per_lane, &pages);
        let lane = Lane::new(index, open, pages);
        lane.upload_tables(&self.device, open, &mut self.buffers.draw_tables);
        self.lanes[index] = Some(lane);
        Ok(0)
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
        let lane = self.lanes[index].take().unwrap_or_else(|| panic!("lane {index} is not open"));
        for page in lane.pages {
            self.pool.release(page);
        }
    }

    fn pages_in_use(&self) -> usize {
        self.pool.total() - self.pool.free()
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
        let Buffers { rows, windows, rules, draw_tables, .. } = &mut self.buffers;
        rows.count = staging.tokens.len();
        device.upload(&mut rows.token, 0, &staging.tokens);
        device.upload(&mut rows.lane, 0, &staging.lanes);
        device.upload(&mut rows.position, 0, &staging.positions);
        device.upload(&mut rows.key_end, 0, &staging.key_ends);
        device.upload(windows, 0, &staging.windows);
        device.upload(rules, 0, &staging.rules);
        device.upload(&mut self.activations.draw_index, 0, &staging.draw_index);
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
            let Buffers { rows, windows, rules, draw_tables, drawn, accepted } = &mut *buffers;
            let taps: &[usize] = if key.absorb { taps } else { &[] };
            model.forward(device, rows, table, taps, state, activations);
            if key.draws > 0 {
                model.head(device, key.draws, activations);
                device.draw(&activations.logits, rules, rows, draw_tables, key.draws, drawn);
            }
            device.accept(windows, key.windows, rows, drawn, draw_tables, accepted);
            if let Some(drafter) = drafter.as_mut().filter(|_| key.absorb) {
                drafter.absorb(device, &activations.taps, rows, table);
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
            let lane = self.lanes[window.lane].as_mut().expect("a window's lane is open");
            let Accepted { length, anchor, .. } = self.staging.outcome.accepted[index];
            let rows = self.staging.windows[index].row_count as usize;
            let expected = window.position + rows - window.drafts + out.windows[index].accepted;
            assert_eq!(length as usize, expected, "lane {} has another length on the device", window.lane);
            lane.length = expected;
            lane.anchor = anchor;
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
        absorb: staging.absorb,
        plain_greedy: staging.plain_greedy,
    }
}
