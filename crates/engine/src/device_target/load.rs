//! Loads a target and its drafter and reserves what rounds will need.

use forerunner_checkpoint::{DrafterCheckpoint, LayerKind, TargetCheckpoint, TargetConfig};
use forerunner_lanes::{Limits, MAX_WINDOW};
use forerunner_models::{DSpark, Lfm2, ModelError, dspark, lfm2};
use forerunner_tensor::{Device, DeviceError, DrawTables, PAGE, PageTable, Rows, bf16};

use super::drafter::Drafter;
use super::queue::Queue;
use super::resume::STATE_ROWS;
use super::staging::LOGPROB_WIDTH;
use super::{Buffers, DeviceTarget, LogprobBuffers};
use crate::pages::{CommittedPages, HeldPages, PagePool};
use crate::prefix::PrefixCache;

/// How much a target is to hold.
#[derive(Debug, Clone, Copy)]
pub struct TargetOptions {
    /// Lanes open at once.
    pub lanes: usize,
    /// Longest context of a lane, prompt plus reply.
    pub context: usize,
    /// Most rows of one round.
    pub rows: usize,
    /// Most bytes of keys and values of running sequences, target and drafter together, on a device that allocates
    /// them at load. One that takes memory as pages fill has as many as fit ([`Device::memory_left`]).
    pub key_value_bytes: usize,
    /// Most bytes of keys and values kept for later prompts that begin alike; 0 keeps none.
    pub prompt_cache_bytes: usize,
    /// Rounds may be queued ahead even where the device computes them at once: no gain there, but the path that a
    /// device takes which runs by itself.
    pub queues_ahead: bool,
}

/// Memory that pages leave free for what operations take when they are first used at their largest.
const SPARE_BYTES: u64 = 1 << 30;

/// Pages for a context of `tokens`, with room for a rejected window or a draft block past its end.
pub(super) fn pages_for(tokens: usize) -> usize {
    (tokens + MAX_WINDOW).div_ceil(PAGE)
}

fn page_bytes(target: &TargetConfig, drafter: Option<&DrafterCheckpoint>) -> usize {
    let drafter_bytes = drafter.map_or(0, |drafter| dspark::key_value_bytes(drafter.config()));
    (lfm2::key_value_bytes(target) + drafter_bytes) * PAGE
}

/// Bytes of a page that is kept for later prompts. It has at most one convolution state.
pub fn kept_page_bytes(target: &TargetConfig, drafter: Option<&DrafterCheckpoint>) -> usize {
    page_bytes(target, drafter) + state_bytes(target)
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
        let page_bytes = page_bytes(config, drafter).max(1);
        let kept = options.prompt_cache_bytes / kept_page_bytes(config, drafter).max(1);
        let wanted = options.lanes * pages_per_lane;
        let reserved = match device.memory_left()? {
            Some(_) => wanted + kept,
            None => wanted.min((options.key_value_bytes / page_bytes).max(1)) + kept,
        };
        let positions = pages_per_lane * PAGE;
        let draws = options.rows.min(options.lanes * MAX_WINDOW);
        let taps = drafter.map_or(Vec::new(), |drafter| drafter.config().taps.clone());
        let mut loaded = DeviceTarget {
            limits: limits(options, drafter, device.is_asynchronous() || options.queues_ahead),
            model: Lfm2::load(&device, target, positions)?,
            state: lfm2::State::new(&device, config, options.lanes, reserved, kept * STATE_ROWS)?,
            activations: lfm2::Activations::new(
                &device,
                config,
                &activation_sizes(options, draws, taps.len()),
            )?,
            taps,
            drafter: drafter.map(|drafter| Drafter::load(&device, drafter, options, reserved)).transpose()?,
            lanes: (0..options.lanes).map(|_| None).collect(),
            pool: PagePool::new(reserved),
            held: HeldPages::new(reserved),
            committed: CommittedPages::new(reserved),
            prefixes: PrefixCache::new(kept, kept),
            table: PageTable { pages_per_lane, pages: device.allocate(options.lanes * pages_per_lane)? },
            buffers: Buffers::new(&device, options, draws, config.vocabulary)?,
            queue: Queue::default(),
            device,
        };
        if let Some(left) = loaded.device.memory_left()? {
            let pages = left.saturating_sub(SPARE_BYTES) as usize / page_bytes;
            loaded.pool = PagePool::new(reserved.min(pages.max(1)));
        }
        Ok(loaded)
    }
}

/// Bytes of the convolutions' state at one position.
fn state_bytes(config: &TargetConfig) -> usize {
    let convolutions = config.layers.iter().filter(|kind| **kind == LayerKind::Conv).count();
    convolutions * STATE_ROWS * config.hidden * size_of::<bf16>()
}

/// Tapped rows that wait to be absorbed lie behind a round's own: a page of them a lane.
fn activation_sizes(options: &TargetOptions, draws: usize, taps: usize) -> lfm2::ActivationSizes {
    lfm2::ActivationSizes { rows: options.rows, draws, taps, waiting_taps: options.lanes * PAGE }
}

fn limits(options: &TargetOptions, drafter: Option<&DrafterCheckpoint>, queues_ahead: bool) -> Limits {
    Limits {
        lanes: options.lanes,
        context: options.context,
        rows: options.rows,
        block: drafter.map_or(0, |drafter| drafter.config().block),
        has_confidence: drafter.is_some_and(|drafter| drafter.config().has_confidence),
        page: PAGE,
        queues_ahead,
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
            no_drafts: device.allocate(1)?,
            logprobs: LogprobBuffers {
                index: device.allocate(draws)?,
                tokens: device.allocate(draws * LOGPROB_WIDTH)?,
                values: device.allocate(draws * LOGPROB_WIDTH)?,
            },
            accepted: device.allocate(options.lanes)?,
            copy_from: device.allocate(options.rows.max(STATE_ROWS))?,
            copy_to: device.allocate(options.rows.max(STATE_ROWS))?,
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
        // Besides a round's own rows, up to a page of waiting ones a lane.
        let context_rows = options.rows + options.lanes * PAGE;
        Ok(Drafter {
            model: DSpark::load(device, checkpoint, pages_for(options.context) * PAGE)?,
            state: dspark::State::new(device, config, pages)?,
            activations: dspark::Activations::new(device, config, context_rows, options.lanes)?,
            context_rows: Rows::new(device, context_rows)?,
            tap_index: device.allocate(context_rows)?,
            gathered: device.allocate(context_rows * config.taps.len() * config.hidden)?,
            rows: Rows::new(device, options.lanes * config.block)?,
            rules: device.allocate(options.lanes)?,
        })
    }
}
