//! Draws, acceptance, and the drafter's rows and chain.

use forerunner_tensor::{
    ALTERNATIVES, Accepted, DeviceError, DeviceWindow, DrawRow, DrawTables, MarkovHead, Rows, bf16,
};

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::driver::Address;
use crate::linear::{BiasOf, Write};
use crate::module::{Grid, Kernel, Params};
use crate::rows::RowsParam;
use crate::scratch::Place;
use crate::weights::WeightsParam;

/// Threads of a block that draws.
const DRAW_THREADS: usize = 512;
/// Tokens of a row that a block draws from at least.
const TOKENS_OF_BLOCK: usize = 4096;

#[repr(C)]
#[derive(Clone, Copy)]
struct DrawParams {
    logits: Address,
    rules: Address,
    draft_tokens: Address,
    counts: Address,
    logit_bias: Address,
    masks: Address,
    drawn: Address,
    parts: Address,
    counters: Address,
    block_lane: Address,
    block_position: Address,
    vocabulary: i32,
    step: i32,
    size: i32,
    reserved: i32,
}

// SAFETY: `DrawParams` of `draw.cuh`.
unsafe impl Params for DrawParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct AcceptParams {
    windows: Address,
    drawn: Address,
    counts: Address,
    accepted: Address,
    rows: RowsParam,
    windows_count: i32,
    vocabulary: i32,
}

// SAFETY: `AcceptParams` of `draw.cuh`.
unsafe impl Params for AcceptParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct DraftRowsParams {
    windows: Address,
    accepted: Address,
    token: Address,
    lane: Address,
    position: Address,
    key_end: Address,
    windows_count: i32,
    rows: i32,
    size: i32,
    mask_token: i32,
}

// SAFETY: `DraftRowsParams` of `draw.cuh`.
unsafe impl Params for DraftRowsParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct ChainParams {
    previous: WeightsParam,
    hidden: Address,
    confidence_weight: Address,
    confidence_bias: Address,
    block_lane: Address,
    block_token: Address,
    drafts: Address,
    embeddings: Address,
    confidence: Address,
    format: i32,
    hidden_width: i32,
    size: i32,
    step: i32,
}

// SAFETY: `ChainParams` of `draw.cuh`.
unsafe impl Params for ChainParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct HeldParams {
    windows: Address,
    accepted: Address,
    drafts: Address,
    token: Address,
    windows_count: i32,
    size: i32,
}

// SAFETY: `HeldParams` of `draw.cuh`.
unsafe impl Params for HeldParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct LogProbabilityParams {
    logits: Address,
    drawn: Address,
    index: Address,
    tokens: Address,
    values: Address,
    vocabulary: i32,
    reserved: i32,
}

// SAFETY: `LogProbabilityParams` of `draw.cuh`.
unsafe impl Params for LogProbabilityParams {}

/// What the chain of all blocks reads and writes.
pub(crate) struct Chain<'a> {
    pub(crate) head: &'a MarkovHead<CudaDevice>,
    pub(crate) hidden: &'a Buffer<bf16>,
    pub(crate) hidden_width: usize,
    pub(crate) logits: &'a Buffer<f32>,
    pub(crate) rules: &'a Buffer<DrawRow>,
    pub(crate) rows: &'a Rows<CudaDevice>,
    pub(crate) tables: &'a DrawTables<CudaDevice>,
    pub(crate) blocks: usize,
    pub(crate) size: usize,
    pub(crate) depth: usize,
    pub(crate) drafts: &'a Buffer<i32>,
    pub(crate) confidence: &'a Buffer<f32>,
}

impl CudaDevice {
    pub(crate) fn draw_rows(
        &self,
        logits: &Buffer<f32>,
        rules: &Buffer<DrawRow>,
        rows: &Rows<CudaDevice>,
        tables: &DrawTables<CudaDevice>,
        count: usize,
        drawn: &Buffer<i32>,
    ) -> Result<(), DeviceError> {
        let params = DrawParams {
            logits: logits.first(count * tables.vocabulary),
            draft_tokens: rows.token.address(),
            drawn: drawn.first(count),
            ..self.draw_params(rules, tables, count)?
        };
        self.launch_rows(Kernel::Draw, draw_grid(tables.vocabulary, count), &params)
    }

    fn draw_params(
        &self,
        rules: &Buffer<DrawRow>,
        tables: &DrawTables<CudaDevice>,
        count: usize,
    ) -> Result<DrawParams, DeviceError> {
        let parts = draw_grid(tables.vocabulary, count).blocks[0];
        Ok(DrawParams {
            logits: 0,
            rules: rules.first(count),
            draft_tokens: 0,
            counts: tables.counts.address(),
            logit_bias: tables.logit_bias.address(),
            masks: tables.masks.address(),
            drawn: 0,
            parts: self.scratch(Place::DrawParts, count * parts * size_of::<u64>())?,
            counters: self.scratch(Place::Counters, count * size_of::<u32>())?,
            block_lane: 0,
            block_position: 0,
            vocabulary: tables.vocabulary as i32,
            step: -1,
            size: 0,
            reserved: 0,
        })
    }

    pub(crate) fn tell_log_probabilities(
        &self,
        logits: &Buffer<f32>,
        vocabulary: usize,
        drawn: &Buffer<i32>,
        index: &Buffer<i32>,
        count: usize,
        tokens: &Buffer<i32>,
        values: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        let params = LogProbabilityParams {
            logits: logits.address(),
            drawn: drawn.address(),
            index: index.first(count),
            tokens: tokens.first(count * (1 + ALTERNATIVES)),
            values: values.first(count * (1 + ALTERNATIVES)),
            vocabulary: vocabulary as i32,
            reserved: 0,
        };
        self.launch_rows(Kernel::LogProbabilities, Grid::new(count, 1, DRAW_THREADS), &params)
    }

    pub(crate) fn accept_windows(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        rows: &Rows<CudaDevice>,
        drawn: &Buffer<i32>,
        tables: &DrawTables<CudaDevice>,
        accepted: &Buffer<Accepted>,
    ) -> Result<(), DeviceError> {
        let params = AcceptParams {
            windows: windows.first(count),
            drawn: drawn.address(),
            counts: tables.counts.address(),
            accepted: accepted.first(count),
            rows: RowsParam::new(rows),
            windows_count: count as i32,
            vocabulary: tables.vocabulary as i32,
        };
        self.launch_rows(Kernel::Accept, Grid::new(count.div_ceil(32), 1, 32), &params)
    }

    pub(crate) fn fill_held_tokens(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        accepted: &Buffer<Accepted>,
        drafts: &Buffer<i32>,
        size: usize,
        rows: &Rows<CudaDevice>,
    ) -> Result<(), DeviceError> {
        let params = HeldParams {
            windows: windows.first(count),
            accepted: accepted.address(),
            drafts: drafts.address(),
            token: rows.token.first(rows.count),
            windows_count: count as i32,
            size: size as i32,
        };
        self.launch_rows(Kernel::HeldTokens, Grid::new(count, 1, 32), &params)
    }

    pub(crate) fn fill_draft_rows(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        accepted: &Buffer<Accepted>,
        size: usize,
        mask_token: i32,
        rows: &Rows<CudaDevice>,
    ) -> Result<(), DeviceError> {
        let params = DraftRowsParams {
            windows: windows.first(count),
            accepted: accepted.first(count),
            token: rows.token.first(rows.count),
            lane: rows.lane.first(rows.count),
            position: rows.position.first(rows.count),
            key_end: rows.key_end.first(rows.count),
            windows_count: count as i32,
            rows: rows.count as i32,
            size: size as i32,
            mask_token,
        };
        self.launch(Kernel::DraftRows, Grid::new(1, 1, 256), &params)
    }

    /// Three kernels a step: the embedding of the token before, the biases that it gives, the draw.
    pub(crate) fn run_chain(&self, chain: &Chain<'_>) -> Result<(), DeviceError> {
        let vocabulary = chain.tables.vocabulary;
        let rank = chain.head.previous.layout.inputs;
        let embeddings = self.scratch(Place::ChainEmbeddings, chain.blocks * rank * size_of::<bf16>())?;
        let logits = self.scratch(Place::ChainLogits, chain.blocks * vocabulary * size_of::<f32>())?;
        let (weight, bias) = match &chain.head.confidence {
            Some((weight, bias)) => (weight.first(chain.hidden_width + rank), bias.first(1)),
            None => (0, 0),
        };
        for step in 0..chain.depth.min(chain.size) {
            let params = ChainParams {
                previous: chain.head.previous.param(),
                hidden: chain.hidden.first(chain.rows.count * chain.hidden_width),
                confidence_weight: weight,
                confidence_bias: bias,
                block_lane: chain.rows.lane.address(),
                block_token: chain.rows.token.address(),
                drafts: chain.drafts.first(chain.blocks * chain.size),
                embeddings,
                confidence: chain.confidence.first(chain.blocks * chain.size),
                format: chain.head.previous.layout.format.index() as i32,
                hidden_width: chain.hidden_width as i32,
                size: chain.size as i32,
                step: step as i32,
            };
            self.launch_rows(Kernel::ChainEmbed, Grid::new(chain.blocks, 1, 256), &params)?;
            let of_logits = BiasOf { logits: chain.logits.address(), rows: chain.size, row: step };
            self.product(&chain.head.next, embeddings, chain.blocks, logits, Write::Bias, of_logits)?;
            let params = DrawParams {
                logits,
                draft_tokens: chain.drafts.address(),
                drawn: chain.drafts.address(),
                block_lane: chain.rows.lane.address(),
                block_position: chain.rows.position.address(),
                step: step as i32,
                size: chain.size as i32,
                ..self.draw_params(chain.rules, chain.tables, chain.blocks)?
            };
            self.launch_rows(Kernel::Draw, draw_grid(vocabulary, chain.blocks), &params)?;
        }
        Ok(())
    }
}

fn draw_grid(vocabulary: usize, count: usize) -> Grid {
    Grid::new(vocabulary.div_ceil(TOKENS_OF_BLOCK), count, DRAW_THREADS)
}
