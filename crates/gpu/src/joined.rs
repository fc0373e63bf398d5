//! What is done in one kernel where one row's operations follow each other.

use forerunner_tensor::{ConvRing, DeviceError, RouteRule, Routing, Rows, bf16};

use crate::buffer::{Buffer, Memory};
use crate::device::GpuDevice;
use crate::experts::check_rule;
use crate::linear::{LinearParams, THREADS, Write};
use crate::rows::NormParams;
use crate::scratch::Place;
use crate::shaders::Kernel;
use crate::weights::{ExpertMatrices, Experts, Matrix, Stored};

/// The widest row that is normed on the way into a product, as in `normed.wgsl`.
pub(crate) const MOST_NORMED: usize = 2048;

/// The norm of one row that waits for the product that reads it.
pub(crate) struct WaitingNorm {
    pub(crate) x: Memory,
    pub(crate) weight: Memory,
    pub(crate) out: Memory,
    pub(crate) params: NormParams,
}

impl GpuDevice {
    /// Has the norm of one row wait for what reads it.
    pub(crate) fn let_norm_wait(
        &self,
        [x, weight, out]: [&Memory; 3],
        params: NormParams,
    ) -> Result<(), DeviceError> {
        let (x, weight, out) = (x.clone(), weight.clone(), out.clone());
        self.settle()?;
        self.waiting_norm.set(Some(WaitingNorm { x, weight, out, params }));
        Ok(())
    }

    /// Queues the norm that waits, if one does.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        let Some(WaitingNorm { x, weight, out, params }) = self.waiting_norm.take() else { return Ok(()) };
        self.launch_norm([&x, &weight, &out], params, 1)
    }

    /// The norm that waits, when it makes the one row at `x` that a product is about to read: that product's kernel does it.
    /// `out` is what the product writes, which is not what is normed.
    pub(crate) fn take_norm(
        &self,
        x: &Memory,
        rows: usize,
        width: usize,
        out: &Memory,
    ) -> Option<WaitingNorm> {
        let norm = self.waiting_norm.take()?;
        if (norm.out.id, 1, norm.params.words as usize * 2) == (x.id, rows, width) && norm.x.id != out.id {
            return Some(norm);
        }
        self.waiting_norm.set(Some(norm));
        None
    }

    /// The projection of one row that is normed on the way, and its convolution, in one kernel; `None` where that is not to
    /// be had.
    pub(crate) fn project_and_convolve(
        &self,
        matrix: &Matrix,
        x: &Memory,
        weight: &Buffer<bf16>,
        channels: usize,
        rows: &Rows<GpuDevice>,
        ring: &ConvRing<GpuDevice>,
        out: &Buffer<bf16>,
    ) -> Option<Result<(), DeviceError>> {
        let [part] = &matrix.parts[..] else { return None };
        if rows.count != 1 || !channels.is_multiple_of(2) || matrix.outputs != 3 * channels {
            return None;
        }
        let params = LinearParams::new(part.kind, matrix.outputs, matrix.inputs, Write::Bf16);
        let blocks = params.blocks_of_fours(channels, 3)?;
        let out = out.first(channels);
        let norm = self.take_norm(x, 1, matrix.inputs, out)?;
        let params = LinearParams { epsilon: norm.params.epsilon, ..params };
        let Stored { codes, scales } = &part.stored;
        let buffers = [
            codes,
            scales,
            &norm.x,
            out,
            weight.first(channels * 3),
            &norm.weight,
            &norm.out,
            rows.lane.first(1),
            rows.position.first(1),
            &ring.gated.memory,
        ];
        Some(self.launch((Kernel::ProjectConv, part.kind.format), &buffers, &params, [1, blocks, 1]))
    }

    /// A router and its experts for one row, whose picks are made on the way into gate and up; `None` where that is not to be
    /// had.
    pub(crate) fn mix_one_row(
        &self,
        router: &Matrix,
        bias: &Buffer<f32>,
        rule: RouteRule,
        experts: &Experts,
        x: &Buffer<bf16>,
        rows: &Rows<GpuDevice>,
        layer: usize,
        routing: &Routing<GpuDevice>,
        residual: &Buffer<bf16>,
    ) -> Option<Result<(), DeviceError>> {
        let [both] = &experts.gate_up[..] else { return None };
        let [part] = &both.parts[..] else { return None };
        if rows.count != 1 || experts.count > THREADS || check_rule(rule, experts.count).is_err() {
            return None;
        }
        assert_eq!(router.outputs, experts.count, "outputs of a router");
        assert!(layer < routing.distinct.len, "layer {layer} of {}", routing.distinct.len);
        let picks = rule.picks;
        let params = LinearParams {
            experts: experts.count as u32,
            picks: picks as u32,
            normalize: u32::from(rule.normalize),
            scale: rule.scale,
            layer: layer as u32,
            ..LinearParams::new(both.kind, both.outputs, both.inputs, Write::Bf16).gated()
        };
        let queue = || {
            let x = x.first(both.inputs);
            let logits = self.scratch(Place::RouterLogits, experts.count * size_of::<f32>())?;
            let active = self.scratch(Place::Active, picks * experts.down.inputs * size_of::<bf16>())?;
            self.product(router, x, 1, &logits, Write::F32, None)?;
            let Stored { codes, scales } = &part.stored;
            let (bias, lane) = (bias.first(experts.count), rows.lane.first(1));
            let (picked, weights) = (routing.experts.first(picks), routing.weights.first(picks));
            let distinct = &routing.distinct.memory;
            let buffers = [codes, scales, x, &*active, &*logits, bias, lane, picked, weights, distinct];
            let kernel = (Kernel::ExpertLinearRouted, both.kind.format);
            self.grouped.set(None);
            self.launch(kernel, &buffers, &params, [picks, params.blocks(1), 1])?;
            self.down(experts, routing, picks, &active, rows, residual)
        };
        Some(queue())
    }

    /// The weighted sum of one row's picks in one kernel; `None` where that is not to be had.
    pub(crate) fn down_of_one_row(
        &self,
        experts: &Experts,
        routing: &Routing<GpuDevice>,
        picks: usize,
        active: &Memory,
        rows: &Rows<GpuDevice>,
        residual: &Buffer<bf16>,
    ) -> Option<Result<(), DeviceError>> {
        let ExpertMatrices { kind, outputs, inputs, parts } = &experts.down;
        let [part] = &parts[..] else { return None };
        let params = LinearParams::new(*kind, *outputs, *inputs, Write::Add);
        let blocks = params.blocks_of_fours(*outputs, picks).filter(|_| rows.count == 1)?;
        let params = LinearParams { picks: picks as u32, ..params };
        let Stored { codes, scales } = &part.stored;
        let (picked, weights) = (routing.experts.first(picks), routing.weights.first(picks));
        let out = residual.first(*outputs);
        let buffers = [codes, scales, active, out, picked, weights];
        Some(self.launch((Kernel::ExpertDown, kind.format), &buffers, &params, [1, blocks, 1]))
    }
}
