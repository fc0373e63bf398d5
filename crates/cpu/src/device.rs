//! The device: its options, and each operation of the seam handed to the code of the chosen mode.

use std::cell::RefCell;

use forerunner_tensor::{
    Accepted, ConvRing, Device, DeviceError, DeviceWindow, DrawRow, DrawTables, Element, ExpertWeights,
    HeadNorms, HeadShape, HostMatrix, KeyValuePages, MarkovHead, PageTable, ReadBackPart, RopeTable,
    RoundKey, RouteRule, Routing, Rows, bf16,
};

#[cfg(target_arch = "x86_64")]
use crate::amx::Amx;
#[cfg(target_arch = "x86_64")]
use crate::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use crate::avx512::Avx512;
use crate::experts::{ExpertScratch, Experts, Picks, Routed};
use crate::memory::{Buffer, Scratch};
use crate::mode::Mode;
#[cfg(target_arch = "aarch64")]
use crate::neon::Neon;
use crate::pool::Pool;
use crate::portable::Portable;
use crate::weights::Matrix;
use crate::windows::{Chain, ChainScratch};
use crate::{
    attention, conv, draw, experts, feed_forward, linear, log_probabilities, math, norm, rope,
    rows as copies, windows,
};

/// What can be chosen at start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// The arithmetic; the best that the processor has, when it is not named.
    pub mode: Option<Mode>,
    /// Threads, the caller's included; as many as the system lends, when it is not named.
    pub threads: Option<usize>,
}

/// The processor as a device. Operations run at once on the caller's thread and its pool.
pub struct CpuDevice {
    mode: Mode,
    pool: Pool,
    scratch: RefCell<DeviceScratch>,
    /// Memory of read-backs that were waited for.
    read_backs: RefCell<Vec<Vec<u32>>>,
}

struct DeviceScratch {
    active: Scratch<bf16>,
    /// Partitions of attention.
    parts: Scratch<f32>,
    experts: ExpertScratch,
    chain: ChainScratch,
}

impl CpuDevice {
    /// Chooses the mode and starts the threads.
    pub fn new(options: CpuOptions) -> Result<Self, DeviceError> {
        let mode = Mode::choose(options.mode)?;
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or_else(available);
        if threads == 0 {
            return Err(DeviceError::Unsupported {
                device: crate::NAME.into(),
                what: "the number of threads".into(),
                found: "0".into(),
                accepted: "1 or more".into(),
            });
        }
        let pool = Pool::new(threads).map_err(|error| DeviceError::Failed {
            device: crate::NAME.into(),
            reason: format!("{threads} threads could not be started: {error}"),
        })?;
        let scratch = DeviceScratch {
            active: Scratch::new(),
            parts: Scratch::new(),
            experts: ExpertScratch::new(),
            chain: ChainScratch::new(),
        };
        Ok(CpuDevice { mode, pool, scratch: RefCell::new(scratch), read_backs: RefCell::default() })
    }

    /// Threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

/// Runs an expression with the type `$arithmetic` standing for the device's mode.
macro_rules! with_mode {
    ($device:expr, $arithmetic:ident => $work:expr) => {
        match $device.mode {
            #[cfg(target_arch = "x86_64")]
            Mode::Amx => {
                type $arithmetic = Amx;
                $work
            }
            #[cfg(target_arch = "x86_64")]
            Mode::Avx512 => {
                type $arithmetic = Avx512;
                $work
            }
            #[cfg(target_arch = "x86_64")]
            Mode::Avx2 => {
                type $arithmetic = Avx2;
                $work
            }
            #[cfg(target_arch = "aarch64")]
            Mode::Neon => {
                type $arithmetic = Neon;
                $work
            }
            _ => {
                type $arithmetic = Portable;
                $work
            }
        }
    };
}

impl Device for CpuDevice {
    type Buffer<T: Element> = Buffer<T>;
    type Matrix = Matrix;
    type Experts = Experts;
    type ReadBack = Vec<u32>;

    fn name(&self) -> &str {
        crate::NAME
    }

    fn mode(&self) -> &str {
        self.mode.name()
    }

    fn is_asynchronous(&self) -> bool {
        false
    }

    fn allocate<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::zeroed(len)
    }

    fn upload<T: Element>(&self, buffer: &mut Buffer<T>, offset: usize, values: &[T]) {
        buffer[offset..offset + values.len()].copy_from_slice(values);
    }

    fn queue_read_back(&self, parts: &[ReadBackPart<'_, Self>]) -> Vec<u32> {
        let mut words = self.read_backs.borrow_mut().pop().unwrap_or_default();
        words.clear();
        for part in parts {
            words.extend_from_slice(match part {
                ReadBackPart::I32(buffer, len) => bytemuck::cast_slice(&buffer[..*len]),
                ReadBackPart::F32(buffer, len) => bytemuck::cast_slice(&buffer[..*len]),
                ReadBackPart::Accepted(buffer, len) => bytemuck::cast_slice(&buffer[..*len]),
            });
        }
        words
    }

    fn wait(&self, read_back: Vec<u32>, words: &mut [u32]) -> Result<(), DeviceError> {
        words.copy_from_slice(&read_back);
        self.read_backs.borrow_mut().push(read_back);
        Ok(())
    }

    fn download<T: Element>(
        &self,
        buffer: &Buffer<T>,
        offset: usize,
        out: &mut [T],
    ) -> Result<(), DeviceError> {
        out.copy_from_slice(&buffer[offset..offset + out.len()]);
        Ok(())
    }

    fn load_matrix(&self, parts: &[HostMatrix<'_>]) -> Result<Matrix, DeviceError> {
        Matrix::load(parts)
    }

    fn load_experts<'a>(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Experts, DeviceError> {
        Experts::load(experts)
    }

    fn round(
        &self,
        _key: RoundKey,
        forward: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        forward()
    }

    fn embed(&self, table: &Matrix, rows: &Rows<Self>, out: &mut Buffer<bf16>) {
        with_mode!(self, A => copies::embed::<A>(&self.pool, table, rows, out));
    }

    fn rms_norm(
        &self,
        x: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        epsilon: f32,
        count: usize,
        width: usize,
        out: &mut Buffer<bf16>,
    ) {
        with_mode!(self, A => norm::rms_norm::<A>(&self.pool, x, weight, epsilon, count, width, out));
    }

    fn linear(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, out: &mut Buffer<bf16>) {
        let write = |out: &mut bf16, sum| *out = math::round(sum);
        with_mode!(self, A => linear::linear::<A, _>(&self.pool, matrix, x, count, out, write));
    }

    fn linear_add(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, residual: &mut Buffer<bf16>) {
        with_mode!(self, A => linear::linear::<A, _>(&self.pool, matrix, x, count, residual, math::add));
    }

    fn logits(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, out: &mut Buffer<f32>) {
        let write = |out: &mut f32, sum| *out = sum;
        with_mode!(self, A => linear::linear::<A, _>(&self.pool, matrix, x, count, out, write));
    }

    fn rope_append(
        &self,
        stacked: &mut Buffer<bf16>,
        shape: HeadShape,
        norms: &HeadNorms<Self>,
        rope: &RopeTable<Self>,
        rows: &Rows<Self>,
        table: &PageTable<Self>,
        pages: &mut KeyValuePages<Self>,
    ) {
        with_mode!(self, A => {
            rope::rope_append::<A>(&self.pool, stacked, shape, norms, rope, rows, table, pages)
        });
    }

    fn attention(
        &self,
        stacked: &Buffer<bf16>,
        shape: HeadShape,
        rows: &Rows<Self>,
        table: &PageTable<Self>,
        pages: &KeyValuePages<Self>,
        out: &mut Buffer<bf16>,
    ) {
        let parts = &mut self.scratch.borrow_mut().parts;
        let groups = attention::Groups { stacked, shape, rows, table, pages };
        with_mode!(self, A => attention::attention::<A>(&self.pool, parts, groups, out));
    }

    fn short_conv(
        &self,
        projected: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        channels: usize,
        rows: &Rows<Self>,
        ring: &mut ConvRing<Self>,
        out: &mut Buffer<bf16>,
    ) {
        with_mode!(self, A => conv::short_conv::<A>(&self.pool, projected, weight, channels, rows, ring, out));
    }

    fn feed_forward(
        &self,
        gate_up: &Matrix,
        down: &Matrix,
        x: &Buffer<bf16>,
        count: usize,
        residual: &mut Buffer<bf16>,
    ) {
        let active = &mut self.scratch.borrow_mut().active;
        with_mode!(self, A => {
            feed_forward::feed_forward::<A>(&self.pool, active, gate_up, down, x, count, residual)
        });
    }

    fn route(
        &self,
        router: &Matrix,
        bias: &Buffer<f32>,
        rule: RouteRule,
        x: &Buffer<bf16>,
        rows: &Rows<Self>,
        layer: usize,
        routing: &mut Routing<Self>,
    ) {
        let scratch = &mut self.scratch.borrow_mut().experts;
        let Routing { experts, weights, distinct } = routing;
        let out = Routed { experts, weights, distinct: &mut distinct[layer] };
        with_mode!(self, A => experts::route::<A>(&self.pool, scratch, router, bias, rule, x, rows, out));
    }

    fn expert_feed_forward(
        &self,
        experts: &Experts,
        routing: &Routing<Self>,
        picks: usize,
        x: &Buffer<bf16>,
        rows: &Rows<Self>,
        residual: &mut Buffer<bf16>,
    ) {
        let scratch = &mut self.scratch.borrow_mut().experts;
        let picks = Picks { experts: &routing.experts, weights: &routing.weights, count: picks };
        with_mode!(self, A => {
            experts::expert_feed_forward::<A>(&self.pool, scratch, experts, picks, x, rows, residual)
        });
    }

    fn copy_columns(
        &self,
        x: &Buffer<bf16>,
        count: usize,
        width: usize,
        out: &mut Buffer<bf16>,
        out_width: usize,
        offset: usize,
    ) {
        copies::copy_columns(&self.pool, x, count, width, out, out_width, offset);
    }

    fn copy_rows(
        &self,
        buffer: &mut Buffer<bf16>,
        from: &Buffer<i32>,
        to: &Buffer<i32>,
        count: usize,
        width: usize,
    ) {
        copies::copy_rows(&self.pool, buffer, &from[..count], &to[..count], width);
    }

    fn gather_rows(
        &self,
        x: &Buffer<bf16>,
        index: &Buffer<i32>,
        count: usize,
        width: usize,
        out: &mut Buffer<bf16>,
    ) {
        copies::gather_rows(&self.pool, x, &index[..count], width, out);
    }

    fn draw(
        &self,
        logits: &Buffer<f32>,
        rules: &Buffer<DrawRow>,
        rows: &Rows<Self>,
        tables: &DrawTables<Self>,
        count: usize,
        drawn: &mut Buffer<i32>,
    ) {
        with_mode!(self, A => draw::draw::<A>(&self.pool, logits, rules, rows, tables, count, drawn));
    }

    fn held_tokens(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        accepted: &Buffer<Accepted>,
        drafts: &Buffer<i32>,
        size: usize,
        rows: &mut Rows<Self>,
    ) {
        windows::held_tokens(&windows[..count], accepted, drafts, size, rows);
    }

    fn log_probabilities(
        &self,
        logits: &Buffer<f32>,
        vocabulary: usize,
        drawn: &Buffer<i32>,
        index: &Buffer<i32>,
        count: usize,
        tokens: &mut Buffer<i32>,
        values: &mut Buffer<f32>,
    ) {
        let index = &index[..count];
        with_mode!(self, A => {
            log_probabilities::log_probabilities::<A>(
                &self.pool, logits, vocabulary, drawn, index, tokens, values,
            )
        });
    }

    fn accept(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        rows: &Rows<Self>,
        drawn: &Buffer<i32>,
        tables: &mut DrawTables<Self>,
        accepted: &mut Buffer<Accepted>,
    ) {
        windows::accept(&windows[..count], rows, drawn, tables, accepted);
    }

    fn draft_rows(
        &self,
        windows: &Buffer<DeviceWindow>,
        count: usize,
        accepted: &Buffer<Accepted>,
        size: usize,
        mask_token: i32,
        block_rows: &mut Rows<Self>,
    ) {
        windows::draft_rows(&windows[..count], accepted, size, mask_token, block_rows);
    }

    fn draft_chain(
        &self,
        head: &MarkovHead<Self>,
        hidden: &Buffer<bf16>,
        hidden_width: usize,
        logits: &Buffer<f32>,
        rules: &Buffer<DrawRow>,
        block_rows: &Rows<Self>,
        tables: &DrawTables<Self>,
        blocks: usize,
        size: usize,
        depth: usize,
        drafts: &mut Buffer<i32>,
        confidence: &mut Buffer<f32>,
    ) {
        let scratch = &mut self.scratch.borrow_mut().chain;
        let chain = Chain { head, hidden, hidden_width, logits, rules, block_rows, tables, size, depth };
        with_mode!(self, A => chain.run::<A>(&self.pool, scratch, blocks, drafts, confidence));
    }
}
