//! The oracle: every operation of the device seam in the plainest loops that round where its contract says.

mod attention;
mod conv;
mod dense;
mod draws;
mod experts;
mod log_probabilities;
mod memory;
mod windows;

use forerunner_tensor::{
    ALTERNATIVES, Accepted, ConvRing, Device, DeviceError, DeviceWindow, DrawRow, DrawTables, Element,
    ExpertWeights, HeadNorms, HeadShape, HostMatrix, KeyValuePages, MarkovHead, PageTable, ReadBackPart,
    RopeTable, RoundKey, RouteRule, Routing, Rows, bf16,
};

pub use draws::{RowTables, draw_token, gumbel, philox4x32_10, uniform};
pub use memory::{OracleExpert, OracleMatrix};

/// A device of one thread and no tricks: the fake behind the seam, and the yardstick that other devices are
/// measured against.
///
/// Buffers are vectors, weights are kept as the bf16 values that every device computes with, and each sum
/// runs in fp32 by ascending index. Rows are computed one after another, so a row cannot depend on its
/// neighbours.
#[derive(Debug, Clone, Copy, Default)]
pub struct OracleDevice;

impl Device for OracleDevice {
    type Buffer<T: Element> = Vec<T>;
    type Matrix = OracleMatrix;
    type Experts = Vec<OracleExpert>;
    type ReadBack = Vec<u32>;

    fn name(&self) -> &str {
        "oracle"
    }

    fn mode(&self) -> &str {
        "scalar"
    }

    fn is_asynchronous(&self) -> bool {
        false
    }

    fn allocate<T: Element>(&self, len: usize) -> Result<Vec<T>, DeviceError> {
        Ok(vec![T::default(); len])
    }

    fn upload<T: Element>(&self, buffer: &mut Vec<T>, offset: usize, values: &[T]) {
        buffer[offset..offset + values.len()].copy_from_slice(values);
    }

    fn queue_read_back(&self, parts: &[ReadBackPart<'_, Self>]) -> Vec<u32> {
        let words = |part: &ReadBackPart<'_, Self>| -> Vec<u32> {
            match part {
                ReadBackPart::I32(buffer, len) => bytemuck::cast_slice(&buffer[..*len]).to_vec(),
                ReadBackPart::F32(buffer, len) => bytemuck::cast_slice(&buffer[..*len]).to_vec(),
                ReadBackPart::Accepted(buffer, len) => bytemuck::cast_slice(&buffer[..*len]).to_vec(),
            }
        };
        parts.iter().flat_map(words).collect()
    }

    fn wait(&self, read_back: Vec<u32>, words: &mut [u32]) -> Result<(), DeviceError> {
        words.copy_from_slice(&read_back);
        Ok(())
    }

    fn download<T: Element>(&self, buffer: &Vec<T>, offset: usize, out: &mut [T]) -> Result<(), DeviceError> {
        out.copy_from_slice(&buffer[offset..offset + out.len()]);
        Ok(())
    }

    fn load_matrix(&self, parts: &[HostMatrix<'_>]) -> Result<OracleMatrix, DeviceError> {
        Ok(OracleMatrix::stack(parts))
    }

    fn load_experts<'a>(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Vec<OracleExpert>, DeviceError> {
        Ok(experts.map(|weights| OracleExpert::new(&weights)).collect())
    }

    fn round(
        &self,
        _key: RoundKey,
        forward: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        forward()
    }

    fn embed(&self, table: &OracleMatrix, rows: &Rows<Self>, out: &mut Vec<bf16>) {
        dense::embed(table, rows, out);
    }

    fn rms_norm(
        &self,
        x: &Vec<bf16>,
        weight: &Vec<bf16>,
        epsilon: f32,
        count: usize,
        width: usize,
        out: &mut Vec<bf16>,
    ) {
        for row in 0..count {
            let span = row * width..(row + 1) * width;
            dense::norm_row(&x[span.clone()], weight, epsilon, &mut out[span]);
        }
    }

    fn linear(&self, matrix: &OracleMatrix, x: &Vec<bf16>, count: usize, out: &mut Vec<bf16>) {
        dense::linear(matrix, x, count, |index, sum| out[index] = bf16::from_f32(sum));
    }

    fn linear_add(&self, matrix: &OracleMatrix, x: &Vec<bf16>, count: usize, residual: &mut Vec<bf16>) {
        dense::linear(matrix, x, count, |index, sum| dense::add(&mut residual[index], sum));
    }

    fn logits(&self, matrix: &OracleMatrix, x: &Vec<bf16>, count: usize, out: &mut Vec<f32>) {
        dense::linear(matrix, x, count, |index, sum| out[index] = sum);
    }

    fn rope_append(
        &self,
        stacked: &mut Vec<bf16>,
        shape: HeadShape,
        norms: &HeadNorms<Self>,
        rope: &RopeTable<Self>,
        rows: &Rows<Self>,
        table: &PageTable<Self>,
        pages: &mut KeyValuePages<Self>,
    ) {
        attention::rope_append(stacked, shape, norms, rope, rows, table, pages);
    }

    fn attention(
        &self,
        stacked: &Vec<bf16>,
        shape: HeadShape,
        rows: &Rows<Self>,
        table: &PageTable<Self>,
        pages: &KeyValuePages<Self>,
        out: &mut Vec<bf16>,
    ) {
        attention::attention(stacked, shape, rows, table, pages, out);
    }

    fn short_conv(
        &self,
        projected: &Vec<bf16>,
        weight: &Vec<bf16>,
        channels: usize,
        rows: &Rows<Self>,
        ring: &mut ConvRing<Self>,
        out: &mut Vec<bf16>,
    ) {
        conv::short_conv(projected, weight, channels, rows, ring, out);
    }

    fn feed_forward(
        &self,
        gate_up: &OracleMatrix,
        down: &OracleMatrix,
        x: &Vec<bf16>,
        count: usize,
        residual: &mut Vec<bf16>,
    ) {
        dense::feed_forward(gate_up, down, x, count, residual);
    }

    fn route(
        &self,
        router: &OracleMatrix,
        bias: &Vec<f32>,
        rule: RouteRule,
        x: &Vec<bf16>,
        rows: &Rows<Self>,
        layer: usize,
        routing: &mut Routing<Self>,
    ) {
        experts::route(router, bias, rule, x, rows, layer, routing);
    }

    fn expert_feed_forward(
        &self,
        experts: &Vec<OracleExpert>,
        routing: &Routing<Self>,
        picks: usize,
        x: &Vec<bf16>,
        rows: &Rows<Self>,
        residual: &mut Vec<bf16>,
    ) {
        experts::expert_feed_forward(experts, routing, picks, x, rows, residual);
    }

    fn copy_columns(
        &self,
        x: &Vec<bf16>,
        count: usize,
        width: usize,
        out: &mut Vec<bf16>,
        out_width: usize,
        offset: usize,
    ) {
        for row in 0..count {
            let start = row * out_width + offset;
            out[start..start + width].copy_from_slice(&x[row * width..(row + 1) * width]);
        }
    }

    fn copy_rows(&self, buffer: &mut Vec<bf16>, from: &Vec<i32>, to: &Vec<i32>, count: usize, width: usize) {
        dense::copy_rows(buffer, &from[..count], &to[..count], width);
    }

    fn gather_rows(&self, x: &Vec<bf16>, index: &Vec<i32>, count: usize, width: usize, out: &mut Vec<bf16>) {
        dense::gather_rows(x, &index[..count], width, out);
    }

    fn draw(
        &self,
        logits: &Vec<f32>,
        rules: &Vec<DrawRow>,
        rows: &Rows<Self>,
        tables: &DrawTables<Self>,
        count: usize,
        drawn: &mut Vec<i32>,
    ) {
        draws::draw(logits, rules, rows, tables, count, drawn);
    }

    fn held_tokens(
        &self,
        windows: &Vec<DeviceWindow>,
        count: usize,
        accepted: &Vec<Accepted>,
        drafts: &Vec<i32>,
        size: usize,
        rows: &mut Rows<Self>,
    ) {
        windows::held_tokens(&windows[..count], accepted, drafts, size, rows);
    }

    fn log_probabilities(
        &self,
        logits: &Vec<f32>,
        vocabulary: usize,
        drawn: &Vec<i32>,
        index: &Vec<i32>,
        count: usize,
        tokens: &mut Vec<i32>,
        values: &mut Vec<f32>,
    ) {
        let width = 1 + ALTERNATIVES;
        let outputs = tokens.chunks_mut(width).zip(values.chunks_mut(width));
        for (index, (tokens, values)) in index[..count].iter().zip(outputs) {
            if let Ok(row) = usize::try_from(*index) {
                let logits = &logits[row * vocabulary..(row + 1) * vocabulary];
                log_probabilities::log_probabilities(logits, drawn[row], tokens, values);
            }
        }
    }

    fn accept(
        &self,
        windows: &Vec<DeviceWindow>,
        count: usize,
        rows: &Rows<Self>,
        drawn: &Vec<i32>,
        tables: &mut DrawTables<Self>,
        accepted: &mut Vec<Accepted>,
    ) {
        windows::accept(&windows[..count], rows, drawn, tables, accepted);
    }

    fn draft_rows(
        &self,
        windows: &Vec<DeviceWindow>,
        count: usize,
        accepted: &Vec<Accepted>,
        size: usize,
        mask_token: i32,
        block_rows: &mut Rows<Self>,
    ) {
        windows::draft_rows(&windows[..count], accepted, size, mask_token, block_rows);
    }

    fn draft_chain(
        &self,
        head: &MarkovHead<Self>,
        hidden: &Vec<bf16>,
        hidden_width: usize,
        logits: &Vec<f32>,
        rules: &Vec<DrawRow>,
        block_rows: &Rows<Self>,
        tables: &DrawTables<Self>,
        blocks: usize,
        size: usize,
        depth: usize,
        drafts: &mut Vec<i32>,
        confidence: &mut Vec<f32>,
    ) {
        let chain =
            windows::Chain { head, hidden, hidden_width, logits, rules, block_rows, tables, size, depth };
        for block in 0..blocks {
            chain.draft_block(block, drafts, confidence);
        }
    }
}
