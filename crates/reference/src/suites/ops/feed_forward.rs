//! `feed_forward`: a rounded activation between two products.

use forerunner_tensor::{Device, DeviceError};

use super::host::{activations, download, free_lanes, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Output};
use crate::suites::inputs::{Format, MatrixShape, spike};
use crate::suites::places::{Cut, LaneRows, Layout};

struct FeedForward {
    hidden: usize,
    intermediate: usize,
    gate: Format,
    up: Format,
    down: Format,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    let (affine4, affine8) = (Format::Affine(4, 64), Format::Affine(8, 32));
    for (hidden, intermediate, gate, up, down) in [
        (64, 96, Format::Bf16, Format::Bf16, Format::Bf16),
        (128, 192, affine4, affine4, affine4),
        (64, 128, affine4, affine8, Format::Bf16),
        (256, 128, affine8, affine8, affine8),
        (2048, 64, Format::Bf16, affine4, affine4),
    ] {
        visitor.operation(&FeedForward { hidden, intermediate, gate, up, down });
    }
}

impl RowOp for FeedForward {
    type State<D: Device> = (D::Matrix, D::Matrix);

    fn name(&self) -> String {
        let FeedForward { hidden, intermediate, gate, up, down } = self;
        format!("feed_forward {hidden} to {intermediate} {gate:?} {up:?} {down:?}")
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn large(&self) -> bool {
        self.hidden * self.intermediate > 1 << 16
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<(D::Matrix, D::Matrix), DeviceError> {
        let gate_up = MatrixShape {
            columns: self.hidden,
            parts: vec![(self.intermediate, self.gate), (self.intermediate, self.up)],
        };
        let down = MatrixShape::new(self.hidden, self.intermediate, self.down);
        Ok((device.load_matrix(&gate_up.host(8))?, device.load_matrix(&down.host(9))?))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        (gate_up, down): &mut (D::Matrix, D::Matrix),
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let x = upload(device, &spike(activations(10, layout, self.hidden, 2.0), layout))?;
        let mut residual = upload(device, &activations(11, layout, self.hidden, 3.0))?;
        device.feed_forward(gate_up, down, &x, layout.len(), &mut residual);
        let values = download(device, &residual, layout.len() * self.hidden)?;
        Ok(vec![Output::of_rows("residual", Bound::Bf16 { steps: 3.0 }, layout, values)])
    }
}
