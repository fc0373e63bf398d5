//! `linear`, `linear_add` and `logits`: one fp32 sum a value.

use forerunner_tensor::{Device, DeviceError};

use super::host::{activations, download, download_as, free_lanes, unwritten, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Output};
use crate::suites::inputs::{Format, MatrixShape, spike};
use crate::suites::places::{Cut, LaneRows, Layout};

/// What is done with the sums.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Product {
    Rounded,
    Added,
    Logits,
}

struct Linear {
    product: Product,
    shape: MatrixShape,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    let formats = [
        Format::Bf16,
        Format::F16,
        Format::F32,
        Format::Affine(4, 32),
        Format::Affine(4, 64),
        Format::Affine(8, 32),
        Format::Affine(8, 64),
        Format::AffineF16(4, 64),
        Format::AffineF16(8, 32),
    ];
    for format in formats {
        visitor.operation(&Linear { product: Product::Rounded, shape: MatrixShape::new(96, 64, format) });
    }
    let stacked = MatrixShape {
        columns: 128,
        parts: vec![
            (64, Format::Bf16),
            (32, Format::Affine(4, 128)),
            (16, Format::Affine(8, 128)),
            (24, Format::Affine(4, 32)),
        ],
    };
    visitor.operation(&Linear { product: Product::Rounded, shape: stacked.clone() });
    visitor.operation(&Linear { product: Product::Added, shape: stacked });
    for format in [Format::Bf16, Format::Affine(4, 64), Format::Affine(8, 128)] {
        for (rows, columns) in [(256, 256), (33, 2048), (17, 2304), (66, 1152)] {
            let shape = MatrixShape::new(rows, columns, format);
            visitor.operation(&Linear { product: Product::Added, shape });
        }
        for rows in [97, 8192] {
            let shape = MatrixShape::new(rows, 128, format);
            visitor.operation(&Linear { product: Product::Logits, shape });
        }
    }
}

impl RowOp for Linear {
    type State<D: Device> = D::Matrix;

    fn name(&self) -> String {
        format!("{:?} product {}", self.product, self.shape)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn large(&self) -> bool {
        self.shape.rows() * self.shape.columns > 1 << 17
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<D::Matrix, DeviceError> {
        device.load_matrix(&self.shape.host(5))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        matrix: &mut D::Matrix,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let x = upload(device, &spike(activations(6, layout, self.shape.columns, 2.0), layout))?;
        let (count, len) = (layout.len(), layout.len() * self.shape.rows());
        let bound = Bound::Bf16 { steps: 2.0 };
        let output = match self.product {
            Product::Rounded => {
                let mut out = unwritten(device, len)?;
                device.linear(matrix, &x, count, &mut out);
                Output::of_rows("product", bound, layout, download(device, &out, len)?)
            }
            Product::Added => {
                let mut out = upload(device, &activations(7, layout, self.shape.rows(), 3.0))?;
                device.linear_add(matrix, &x, count, &mut out);
                Output::of_rows("residual", bound, layout, download(device, &out, len)?)
            }
            Product::Logits => {
                let mut out = device.allocate::<f32>(len)?;
                device.logits(matrix, &x, count, &mut out);
                Output::of_rows("logits", Bound::Fp32, layout, download_as(device, &out, len)?)
            }
        };
        Ok(vec![output])
    }
}
