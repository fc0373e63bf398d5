//! Opening a lane where an earlier prompt left off, and keeping what later ones can begin with.

use forerunner_lanes::{OpenLane, Round, TargetError};
use forerunner_models::lfm2::LayerState;
use forerunner_tensor::{CONV_RING, Device, DeviceError, PAGE};

use super::{DeviceTarget, load};

/// Gated rows that a short convolution needs of the past: its kernel's length less one.
pub(super) const STATE_ROWS: usize = 2;

/// Memory of a lane about to be opened.
pub(super) struct Reservation {
    /// Its pages, in position order; the first ones may be shared.
    pub(super) pages: Vec<i32>,
    /// Positions that they hold already.
    pub(super) held: usize,
}

impl<D: Device> DeviceTarget<D> {
    /// Pages for a lane, beginning with those of the longest stored prefix of its prompt; the convolutions'
    /// state at the prefix's end is put into the lane.
    pub(super) fn reserve(&mut self, lane: usize, open: &OpenLane<'_>) -> Result<Reservation, TargetError> {
        let pages_needed = load::pages_for(open.context);
        if pages_needed > self.pool.total() || open.context > self.limits.context {
            return Err(TargetError::TooLarge { pages_needed, pages_total: self.pool.total() });
        }
        let found = self.prefixes.find(open.prompt, open.drafted, &mut self.pool);
        let mut pages = found.pages;
        let held = pages.len() * PAGE;
        let fresh = pages_needed - pages.len();
        self.prefixes.evict(fresh, &mut self.pool);
        if fresh > self.pool.free() {
            pages.iter().for_each(|page| self.pool.release(*page));
            return Err(TargetError::Full { pages_needed, pages_free: self.pool.free() });
        }
        self.pool.take(fresh, &mut pages);
        if let Some(slot) = found.snapshot {
            self.copy_state(slot, lane, held, Direction::Restore);
        }
        Ok(Reservation { pages, held })
    }

    /// Has the pages take memory that a round may touch: those of prompts and, behind a window, one that blocks of
    /// drafts and the next round reach into.
    pub(super) fn commit_pages(&mut self, round: &Round<'_>) -> Result<(), DeviceError> {
        let DeviceTarget { device, state, drafter, lanes, committed, .. } = self;
        for window in round.windows {
            let lane = lanes[window.lane].as_ref().expect("a window's lane is open");
            let first = window.position / PAGE;
            let end = lane.prompt_tokens.max(window.position + window.rows()) / PAGE + 2;
            let touched = &lane.pages[first..end.min(lane.pages.len())];
            while let Some(missing) = committed.missing(touched) {
                state.commit(device, missing.clone())?;
                if let Some(drafter) = drafter {
                    drafter.state.commit(device, missing.clone())?;
                }
                committed.add(missing);
            }
        }
        Ok(())
    }

    /// After a round that took a lane from `before` to its present length: keeps the convolutions' state where a
    /// page has filled, and the prompt's pages once all of it has run.
    pub(super) fn keep(&mut self, index: usize, before: usize) {
        if !self.prefixes.is_on() {
            return;
        }
        let lane = self.lanes[index].as_ref().expect("an open lane");
        let (length, prompt_tokens) = (lane.length(), lane.prompt_tokens);
        let end = length / PAGE * PAGE;
        // Older states than the ring's are gone; chunks end at page borders, so none is missed.
        if end > before && length - end < CONV_RING - STATE_ROWS && lane.keeps_state_at(end) {
            self.keep_state(index, end);
        }
        if before < prompt_tokens && length >= prompt_tokens {
            self.keep_pages(index);
        }
    }

    /// Gives the lane's full pages to the prefix cache, which shares them.
    pub(super) fn keep_pages(&mut self, index: usize) {
        if !self.prefixes.is_on() {
            return;
        }
        let lane = self.lanes[index].as_mut().expect("an open lane");
        let pages = lane.take_full_pages();
        self.prefixes.keep(&lane.tokens, &pages, lane.drafted, &mut self.pool);
    }

    fn keep_state(&mut self, index: usize, end: usize) {
        let page = end / PAGE - 1;
        let lane = self.lanes[index].as_ref().expect("an open lane");
        if lane.snapshots[page].is_some() {
            return;
        }
        let Some(slot) = self.prefixes.take_snapshot() else { return };
        self.copy_state(slot, index, end, Direction::Keep);
        self.lanes[index].as_mut().expect("an open lane").snapshots[page] = Some(slot);
    }

    /// Copies the last gated rows before `end` between a lane's ring and a stored state, in every convolution.
    fn copy_state(&mut self, slot: usize, lane: usize, end: usize, direction: Direction) {
        let stored = self.limits.lanes * CONV_RING + slot * STATE_ROWS;
        let ring = |row: usize| (lane * CONV_RING + (end - STATE_ROWS + row) % CONV_RING) as i32;
        let ring: [i32; STATE_ROWS] = std::array::from_fn(ring);
        let stored: [i32; STATE_ROWS] = std::array::from_fn(|row| (stored + row) as i32);
        let (from, to) = match direction {
            Direction::Keep => (ring, stored),
            Direction::Restore => (stored, ring),
        };
        self.device.upload(&mut self.buffers.copy_from, 0, &from);
        self.device.upload(&mut self.buffers.copy_to, 0, &to);
        let width = self.model.config().hidden;
        for layer in &mut self.state.layers {
            if let LayerState::Conv(ring) = layer {
                let (from, to) = (&self.buffers.copy_from, &self.buffers.copy_to);
                self.device.copy_rows(&mut ring.gated, from, to, STATE_ROWS, width);
            }
        }
    }
}

/// Which way a convolution's state is copied.
#[derive(Debug, Clone, Copy)]
enum Direction {
    /// From the lane to the store.
    Keep,
    /// From the store to the lane.
    Restore,
}
