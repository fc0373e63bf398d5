//! The device: each operation of the seam handed to its kernels.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use forerunner_tensor::{
    Accepted, ConvRing, Device, DeviceError, DeviceWindow, DrawRow, DrawTables, Element, ExpertWeights,
    HeadNorms, HeadShape, HostMatrix, KeyValuePages, MarkovHead, MemoryMeter, PageTable, ReadBackPart,
    RopeTable, RoundKey, RouteRule, Routing, Rows, bf16,
};

use crate::buffer::{Buffer, Memory};
use crate::draw::Chain;
use crate::driver::Driver;
use crate::joined::WaitingNorm;
use crate::linear::Write;
use crate::loader::Loader;
use crate::memory::{Arrivals, ReadBack};
use crate::recorder::Recorder;
use crate::scratch::{Place, Scratch};
use crate::shaders::Kernel;
use crate::weights::{Experts, Format, Matrix};

/// What can be chosen at start.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// A part of the adapter's name; without it the adapter with the most to offer is taken.
    pub adapter: Option<String>,
    /// Whether shaders check their indices. It changes no bit, costs time, and helps to find faults.
    pub checked: bool,
    /// Most bytes of a buffer of weights, where less is wanted than the adapter can bind: for tests.
    pub most_weight_bytes: Option<usize>,
}

/// A GPU as a device. Operations are queued from one thread at a time.
pub struct GpuDevice {
    recorder: RefCell<Recorder>,
    arrivals: RefCell<Arrivals>,
    scratch: RefCell<Scratch>,
    pub(crate) driver: Arc<Driver>,
    most_weight_bytes: usize,
    /// Buffer, rows, picks and experts of what was grouped last; none after an upload.
    pub(crate) grouped: Cell<Option<(u32, usize, usize, usize)>>,
    /// Of the last operation, if it was a norm of one row: whatever comes next queues it or does it.
    pub(crate) waiting_norm: Cell<Option<WaitingNorm>>,
    /// The first failure since the last wait; operations have no other way to tell.
    failure: RefCell<Option<DeviceError>>,
}

/// Half a word that is written beside what stays.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PatchParams {
    word: u32,
    mask: u32,
    value: u32,
}

impl GpuDevice {
    /// Opens an adapter; an error when there is none, or none with that name, or one without immediates.
    pub fn new(options: &GpuOptions) -> Result<Self, DeviceError> {
        let driver = Arc::new(Driver::open(options.adapter.as_deref())?);
        let most = driver.limits.max_storage_buffer_binding_size.min(driver.limits.max_buffer_size) as usize;
        Ok(GpuDevice {
            recorder: RefCell::new(Recorder::new(&driver, options.checked)?),
            arrivals: RefCell::default(),
            scratch: RefCell::default(),
            driver,
            most_weight_bytes: options.most_weight_bytes.map_or(most, |wanted| wanted.min(most)),
            grouped: Cell::new(None),
            waiting_norm: Cell::new(None),
            failure: RefCell::new(None),
        })
    }

    /// The adapter with its API and driver, such as `llvmpipe (Vulkan, Mesa 22.3.6)`.
    pub fn adapter(&self) -> String {
        let wgpu::AdapterInfo { name, backend, driver_info, .. } = &self.driver.info;
        let driver = if driver_info.is_empty() { String::new() } else { format!(", {driver_info}") };
        format!("{name} ({backend:?}{driver})")
    }

    /// Whether weights are written straight into memory that shaders read, without a copy.
    pub fn is_unified(&self) -> bool {
        self.driver.is_unified
    }

    /// Queues a kernel, when its grid has workgroups.
    pub(crate) fn launch<P: Pod>(
        &self,
        kernel: (Kernel, Format),
        buffers: &[&Memory],
        params: &P,
        grid: [usize; 3],
    ) -> Result<(), DeviceError> {
        self.settle()?;
        if grid.contains(&0) {
            return Ok(());
        }
        self.recorder.borrow_mut().dispatch(&self.driver, kernel, buffers, params, grid)
    }

    pub(crate) fn scratch(&self, place: Place, bytes: usize) -> Result<Arc<Memory>, DeviceError> {
        self.scratch.borrow_mut().take(&self.driver, place, bytes)
    }

    /// Stands where a kernel reads or writes nothing.
    pub(crate) fn nothing(&self) -> Result<Arc<Memory>, DeviceError> {
        self.scratch(Place::Nothing, 256)
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
        Loader { driver: &self.driver, most_bytes: self.most_weight_bytes }
    }

    /// Writes bytes from byte `offset` on; half words at the ends beside what is there.
    fn write(&self, to: &Memory, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.grouped.set(None);
        self.settle()?;
        let head = if offset.is_multiple_of(4) { 0 } else { bytes.len().min(2) };
        let (head, rest) = bytes.split_at(head);
        let (whole, tail) = rest.split_at(rest.len() / 4 * 4);
        let start = offset + head.len() as u64;
        self.patch(to, offset, head)?;
        self.recorder.borrow_mut().upload(&self.driver, to, start, whole);
        self.patch(to, start + whole.len() as u64, tail)
    }

    /// Writes half a word, or nothing.
    fn patch(&self, to: &Memory, offset: u64, half: &[u8]) -> Result<(), DeviceError> {
        let &[low, high] = half else { return Ok(()) };
        let shift = (offset % 4 * 8) as u32;
        let params = PatchParams {
            word: (offset / 4) as u32,
            mask: 0xffff << shift,
            value: u32::from(u16::from_le_bytes([low, high])) << shift,
        };
        self.launch((Kernel::PatchWord, Format::Bf16), &[to], &params, [1, 1, 1])
    }
}

impl Device for GpuDevice {
    type Buffer<T: Element> = Buffer<T>;
    type Matrix = Matrix;
    type Experts = Experts;
    type ReadBack = ReadBack;

    fn name(&self) -> &str {
        crate::NAME
    }

    fn mode(&self) -> &str {
        "wgsl"
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

    fn upload<T: Element>(&self, buffer: &mut Buffer<T>, offset: usize, values: &[T]) {
        let start = buffer.byte_offset(offset, values.len());
        self.note(self.write(&buffer.memory, start, bytemuck::cast_slice(values)));
    }

    fn queue_read_back(&self, parts: &[ReadBackPart<'_, Self>]) -> ReadBack {
        let mut spans: Vec<(&Memory, u64, u64)> = Vec::with_capacity(parts.len());
        for part in parts {
            let (memory, bytes) = match part {
                ReadBackPart::I32(buffer, len) => (&buffer.memory, buffer.byte_offset(*len, 0)),
                ReadBackPart::F32(buffer, len) => (&buffer.memory, buffer.byte_offset(*len, 0)),
                ReadBackPart::Accepted(buffer, len) => (&buffer.memory, buffer.byte_offset(*len, 0)),
            };
            spans.push((memory, 0, bytes));
        }
        self.note(self.settle());
        let mut recorder = self.recorder.borrow_mut();
        let queued = self.arrivals.borrow_mut().queue(&self.driver, &mut recorder, &spans);
        queued.unwrap_or_else(|error| {
            self.note(Err(error));
            ReadBack::failed()
        })
    }

    fn wait(&self, read_back: ReadBack, words: &mut [u32]) -> Result<(), DeviceError> {
        let copy = |bytes: &[u8]| bytemuck::cast_slice_mut(words).copy_from_slice(bytes);
        self.arrivals.borrow_mut().wait(&self.driver, read_back, copy)?;
        self.noted()
    }

    fn download<T: Element>(
        &self,
        buffer: &Buffer<T>,
        offset: usize,
        out: &mut [T],
    ) -> Result<(), DeviceError> {
        let first = buffer.byte_offset(offset, out.len());
        let out: &mut [u8] = bytemuck::cast_slice_mut(out);
        let start = first / 4 * 4;
        let end = (first + out.len() as u64).next_multiple_of(4);
        self.settle()?;
        let mut arrivals = self.arrivals.borrow_mut();
        let span = (&buffer.memory, start, end - start);
        let read_back = arrivals.queue(&self.driver, &mut self.recorder.borrow_mut(), &[span])?;
        let inside = (first - start) as usize;
        arrivals.wait(&self.driver, read_back, |bytes| {
            out.copy_from_slice(&bytes[inside..inside + out.len()]);
        })?;
        self.noted()
    }

    fn load_matrix(&self, parts: &[HostMatrix<'_>]) -> Result<Matrix, DeviceError> {
        self.loader().matrix(parts)
    }

    fn load_experts<'a>(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Experts, DeviceError> {
        self.loader().experts(experts)
    }

    fn round(
        &self,
        _key: RoundKey,
        forward: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        // There is no list that could be queued twice; what costs time, the bind groups, is kept.
        forward()
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
        self.note(self.dense_product(matrix, x, count, out, Write::Bf16));
    }

    fn linear_add(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, residual: &mut Buffer<bf16>) {
        self.note(self.dense_product(matrix, x, count, residual, Write::Add));
    }

    fn logits(&self, matrix: &Matrix, x: &Buffer<bf16>, count: usize, out: &mut Buffer<f32>) {
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
        let x_rows = x.first(rows.count * matrix.inputs);
        match self.project_and_convolve(matrix, x_rows, weight, channels, rows, ring, out) {
            Some(outcome) => self.note(outcome),
            None => {
                self.linear(matrix, x, rows.count, projected);
                self.short_conv(projected, weight, channels, rows, ring, out);
            }
        }
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
        match self.mix_one_row(router, bias, rule, experts, x, rows, layer, routing, residual) {
            Some(outcome) => self.note(outcome),
            None => {
                self.route(router, bias, rule, x, rows, layer, routing);
                self.expert_feed_forward(experts, routing, rule.picks, x, rows, residual);
            }
        }
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
        self.note(self.copy_into_columns(x, (count, width), out, (out_width, offset)));
    }

    fn copy_rows(
        &self,
        buffer: &mut Buffer<bf16>,
        from: &Buffer<i32>,
        to: &Buffer<i32>,
        count: usize,
        width: usize,
    ) {
        self.note(self.copy_within(buffer, from, to, (count, width)));
    }

    fn gather_rows(
        &self,
        x: &Buffer<bf16>,
        index: &Buffer<i32>,
        count: usize,
        width: usize,
        out: &mut Buffer<bf16>,
    ) {
        self.note(self.gather(x, index, (count, width), out));
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
