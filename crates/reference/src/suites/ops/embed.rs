//! `embed`: copies, so every bit must be the oracle's.

use forerunner_tensor::{Device, DeviceError};

use super::host::{download, free_lanes, place_random, rows, unwritten};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Output};
use crate::suites::inputs::{Format, MatrixShape};
use crate::suites::places::{Cut, LaneRows, Layout, Place};

struct Embed(MatrixShape);

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for format in [Format::Bf16, Format::F16, Format::F32, Format::Affine(4, 64), Format::Affine(8, 32)] {
        visitor.operation(&Embed(MatrixShape::new(97, 64, format)));
    }
    visitor.operation(&Embed(MatrixShape::new(33, 2048, Format::Affine(4, 128))));
    visitor.operation(&Embed(MatrixShape {
        columns: 128,
        parts: vec![(40, Format::Affine(4, 32)), (57, Format::Bf16)],
    }));
}

impl RowOp for Embed {
    type State<D: Device> = D::Matrix;

    fn name(&self) -> String {
        format!("embed {}", self.0)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<D::Matrix, DeviceError> {
        device.load_matrix(&self.0.host(1))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        table: &mut D::Matrix,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let token = |lane, position| place_random(2, Place::Row { lane, position }).below(self.0.rows());
        let rows = rows(device, layout, token, |_, position| position + 1)?;
        let len = layout.len() * self.0.columns;
        let mut out = unwritten(device, len)?;
        device.embed(table, &rows, &mut out);
        Ok(vec![Output::of_rows("embeddings", Bound::Exact, layout, download(device, &out, len)?)])
    }
}
