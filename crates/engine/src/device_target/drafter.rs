//! The drafter behind a target: follows the committed rows, fills blocks of drafts.

use forerunner_models::DSpark;
use forerunner_models::dspark::{Activations, DraftRound, State};
use forerunner_tensor::{
    Accepted, Device, DeviceWindow, DrawRow, DrawTables, PageTable, RoundKey, Rows, bf16,
};

use super::staging::Staging;

/// A drafter, its context and its buffers.
pub(super) struct Drafter<D: Device> {
    pub(super) model: DSpark<D>,
    pub(super) state: State<D>,
    pub(super) activations: Activations<D>,
    /// Rows to absorb, and where their taps are.
    pub(super) context_rows: Rows<D>,
    pub(super) tap_index: D::Buffer<i32>,
    /// Their taps, gathered: `[rows, taps * hidden]`.
    pub(super) gathered: D::Buffer<bf16>,
    /// Rows of the blocks.
    pub(super) rows: Rows<D>,
    /// One rule a block.
    pub(super) rules: D::Buffer<DrawRow>,
}

/// What a round committed, still on the device.
pub(super) struct Outcome<'a, D: Device> {
    pub(super) windows: &'a D::Buffer<DeviceWindow>,
    pub(super) window_count: usize,
    pub(super) accepted: &'a D::Buffer<Accepted>,
}

impl<D: Device> Drafter<D> {
    /// Uploads what a round's absorb and hold need.
    pub(super) fn prepare(&mut self, device: &D, staging: &Staging) {
        let absorb = &staging.absorb;
        self.context_rows.count = absorb.index.len();
        device.upload(&mut self.tap_index, 0, &absorb.index);
        device.upload(&mut self.context_rows.lane, 0, &absorb.lanes);
        device.upload(&mut self.context_rows.position, 0, &absorb.positions);
        self.rows.count = staging.block_rules.len() * self.model.config().block;
        device.upload(&mut self.rules, 0, &staging.block_rules);
    }

    /// Adds tapped rows to the context. Those that are rejected are overwritten by those that follow.
    pub(super) fn absorb(&mut self, device: &D, taps: &D::Buffer<bf16>, table: &PageTable<D>) {
        let config = self.model.config();
        let (count, width) = (self.context_rows.count, config.taps.len() * config.hidden);
        device.gather_rows(taps, &self.tap_index, count, width, &mut self.gathered);
        let Drafter { model, state, activations, context_rows, gathered, .. } = self;
        model.absorb(device, gathered, context_rows, table, state, activations);
    }

    /// Drafts the blocks that the round's windows asked for.
    pub(super) fn hold(
        &mut self,
        device: &D,
        embedding: &D::Matrix,
        outcome: &Outcome<'_, D>,
        table: &PageTable<D>,
        draw_tables: &DrawTables<D>,
        key: RoundKey,
    ) {
        let config = self.model.config();
        device.draft_rows(
            outcome.windows,
            outcome.window_count,
            outcome.accepted,
            config.block,
            config.mask_token as i32,
            &mut self.rows,
        );
        let round = DraftRound {
            embedding,
            rows: &self.rows,
            table,
            rules: &self.rules,
            draw_tables,
            blocks: key.blocks,
            depth: key.depth,
        };
        self.model.draft(device, &round, &mut self.state, &mut self.activations);
    }
}
