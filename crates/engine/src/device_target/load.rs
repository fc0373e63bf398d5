//! Loads a target and its drafter and reserves what rounds will need.

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint};
use forerunner_lanes::{Limits, MAX_WINDOW};
use forerunner_models::{DSpark, Lfm2, ModelError, dspark, lfm2};
use forerunner_tensor::{Device, DeviceError, DrawTables, PAGE, PageTable, Rows};

use super::drafter::Drafter;
use super::staging::Staging;
use super::{Buffers, DeviceTarget};
use crate::pages::PagePool;

/// How much a target is to hold.
#[derive(Debug, Clone, Copy)]
pub struct TargetOptions {
    /// Lanes open at once.
    pub lanes: usize,
    /// Longest context of a lane, prompt plus reply.
    pub context: usize,
    /// Most rows of one round.
    pub rows: usize,
    /// Most bytes of keys and values, target and drafter together.
    pub key_value_bytes: usize,
}

/// Pages for a context of `tokens`, with room for a rejected window or a draft block past its end.
pub(super) fn pages_for(tokens: usize) -> usize {
    (tokens + MAX_WINDOW).div_ceil(PAGE)
}

impl<D: Device> DeviceTarget<D> {
    /// Loads `target`, and `drafter` if there is one, onto `device`.
    pub fn load(
        device: D,
        target: &TargetCheckpoint,
        drafter: Option<&DrafterCheckpoint>,
        options: &TargetOptions,
    ) -> Result<Self, ModelError> {
        let config = target.config();
        let pages_per_lane = pages_for(options.context);
        let token_bytes = lfm2::key_value_bytes(config)
            + drafter.map_or(0, |drafter| dspark::key_value_bytes(drafter.config()));
        let affordable = options.key_value_bytes / (token_bytes * PAGE).max(1);
        let pages = (options.lanes * pages_per_lane).min(affordable.max(1));
        let positions = pages_per_lane * PAGE;
        let draws = options.rows.min(options.lanes * MAX_WINDOW);
        let taps = drafter.map_or(Vec::new(), |drafter| drafter.config().taps.clone());
        Ok(DeviceTarget {
            limits: limits(options, drafter),
            model: Lfm2::load(&device, target, positions)?,
            state: lfm2::State::new(&device, config, options.lanes, pages)?,
            activations: lfm2::Activations::new(&device, config, options.rows, draws, taps.len())?,
            taps,
            drafter: drafter.map(|drafter| Drafter::load(&device, drafter, options, pages)).transpose()?,
            lanes: (0..options.lanes).map(|_| None).collect(),
            pool: PagePool::new(pages),
            table: PageTable { pages_per_lane, pages: device.allocate(options.lanes * pages_per_lane)? },
            buffers: Buffers::new(&device, options, draws, config.vocabulary)?,
            staging: Staging::new(config.layers.len()),
            device,
        })
    }
}

fn limits(options: &TargetOptions, drafter: Option<&DrafterCheckpoint>) -> Limits {
    Limits {
        lanes: options.lanes,
        context: options.context,
        rows: options.rows,
        block: drafter.map_or(0, |drafter| drafter.config().block),
        has_confidence: drafter.is_some_and(|drafter| drafter.config().has_confidence),
        page: PAGE,
    }
}

impl<D: Device> Buffers<D> {
    fn new(
        device: &D,
        options: &TargetOptions,
        draws: usize,
        vocabulary: usize,
    ) -> Result<Self, DeviceError> {
        Ok(Buffers {
            rows: Rows::new(device, options.rows)?,
            windows: device.allocate(options.lanes)?,
            rules: device.allocate(draws)?,
            draw_tables: DrawTables {
                vocabulary,
                counts: device.allocate(options.lanes * vocabulary)?,
                logit_bias: device.allocate(options.lanes * vocabulary)?,
                masks: device.allocate(draws * vocabulary.div_ceil(32))?,
            },
            drawn: device.allocate(draws)?,
            accepted: device.allocate(options.lanes)?,
        })
    }
}

impl<D: Device> Drafter<D> {
    fn load(
        device: &D,
        checkpoint: &DrafterCheckpoint,
        options: &TargetOptions,
        pages: usize,
    ) -> Result<Self, ModelError> {
        let config = checkpoint.config();
        Ok(Drafter {
            model: DSpark::load(device, checkpoint, pages_for(options.context) * PAGE)?,
            state: dspark::State::new(device, config, pages)?,
            activations: dspark::Activations::new(device, config, options.rows, options.lanes)?,
            rows: Rows::new(device, options.lanes * config.block)?,
            rules: device.allocate(options.lanes)?,
        })
    }
}
