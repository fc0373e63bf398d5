//! What is done in one kernel where one row's operations follow each other.

use forerunner_tensor::{ConvRing, DeviceError, Rows, bf16};

use crate::buffer::{Buffer, Memory};
use crate::device::GpuDevice;
use crate::linear::{LinearParams, Write};
use crate::rows::NormParams;
use crate::shaders::Kernel;
use crate::weights::{Matrix, Stored};

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
}
