//! The faulty device: the oracle's operations, with what one fault does to their inputs or results.

use forerunner_tensor::{
    Accepted, ConvRing, Device, DeviceError, DeviceWindow, DrawRow, DrawTables, Element, ExpertWeights,
    HeadNorms, HeadShape, HostMatrix, KeyValuePages, MarkovHead, NO_LANE, PageTable, ReadBackPart, RopeTable,
    RoundKey, RouteRule, Routing, Rows, bf16,
};

use super::{Fault, tamper};
use crate::oracle::{OracleDevice, OracleExpert, OracleMatrix};

/// The oracle with one fault. Rows, pages and tables are types of their device, so each operation turns
/// them into the oracle's first.
#[derive(Debug, Clone, Copy)]
pub struct Faulty {
    fault: Option<Fault>,
}

impl Faulty {
    /// Broken in one way.
    pub fn new(fault: Fault) -> Self {
        Faulty { fault: Some(fault) }
    }

    /// Not broken: what the wrapper adds must not be what the suites catch.
    pub fn sound() -> Self {
        Faulty { fault: None }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Whether a fault that shows with many rows shows with this many.
    fn among_many(&self, fault: Fault, count: usize) -> bool {
        self.is(fault) && count > tamper::FEW_ROWS
    }

    /// Matrix and rows for a product, reversed if that is the fault.
    fn factors(&self, matrix: &OracleMatrix, x: &[bf16], count: usize) -> (OracleMatrix, Vec<bf16>) {
        if self.among_many(Fault::SumsDependOnRowCount, count) {
            (tamper::reversed_matrix(matrix), tamper::reversed(x, matrix.columns))
        } else {
            (matrix.clone(), x.to_vec())
        }
    }
}

impl Device for Faulty {
    type Buffer<T: Element> = Vec<T>;
    type Matrix = OracleMatrix;
    type Experts = Vec<OracleExpert>;
    type ReadBack = Vec<u32>;

    fn name(&self) -> &str {
        "faulty oracle"
    }

    fn mode(&self) -> &str {
        OracleDevice.mode()
    }

    fn is_asynchronous(&self) -> bool {
        OracleDevice.is_asynchronous()
    }

    fn allocate<T: Element>(&self, len: usize) -> Result<Vec<T>, DeviceError> {
        OracleDevice.allocate(len)
    }

    fn upload<T: Element>(&self, buffer: &mut Vec<T>, offset: usize, values: &[T]) {
        let offset = if self.is(Fault::UploadOffsetIgnored) { 0 } else { offset };
        OracleDevice.upload(buffer, offset, values);
    }

    fn queue_read_back(&self, parts: &[ReadBackPart<'_, Self>]) -> Vec<u32> {
        let part = |part: &ReadBackPart<'_, Self>| -> Vec<u32> {
            OracleDevice.queue_read_back(&[match part {
                ReadBackPart::I32(buffer, len) => ReadBackPart::I32(*buffer, *len),
                ReadBackPart::F32(buffer, len) => ReadBackPart::F32(*buffer, *len),
                ReadBackPart::Accepted(buffer, len) => ReadBackPart::Accepted(*buffer, *len),
            }])
        };
        let mut words: Vec<u32> = parts.iter().flat_map(part).collect();
        if let Some(last) = parts.last().filter(|_| self.is(Fault::LastPartNotRead)) {
            let read = words.len() - last.words();
            words[read..].fill(0);
        }
        words
    }

    fn wait(&self, read_back: Vec<u32>, words: &mut [u32]) -> Result<(), DeviceError> {
        OracleDevice.wait(read_back, words)
    }

    fn download<T: Element>(&self, buffer: &Vec<T>, offset: usize, out: &mut [T]) -> Result<(), DeviceError> {
        OracleDevice.download(buffer, offset, out)
    }

    fn load_matrix(&self, parts: &[HostMatrix<'_>]) -> Result<OracleMatrix, DeviceError> {
        OracleDevice.load_matrix(parts)
    }

    fn load_experts<'a>(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Vec<OracleExpert>, DeviceError> {
        OracleDevice.load_experts(experts)
    }

    fn round(
        &self,
        key: RoundKey,
        forward: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        OracleDevice.round(key, forward)
    }

    fn embed(&self, table: &OracleMatrix, rows: &Rows<Self>, out: &mut Vec<bf16>) {
        let mut rows = tamper::rows(self.fault, rows);
        if self.is(Fault::EmbedsNextToken) {
            rows.token.iter_mut().for_each(|token| *token = (*token + 1) % table.rows as i32);
        }
        if self.is(Fault::EmbedSkipsPads) {
            let kept: Vec<usize> = (0..rows.count).filter(|row| rows.lane[*row] != NO_LANE).collect();
            rows.token = kept.iter().map(|row| rows.token[*row]).collect();
            rows.lane = vec![0; kept.len()];
            rows.count = kept.len();
        }
        OracleDevice.embed(table, &rows, out);
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
        let epsilon = if self.is(Fault::NormWithoutEpsilon) { 0.0 } else { epsilon };
        if self.among_many(Fault::NormDependsOnRowCount, count) {
            // The weight's buffer may be longer than a row.
            let weight = tamper::reversed(&weight[..width], width);
            let x = tamper::reversed(&x[..count * width], width);
            let mut backwards = out.clone();
            OracleDevice.rms_norm(&x, &weight, epsilon, count, width, &mut backwards);
            *out = tamper::reversed(&backwards, width);
        } else {
            OracleDevice.rms_norm(x, weight, epsilon, count, width, out);
        }
    }

    fn linear(&self, matrix: &OracleMatrix, x: &Vec<bf16>, count: usize, out: &mut Vec<bf16>) {
        let (matrix, x) = self.factors(matrix, x, count);
        OracleDevice.linear(&matrix, &x, count, out);
    }

    fn linear_add(&self, matrix: &OracleMatrix, x: &Vec<bf16>, count: usize, residual: &mut Vec<bf16>) {
        if self.is(Fault::ResidualForgotten) {
            residual.fill(bf16::ZERO);
        }
        let (matrix, x) = self.factors(matrix, x, count);
        OracleDevice.linear_add(&matrix, &x, count, residual);
    }

    fn logits(&self, matrix: &OracleMatrix, x: &Vec<bf16>, count: usize, out: &mut Vec<f32>) {
        let (matrix, x) = self.factors(matrix, x, count);
        OracleDevice.logits(&matrix, &x, count, out);
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
        let norms = HeadNorms { query: norms.query.clone(), key: norms.key.clone(), epsilon: norms.epsilon };
        let rows = tamper::rows(self.fault, rows);
        let rope = tamper::rope(self.fault, rope);
        let table = tamper::page_table(self.fault, table);
        let mut plain = tamper::pages(pages);
        OracleDevice.rope_append(stacked, shape, &norms, &rope, &rows, &table, &mut plain);
        tamper::put_back(plain, pages);
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
        let rows = tamper::rows(self.fault, rows);
        let table = tamper::page_table(self.fault, table);
        let mut plain =
            KeyValuePages::<OracleDevice> { keys: pages.keys.clone(), values: pages.values.clone() };
        if self.among_many(Fault::ScoresDependOnRowCount, rows.count) {
            plain.keys = tamper::reversed(&plain.keys, shape.head_dim);
            let stacked = tamper::reversed_queries(stacked, shape);
            OracleDevice.attention(&stacked, shape, &rows, &table, &plain, out);
        } else {
            OracleDevice.attention(stacked, shape, &rows, &table, &plain, out);
        }
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
        let rows = tamper::rows(self.fault, rows);
        let mut plain = tamper::ring(self.fault, ring, &rows, channels);
        OracleDevice.short_conv(projected, weight, channels, &rows, &mut plain, out);
        ring.gated = plain.gated;
    }

    fn feed_forward(
        &self,
        gate_up: &OracleMatrix,
        down: &OracleMatrix,
        x: &Vec<bf16>,
        count: usize,
        residual: &mut Vec<bf16>,
    ) {
        let (mut gate_up, x) = self.factors(gate_up, x, count);
        if self.is(Fault::GateAndUpSwapped) {
            let half = gate_up.values.len() / 2;
            gate_up.values.rotate_left(half);
        }
        OracleDevice.feed_forward(&gate_up, down, &x, count, residual);
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
        let bias = if self.is(Fault::RoutesWithoutBias) { vec![0.0; bias.len()] } else { bias.clone() };
        let rows = tamper::rows(self.fault, rows);
        let (router, x) = self.factors(router, x, rows.count);
        let mut plain = tamper::routing(None, routing);
        OracleDevice.route(&router, &bias, rule, &x, &rows, layer, &mut plain);
        *routing = Routing { experts: plain.experts, weights: plain.weights, distinct: plain.distinct };
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
        let rows = tamper::rows(self.fault, rows);
        let routing = tamper::routing(self.fault, routing);
        let (_, x) = self.factors(&experts[0].gate_up, x, rows.count);
        let experts = experts
            .iter()
            .map(|expert| OracleExpert {
                gate_up: self.factors(&expert.gate_up, &[], rows.count).0,
                down: expert.down.clone(),
            })
            .collect();
        OracleDevice.expert_feed_forward(&experts, &routing, picks, &x, &rows, residual);
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
        let offset = if self.is(Fault::TapOffsetIgnored) { 0 } else { offset };
        let count = if self.is(Fault::CopiesRowsInPairs) { count & !1 } else { count };
        OracleDevice.copy_columns(x, count, width, out, out_width, offset);
    }

    fn copy_rows(&self, buffer: &mut Vec<bf16>, from: &Vec<i32>, to: &Vec<i32>, count: usize, width: usize) {
        let mut in_order = to.clone();
        in_order.sort_unstable();
        let to = if self.is(Fault::CopiesRowsInOrder) { &in_order } else { to };
        OracleDevice.copy_rows(buffer, from, to, count, width);
    }

    fn gather_rows(&self, x: &Vec<bf16>, index: &Vec<i32>, count: usize, width: usize, out: &mut Vec<bf16>) {
        let least = if self.is(Fault::GathersNoZeros) { 0 } else { -1 };
        let index = index.iter().map(|index| (*index).max(least)).collect();
        OracleDevice.gather_rows(x, &index, count, width, out);
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
        let rules = tamper::rules(self.fault, rules);
        let rows = tamper::rows(self.fault, rows);
        let tables = tamper::draw_tables(self.fault, tables);
        OracleDevice.draw(logits, &rules, &rows, &tables, count, drawn);
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
        let mut accepted = accepted.clone();
        if self.is(Fault::HeldByWindow) {
            let of_window = |(window, accepted): (usize, &mut Accepted)| accepted.block = window as i32;
            accepted.iter_mut().enumerate().for_each(of_window);
        }
        let mut plain = tamper::rows(None, rows);
        OracleDevice.held_tokens(windows, count, &accepted, drafts, size, &mut plain);
        rows.token = plain.token;
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
        let in_order = (0..index.len() as i32).collect();
        let index = if self.is(Fault::LogProbabilitiesInOrder) { &in_order } else { index };
        OracleDevice.log_probabilities(logits, vocabulary, drawn, index, count, tokens, values);
        if self.is(Fault::LogSumForgotten) {
            tamper::unnormalize(logits, vocabulary, &index[..count], tokens, values);
        }
        let ties = self.is(Fault::AlternativesTieUpwards);
        if ties || self.among_many(Fault::LogSumDependsOnRowCount, count) {
            // With the vocabulary backwards, sums run the other way and ties go to the other end.
            let logits: Vec<f32> =
                logits.chunks_exact(vocabulary).flat_map(|row| row.iter().rev()).copied().collect();
            let last = vocabulary as i32 - 1;
            let drawn = drawn.iter().map(|token| last - token).collect();
            let mut backwards = tokens.clone();
            OracleDevice.log_probabilities(&logits, vocabulary, &drawn, index, count, &mut backwards, values);
            if ties {
                *tokens =
                    backwards.iter().map(|token| if *token < 0 { *token } else { last - token }).collect();
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
        let rows = tamper::rows(self.fault, rows);
        let mut plain = tamper::draw_tables(None, tables);
        OracleDevice.accept(windows, count, &rows, drawn, &mut plain, accepted);
        tables.counts = plain.counts;
        for (window, accepted) in windows.iter().zip(accepted).take(count) {
            if self.is(Fault::AcceptsOneMore) && accepted.drafts < window.draft_count {
                accepted.drafts += 1;
                accepted.length += 1;
            }
            if self.is(Fault::AnchorNotCounted) && window.counted == 1 && accepted.anchor >= 0 {
                tables.counts[window.lane as usize * tables.vocabulary + accepted.anchor as usize] -= 1;
            }
        }
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
        let windows = tamper::windows(self.fault, windows);
        let mut plain = tamper::rows(self.fault, block_rows);
        OracleDevice.draft_rows(&windows, count, accepted, size, mask_token, &mut plain);
        if self.is(Fault::BlockRowsCausal) {
            plain.key_end = plain.position.iter().map(|position| position + 1).collect();
        }
        let Rows { count, token, lane, position, key_end } = plain;
        *block_rows = Rows { count, token, lane, position, key_end };
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
        let head = MarkovHead {
            previous: head.previous.clone(),
            next: head.next.clone(),
            confidence: head.confidence.clone(),
        };
        let block_rows = tamper::rows(self.fault, block_rows);
        let rules = &tamper::rules(self.fault, rules);
        let tables = tamper::draw_tables(self.fault, tables);
        OracleDevice.draft_chain(
            &head,
            hidden,
            hidden_width,
            logits,
            rules,
            &block_rows,
            &tables,
            blocks,
            size,
            depth,
            drafts,
            confidence,
        );
    }
}
