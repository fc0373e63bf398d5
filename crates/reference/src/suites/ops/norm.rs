//! `rms_norm`: two roundings at most one step apart.

use forerunner_tensor::{Device, DeviceError, bf16};

use super::host::{activations, download, free_lanes, unwritten, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Output};
use crate::suites::inputs::Random;
use crate::suites::places::{Cut, LaneRows, Layout, Place};

struct Norm {
    width: usize,
    /// Magnitude of the rows; at 0.001 the epsilon carries most of the sum.
    scale: f32,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for width in [64, 96, 256, 2048] {
        visitor.operation(&Norm { width, scale: 1.0 });
    }
    visitor.operation(&Norm { width: 128, scale: 0.001 });
    visitor.operation(&Norm { width: 128, scale: 300.0 });
}

impl Norm {
    /// Every second lane's row has a first value beside which the others' squares are lost or not, by the
    /// order of the sum: an order that changes, changes bits that bf16 keeps. It differs from row to row,
    /// for one scale moves few of the 128 mantissas of bf16 over a border.
    fn inputs(&self, layout: &Layout) -> Vec<bf16> {
        let mut x = activations(4, layout, self.width, self.scale);
        for (row, place) in x.chunks_exact_mut(self.width).zip(layout) {
            if matches!(place, Place::Row { lane, .. } if lane % 2 == 1) {
                row[0] = bf16::from_f32((3000.0 + 1000.0 * row[1].to_f32() / self.scale) * self.scale);
            }
        }
        x
    }
}

impl RowOp for Norm {
    type State<D: Device> = D::Buffer<bf16>;

    fn name(&self) -> String {
        format!("rms_norm {} at {}", self.width, self.scale)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<D::Buffer<bf16>, DeviceError> {
        upload(device, &Random::new(&[3]).bf16s(self.width, 2.0))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        weight: &mut D::Buffer<bf16>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let x = upload(device, &self.inputs(layout))?;
        let len = layout.len() * self.width;
        let mut out = unwritten(device, len)?;
        device.rms_norm(&x, weight, 1e-5, layout.len(), self.width, &mut out);
        let bound = Bound::Bf16 { steps: 2.0 };
        Ok(vec![Output::of_rows("normed", bound, layout, download(device, &out, len)?)])
    }
}
