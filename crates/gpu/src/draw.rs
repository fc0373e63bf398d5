//! Draws, acceptance, and the drafter's rows and chain.

use bytemuck::{Pod, Zeroable};
use forerunner_tensor::{
    ALTERNATIVES, Accepted, DeviceError, DeviceWindow, DrawRow, DrawTables, MarkovHead, Rows, bf16,
};

use crate::buffer::{Buffer, Memory};
use crate::device::GpuDevice;
use crate::linear::{BiasOf, Write};
use crate::rows::words_of;
use crate::scratch::Place;
use crate::shaders::Kernel;
use crate::weights::{Format, Stored};

/// Tokens of a row that a workgroup draws from at least.
const TOKENS_OF_PART: usize = 4096;
/// Bytes of a part's best key.
const KEY_BYTES: usize = 8;
/// Windows of a workgroup.
const WINDOWS: usize = 32;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct DrawParams {
    vocabulary: u32,
    parts: u32,
    step: i32,
    size: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LogParams {
    vocabulary: u32,
    alternatives: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct WindowParams {
    windows: u32,
    size: u32,
    vocabulary: u32,
    rows: u32,
    mask_token: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ChainParams {
    inputs: u32,
    group_shift: u32,
    half_scales: u32,
    first: u32,
    count: u32,
    hidden_words: u32,
    size: u32,
    step: u32,
}

/// What a draw reads and writes besides its tables.
struct Drawing<'a> {
    logits: &'a Memory,
    rules: &'a Memory,
    draft_tokens: &'a Memory,
    block_lane: &'a Memory,
    block_position: &'a Memory,
    drawn: &'a Memory,
    count: usize,
    /// The step of a chain and the rows of a block; -1 and 0 otherwise.
    step: i32,
    size: usize,
}

/// What the chain of all blocks reads and writes.
pub(crate) struct Chain<'a> {
    pub(crate) head: &'a MarkovHead<GpuDevice>,
    pub(crate) hidden: &'a Buffer<bf16>,
    pub(crate) hidden_width: usize,
    pub(crate) logits: &'a Buffer<f32>,
    pub(crate) rules: &'a Buffer<DrawRow>,
    pub(crate) rows: &'a Rows<GpuDevice>,
    pub(crate) tables: &'a DrawTables<GpuDevice>,
    pub(crate) blocks: usize,
    pub(crate) size: usize,
    pub(crate) depth: usize,
    pub(crate) drafts: &'a Buffer<i32>,
    pub(crate) confidence: &'a Buffer<f32>,
}

impl GpuDevice {
    pub(crate) fn draw_rows(
        &self,
        logits: &Buffer<f32>,
        rules: &Buffer<DrawRow>,
        rows: &Rows<GpuDevice>,
        tables: &DrawTables<GpuDevice>,
        count: usize,
        drawn: &Buffer<i32>,
    ) -> Result<(), DeviceError> {
        let nothing = self.nothing()?;
        let drawing = Drawing {
            logits: logits.first(count * tables.vocabulary),
            rules: rules.first(count),
            draft_tokens: &rows.token.memory,
            block_lane: &nothing,
            block_position: &nothing,
            drawn: drawn.first(count),
            count,
            step: -1,
            size: 0,
        };
        self.draw_by_rule(&drawing, tables)
    }

    /// Two kernels: parts of each row, then the rows.
    fn draw_by_rule(&self, drawing: &Drawing<'_>, tables: &DrawTables<GpuDevice>) -> Result<(), DeviceError> {
        let vocabulary = tables.vocabulary;
        let parts = vocabulary.div_ceil(TOKENS_OF_PART);
        let keys = self.scratch(Place::DrawParts, drawing.count * parts * KEY_BYTES)?;
        let params = DrawParams {
            vocabulary: vocabulary as u32,
            parts: parts as u32,
            step: drawing.step,
            size: drawing.size as u32,
        };
        let buffers = [
            drawing.logits,
            drawing.rules,
            drawing.draft_tokens,
            &tables.counts.memory,
            &tables.logit_bias.memory,
            &tables.masks.memory,
            drawing.block_lane,
            drawing.block_position,
            &*keys,
            drawing.drawn,
        ];
        self.launch((Kernel::DrawParts, Format::Bf16), &buffers, &params, [parts, drawing.count, 1])?;
        self.launch((Kernel::DrawFinish, Format::Bf16), &buffers, &params, [drawing.count, 1, 1])
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
        let told = count * (1 + ALTERNATIVES);
        let params = LogParams { vocabulary: vocabulary as u32, alternatives: ALTERNATIVES as u32 };
        let buffers =
            [&logits.memory, &drawn.memory, index.first(count), tokens.first(told), values.first(told)];
        self.launch((Kernel::LogProbabilities, Format::Bf16), &buffers, &params, [count, 1, 1])
    }

    pub(crate) fn accept_windows(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        rows: &Rows<GpuDevice>,
        drawn: &Buffer<i32>,
        tables: &DrawTables<GpuDevice>,
        accepted: &Buffer<Accepted>,
    ) -> Result<(), DeviceError> {
        let params = WindowParams {
            windows: count as u32,
            vocabulary: tables.vocabulary as u32,
            ..WindowParams::default()
        };
        let buffers = [
            windows.first(count),
            &rows.token.memory,
            &rows.position.memory,
            &drawn.memory,
            &tables.counts.memory,
            accepted.first(count),
        ];
        self.launch((Kernel::Accept, Format::Bf16), &buffers, &params, [count.div_ceil(WINDOWS), 1, 1])
    }

    pub(crate) fn fill_held_tokens(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        accepted: &Buffer<Accepted>,
        drafts: &Buffer<i32>,
        size: usize,
        rows: &Rows<GpuDevice>,
    ) -> Result<(), DeviceError> {
        let params = WindowParams { windows: count as u32, size: size as u32, ..WindowParams::default() };
        let buffers = [windows.first(count), &accepted.memory, &drafts.memory, rows.token.first(rows.count)];
        self.launch((Kernel::HeldTokens, Format::Bf16), &buffers, &params, [count.div_ceil(WINDOWS), 1, 1])
    }

    pub(crate) fn fill_draft_rows(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        accepted: &Buffer<Accepted>,
        size: usize,
        mask_token: i32,
        rows: &Rows<GpuDevice>,
    ) -> Result<(), DeviceError> {
        let params = WindowParams {
            windows: count as u32,
            size: size as u32,
            rows: rows.count as u32,
            mask_token,
            ..WindowParams::default()
        };
        let buffers = [
            windows.first(count),
            accepted.first(count),
            rows.token.first(rows.count),
            rows.lane.first(rows.count),
            rows.position.first(rows.count),
            rows.key_end.first(rows.count),
        ];
        self.launch((Kernel::DraftRows, Format::Bf16), &buffers, &params, [1, 1, 1])
    }

    /// For each step the embedding of the token before, the biases that it gives, the draw.
    pub(crate) fn run_chain(&self, chain: &Chain<'_>) -> Result<(), DeviceError> {
        let vocabulary = chain.tables.vocabulary;
        let rank = chain.head.previous.inputs;
        let slots = chain.blocks * chain.size;
        let embeddings = self.scratch(Place::ChainEmbeddings, chain.blocks * rank * size_of::<bf16>())?;
        let biased = self.scratch(Place::ChainLogits, chain.blocks * vocabulary * size_of::<f32>())?;
        let nothing = self.nothing()?;
        for step in 0..chain.depth.min(chain.size) {
            self.embed_step(chain, step, &embeddings)?;
            let logits =
                BiasOf { logits: chain.logits.first(slots * vocabulary), rows: chain.size, row: step };
            let next = &chain.head.next;
            self.product(next, &embeddings, chain.blocks, &biased, Write::Bias, Some(logits))?;
            let drawing = Drawing {
                logits: &biased,
                rules: chain.rules.first(chain.blocks),
                draft_tokens: &nothing,
                block_lane: chain.rows.lane.first(slots),
                block_position: chain.rows.position.first(slots),
                drawn: chain.drafts.first(slots),
                count: chain.blocks,
                step: step as i32,
                size: chain.size,
            };
            self.draw_by_rule(&drawing, chain.tables)?;
        }
        Ok(())
    }

    /// The embeddings of the tokens before a step, and the step's confidences.
    fn embed_step(&self, chain: &Chain<'_>, step: usize, embeddings: &Memory) -> Result<(), DeviceError> {
        let nothing = self.nothing()?;
        let (previous, slots) = (&chain.head.previous, chain.blocks * chain.size);
        let (weight, bias, hidden_width) = match &chain.head.confidence {
            Some((weight, bias)) => {
                (weight.first(chain.hidden_width + previous.inputs), bias.first(1), chain.hidden_width)
            }
            None => (&*nothing, &*nothing, 0),
        };
        for part in &previous.parts {
            let params = ChainParams {
                inputs: previous.inputs as u32,
                group_shift: part.kind.group_shift(),
                half_scales: u32::from(part.kind.half_scales),
                first: part.first_output as u32,
                count: part.outputs as u32,
                hidden_words: words_of("the width of a drafter", hidden_width)? as u32,
                size: chain.size as u32,
                step: step as u32,
            };
            let Stored { codes, scales } = &part.stored;
            let buffers = [
                codes,
                scales,
                chain.rows.lane.first(slots),
                chain.rows.token.first(slots),
                chain.drafts.first(slots),
                chain.hidden.first(slots * hidden_width),
                weight,
                bias,
                embeddings,
                chain.confidence.first(slots),
            ];
            let kernel = (Kernel::ChainEmbed, part.kind.format);
            self.launch(kernel, &buffers, &params, [chain.blocks, 1, 1])?;
        }
        Ok(())
    }
}
