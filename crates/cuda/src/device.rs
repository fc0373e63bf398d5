//! The device: each operation of the seam handed to its kernels.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use forerunner_tensor::{
    Accepted, ConvRing, Device, DeviceError, DeviceWindow, DrawRow, DrawTables, Element, ExpertWeights,
    HeadNorms, HeadShape, HostMatrix, KeyValuePages, MarkovHead, MemoryMeter, PageTable, ReadBackPart,
    RopeTable, RoundKey, RouteRule, Routing, Rows, bf16,
};

use crate::buffer::Buffer;
use crate::draw::Chain;
use crate::driver::{Address, Driver, failed};
use crate::linear::Write;
use crate::memory::{Arrivals, ReadBack, Staging};
use crate::module::{Grid, Kernel, Module, Params};
use crate::rounds::{self, Action, Rounds};
use crate::rows::{CopyParams, NormParams};
use crate::scratch::{Place, Scratch};
use crate::weights::{Experts, Loader, Matrix};

/// What can be chosen at start.
#[derive(Debug, Clone, Copy)]
pub struct CudaOptions {
    /// Which GPU.
    pub ordinal: usize,
    /// Whether a kernel may start while the one before it ends. It changes no bit; off helps to find faults.
    pub overlap: bool,
    /// Whether rounds are recorded and replayed, and norms joined with products in them. It changes no bit either.
    pub record: bool,
    /// Kernels to use in place of the built ones: for work on kernels.
    pub image: Option<&'static [u8]>,
}

impl Default for CudaOptions {
    fn default() -> Self {
        CudaOptions { ordinal: 0, overlap: true, record: true, image: None }
    }
}

/// A GPU as a device. Operations are queued on one stream, from one thread at a time.
pub struct CudaDevice {
    // Dropped in this order: recorded rounds and pinned memory before the module, all of them before the driver.
    rounds: RefCell<Rounds>,
    staging: RefCell<Staging>,
    arrivals: RefCell<Arrivals>,
    scratch: RefCell<Scratch>,
    module: Module,
    pub(crate) driver: Arc<Driver>,
    record: bool,
    is_recording: Cell<bool>,
    /// Whether a round is being run or recorded: then a norm may wait for the product that reads it.
    pub(crate) in_round: Cell<bool>,
    pub(crate) waiting_norm: Cell<Option<NormParams>>,
    /// The first failure since the last wait; operations have no other way to tell.
    failure: RefCell<Option<DeviceError>>,
}

impl CudaDevice {
    /// Opens a GPU and loads the kernels; an error when there is no driver or no GPU that they run on.
    pub fn new(options: CudaOptions) -> Result<Self, DeviceError> {
        let driver = Arc::new(Driver::open(options.ordinal)?);
        let module = Module::load(&driver, &options)?;
        Ok(CudaDevice {
            rounds: RefCell::default(),
            staging: RefCell::new(Staging::new(&driver)?),
            arrivals: RefCell::default(),
            scratch: RefCell::default(),
            module,
            driver,
            record: options.record,
            is_recording: Cell::new(false),
            in_round: Cell::new(false),
            waiting_norm: Cell::new(None),
            failure: RefCell::new(None),
        })
    }

    /// The chip, such as `NVIDIA H200`.
    pub fn chip(&self) -> &str {
        &self.driver.chip
    }

    /// Bytes a second that kernels read at best, and that a copy moves, reads and writes counted: the median of a few
    /// passes over `bytes` bytes.
    pub fn bandwidth(&self, bytes: usize) -> Result<[f64; 2], DeviceError> {
        let from = Buffer::<f32>::zeroed(&self.driver, bytes / 4)?;
        let to = Buffer::<f32>::zeroed(&self.driver, bytes / 4)?;
        let mut rates = [0.0; 2];
        for (write, rate) in [0, 1].into_iter().zip(&mut rates) {
            let params = BandwidthParams {
                from: from.address(),
                to: to.address(),
                count: (bytes / 16) as u64,
                write,
                reserved: 0,
            };
            let mut seconds = Vec::new();
            for _ in 0..9 {
                self.driver.wait()?;
                let start = std::time::Instant::now();
                for _ in 0..4 {
                    let grid = Grid::new(8 * self.driver.resources.multiprocessors, 1, 512);
                    self.launch(Kernel::Bandwidth, grid, &params)?;
                }
                self.driver.wait()?;
                seconds.push(start.elapsed().as_secs_f64() / 4.0);
            }
            seconds.sort_by(f64::total_cmp);
            *rate = (bytes * (1 + write as usize)) as f64 / seconds[seconds.len() / 2];
        }
        Ok(rates)
    }

    /// Queues a kernel, after the uploads that wait.
    pub(crate) fn launch<P: Params>(
        &self,
        kernel: Kernel,
        grid: Grid,
        params: &P,
    ) -> Result<(), DeviceError> {
        self.settle()?;
        self.flush()?;
        self.driver.enter()?;
        self.module.launch(&self.driver, kernel, grid, params)
    }

    pub(crate) fn scratch(&self, place: Place, bytes: usize) -> Result<Address, DeviceError> {
        self.scratch.borrow_mut().take(&self.driver, place, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if self.is_recording.get() {
            return Ok(());
        }
        self.driver.enter()?;
        self.staging.borrow_mut().flush(&self.driver, &self.module)
    }

    /// Keeps the first failure for the next wait.
    fn note(&self, outcome: Result<(), DeviceError>) {
        if let Err(error) = outcome {
            self.failure.borrow_mut().get_or_insert(error);
        }
    }

    fn noted(&self) -> Result<(), DeviceError> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err)
    }

    fn loader(&self) -> Loader<'_> {
        Loader { driver: &self.driver, module: &self.module }
    }

    /// Runs a round; norms may wait for their products until its end.
    fn run(&self, forward: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        self.in_round.set(true);
        let outcome = forward();
        self.in_round.set(false);
        outcome.and_then(|()| self.settle())
    }

    fn record(
        &self,
        key: RoundKey,
        forward: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        rounds::begin(&self.driver)?;
        self.is_recording.set(true);
        let outcome = self.run(forward);
        self.is_recording.set(false);
        let outcome = outcome.and_then(|()| self.noted());
        if outcome.is_err() {
            rounds::abandon(&self.driver);
            return outcome;
        }
        self.rounds.borrow_mut().end(&self.driver, key)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct BandwidthParams {
    from: Address,
    to: Address,
    count: u64,
    write: i32,
    reserved: i32,
}

// SAFETY: `BandwidthParams` of `memory.cuh`.
unsafe impl Params for BandwidthParams {}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; memory must not be freed under a kernel.
        if self.driver.enter().is_ok() {
            let _ = self.driver.wait();
        }
    }
}

impl Device for CudaDevice {
    type Buffer<T: Element> = Buffer<T>;
    type Matrix = Matrix;
    type Experts = Experts;
    type ReadBack = ReadBack;

    fn name(&self) -> &str {
        crate::NAME
    }

    fn mode(&self) -> &str {
        "mma"
    }

    fn is_asynchronous(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<MemoryMeter> {
        Some(self.driver.memory.clone())
    }

    fn allocate<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::zeroed(&self.driver, len)
    }

    fn reserve<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        match self.driver.granule {
            Some(_) => Buffer::reserved(&self.driver, len),
            None => Buffer::zeroed(&self.driver, len),
        }
    }

    fn commit<T: Element>(&self, buffer: &mut Buffer<T>, values: Range<usize>) -> Result<(), DeviceError> {
        buffer.commit(values)
    }

    fn memory_left(&self) -> Result<Option<u64>, DeviceError> {
        self.driver.granule.map(|_| self.driver.memory_left()).transpose()
    }

    fn upload<T: Element>(&self, buffer: &mut Buffer<T>, offset: usize, values: &[T]) {
        let to = buffer.span(offset, values.len());
        self.note(if self.is_recording.get() {
            Err(failed("an upload inside a round cannot be recorded"))
        } else {
            let bytes = bytemuck::cast_slice(values);
            self.staging.borrow_mut().upload(&self.driver, &self.module, to, bytes)
        });
    }

    fn queue_read_back(&self, parts: &[ReadBackPart<'_, Self>]) -> ReadBack {
        let span = |part: &ReadBackPart<'_, Self>| match part {
            ReadBackPart::I32(buffer, len) => (buffer.first(*len), len * size_of::<i32>()),
            ReadBackPart::F32(buffer, len) => (buffer.first(*len), len * size_of::<f32>()),
            ReadBackPart::Accepted(buffer, len) => (buffer.first(*len), len * size_of::<Accepted>()),
        };
        let spans: Vec<(Address, usize)> = parts.iter().map(span).collect();
        let queued = self.flush().and_then(|()| {
            let read_back = self.arrivals.borrow_mut().queue(&self.driver, &self.module, &spans)?;
            self.staging.borrow_mut().next_segment(&self.driver)?;
            Ok(read_back)
        });
        queued.unwrap_or_else(|error| {
            self.note(Err(error));
            ReadBack::failed()
        })
    }

    fn wait(&self, read_back: ReadBack, words: &mut [u32]) -> Result<(), DeviceError> {
        self.driver.enter()?;
        self.arrivals.borrow_mut().wait(read_back, words)?;
        self.noted()
    }

    fn download<T: Element>(
        &self,
        buffer: &Buffer<T>,
        offset: usize,
        out: &mut [T],
    ) -> Result<(), DeviceError> {
        self.flush()?;
        let from = buffer.span(offset, out.len());
        self.driver.copy_from(bytemuck::cast_slice_mut(out), from)?;
        self.noted()
    }

    fn load_matrix(&self, parts: &[HostMatrix<'_>]) -> Result<Matrix, DeviceError> {
        self.flush()?;
        self.loader().matrix(parts)
    }

    fn load_experts<'a>(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Experts, DeviceError> {
        self.flush()?;
        self.loader().experts(experts)
    }

    fn round(
        &self,
        key: RoundKey,
        forward: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.flush()?;
        if !self.record {
            return forward();
        }
        let action = self.rounds.borrow_mut().start(&self.driver, key)?;
        match action {
            Action::Run => self.run(forward),
            Action::Record => self.record(key, forward),
            Action::Done => Ok(()),
        }
    }

    fn embed(&self, table: &Matrix, rows: &Rows<Self>, out: &mut Buffer<bf16>) {
        self.note(self.embed_rows(table, rows, out));
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
        self.note(self.norm_rows(x, weight, epsilon, (count, width), out));
    }

    fn linear(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, out: &mut Buffer<bf16>) {
        let out = out.first(count * matrix.layout.outputs);
        self.note(self.dense_product(matrix, x, count, out, Write::Bf16));
    }

    fn linear_add(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, residual: &mut Buffer<bf16>) {
        let out = residual.first(count * matrix.layout.outputs);
        self.note(self.dense_product(matrix, x, count, out, Write::Add));
    }

    fn logits(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, out: &mut Buffer<f32>) {
        let out = out.first(count * matrix.layout.outputs);
        self.note(self.dense_product(matrix, x, count, out, Write::F32));
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
        self.note(self.rotate_and_append(stacked, shape, norms, rope, rows, table, pages));
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
        self.note(self.attend(stacked, shape, rows, table, pages, out));
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
        self.note(self.convolve(projected, weight, channels, rows, ring, out));
    }

    fn project_short_conv(
        &self,
        matrix: &Matrix,
        x: &Buffer<bf16>,
        weight: &Buffer<bf16>,
        channels: usize,
        rows: &Rows<Self>,
        ring: &mut ConvRing<Self>,
        projected: &mut Buffer<bf16>,
        out: &mut Buffer<bf16>,
    ) {
        self.note(self.project_and_convolve(matrix, x, weight, channels, rows, ring, projected, out));
    }

    fn feed_forward(
        &self,
        gate_up: &Matrix,
        down: &Matrix,
        x: &Buffer<bf16>,
        count: usize,
        residual: &mut Buffer<bf16>,
    ) {
        self.note(self.dense_feed_forward(gate_up, down, x, count, residual));
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
        self.note(self.route_rows(router, bias, rule, x, rows, layer, routing));
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
        self.note(self.picked_feed_forward(experts, routing, picks, x, rows, residual));
    }

    fn mixture(
        &self,
        router: &Matrix,
        bias: &Buffer<f32>,
        rule: RouteRule,
        experts: &Experts,
        x: &Buffer<bf16>,
        rows: &Rows<Self>,
        layer: usize,
        routing: &mut Routing<Self>,
        residual: &mut Buffer<bf16>,
    ) {
        self.note(self.mixture_rows((router, bias, rule), experts, x, rows, layer, routing, residual));
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
        let params = CopyParams {
            from: x.first(count * width),
            to: out.first(count * out_width),
            from_width: width as i32,
            to_width: out_width as i32,
            to_offset: offset as i32,
            width: width as i32,
            ..CopyParams::default()
        };
        self.note(self.copy(count, &params));
    }

    fn copy_rows(
        &self,
        buffer: &mut Buffer<bf16>,
        from: &Buffer<i32>,
        to: &Buffer<i32>,
        count: usize,
        width: usize,
    ) {
        let params = CopyParams {
            from: buffer.address(),
            to: buffer.address(),
            from_index: from.first(count),
            to_index: to.first(count),
            from_width: width as i32,
            to_width: width as i32,
            width: width as i32,
            ..CopyParams::default()
        };
        self.note(self.copy(count, &params));
    }

    fn gather_rows(
        &self,
        x: &Buffer<bf16>,
        index: &Buffer<i32>,
        count: usize,
        width: usize,
        out: &mut Buffer<bf16>,
    ) {
        let params = CopyParams {
            from: x.address(),
            to: out.first(count * width),
            from_index: index.first(count),
            from_width: width as i32,
            to_width: width as i32,
            width: width as i32,
            ..CopyParams::default()
        };
        self.note(self.copy(count, &params));
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
        self.note(self.draw_rows(logits, rules, rows, tables, count, drawn));
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
        self.note(self.tell_log_probabilities(logits, vocabulary, drawn, index, count, tokens, values));
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
        self.note(self.fill_held_tokens(windows, count, accepted, drafts, size, rows));
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
        self.note(self.accept_windows(windows, count, rows, drawn, tables, accepted));
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
        self.note(self.fill_draft_rows(windows, count, accepted, size, mask_token, block_rows));
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
        let chain = Chain {
            head,
            hidden,
            hidden_width,
            logits,
            rules,
            rows: block_rows,
            tables,
            blocks,
            size,
            depth,
            drafts,
            confidence,
        };
        self.note(self.run_chain(&chain));
    }
}
