//! `short_conv` and `project_short_conv`: prompts longer than the ring, lanes that resume from it, and rings with stale
//! values.

use std::ops::Range;

use forerunner_tensor::{CONV_RING, ConvRing, Device, DeviceError, bf16};

use super::host::{activations, download, lane_rows, unwritten, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::inputs::{Format, MatrixShape, Random};
use crate::suites::places::{Cut, LaneRows, Layout, Place};

struct ShortConv {
    channels: usize,
    lanes: Vec<LaneRows>,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    let lanes = [(0, 100), (37, 9), (1, 1), (63, 5), (0, 1), (128, 24)];
    for channels in [64, 96] {
        visitor.operation(&ShortConv::new(channels, &lanes));
    }
    visitor.operation(&ShortConv::new(2048, &[(62, 3), (0, 2)]));
    for (channels, inputs, format) in [
        (64, 96, Format::Bf16),
        (96, 128, Format::Affine(4, 64)),
        (64, 384, Format::Affine(8, 128)),
        (72, 64, Format::Affine(4, 32)),
    ] {
        let matrix = MatrixShape::new(3 * channels, inputs, format);
        visitor.operation(&ProjectedConv { conv: ShortConv::new(channels, &lanes), matrix });
    }
}

/// The projection before a convolution, with it.
struct ProjectedConv {
    conv: ShortConv,
    matrix: MatrixShape,
}

impl ShortConv {
    fn new(channels: usize, lanes: &[(usize, usize)]) -> Self {
        let lanes = lanes.iter().map(|(start, count)| LaneRows { start: *start, count: *count }).collect();
        ShortConv { channels, lanes }
    }

    /// Every slot is full: of the lane's history, or of an earlier sequence's.
    fn ring(&self) -> Vec<bf16> {
        Random::new(&[14]).bf16s(self.lanes.len() * CONV_RING * self.channels, 2.0)
    }

    /// Where the ring holds a lane's row.
    fn slot(&self, lane: usize, position: usize) -> Range<usize> {
        let start = (lane * CONV_RING + position % CONV_RING) * self.channels;
        start..start + self.channels
    }

    /// An output of the ring's rows, still without any.
    fn no_gated_rows(&self) -> Output {
        Output { name: "ring", bound: Bound::Exact, keys: vec![], width: self.channels, values: vec![] }
    }
}

impl RowOp for ShortConv {
    type State<D: Device> = (D::Buffer<bf16>, ConvRing<D>);

    fn name(&self) -> String {
        format!("short_conv {} with {} lanes", self.channels, self.lanes.len())
    }

    fn lanes(&self) -> Vec<LaneRows> {
        self.lanes.clone()
    }

    fn cut(&self) -> Cut {
        Cut::Chunks
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<Self::State<D>, DeviceError> {
        let weight = upload(device, &Random::new(&[15]).bf16s(self.channels * 3, 1.0))?;
        Ok((weight, ConvRing { gated: upload(device, &self.ring())? }))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        (weight, ring): &mut Self::State<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let rows = lane_rows(device, layout)?;
        let projected = upload(device, &activations(16, layout, 3 * self.channels, 2.0))?;
        let len = layout.len() * self.channels;
        let mut out = unwritten(device, len)?;
        device.short_conv(&projected, weight, self.channels, &rows, ring, &mut out);
        let values = download(device, &out, len)?;
        let convolved = Output::of_rows("convolved", Bound::Bf16 { steps: 2.0 }, layout, values);
        Ok(vec![convolved, self.gated_rows(device, ring, layout, Bound::Exact)?])
    }

    /// The slots that were written, and that no other slot was.
    fn finish<D: Device>(
        &self,
        device: &D,
        (_, ring): &Self::State<D>,
        lengths: &[usize],
    ) -> Result<Vec<Output>, DeviceError> {
        self.finished(device, ring, lengths, Bound::Exact)
    }
}

impl ShortConv {
    /// What a forward left in the ring, where it is not overwritten.
    fn gated_rows<D: Device>(
        &self,
        device: &D,
        ring: &ConvRing<D>,
        layout: &Layout,
        bound: Bound,
    ) -> Result<Output, DeviceError> {
        let mut gated = Output { bound, ..self.no_gated_rows() };
        let ring = download(device, &ring.gated, self.ring().len())?;
        for place in layout {
            if let Place::Row { lane, position } = *place
                && !layout.contains(&Place::Row { lane, position: position + CONV_RING })
            {
                gated.keys.push(Key::Row { lane, position });
                gated.values.extend(&ring[self.slot(lane, position)]);
            }
        }
        Ok(gated)
    }

    fn finished<D: Device>(
        &self,
        device: &D,
        ring: &ConvRing<D>,
        lengths: &[usize],
        bound: Bound,
    ) -> Result<Vec<Output>, DeviceError> {
        let before: Vec<f64> = self.ring().into_iter().map(f64::from).collect();
        let mut after = download(device, &ring.gated, before.len())?;
        let mut gated = Output { bound, ..self.no_gated_rows() };
        for (lane, rows) in self.lanes.iter().enumerate() {
            for position in rows.start.max(lengths[lane].saturating_sub(CONV_RING))..lengths[lane] {
                let slot = self.slot(lane, position);
                gated.keys.push(Key::Row { lane, position });
                gated.values.extend(&after[slot.clone()]);
                after[slot.clone()].copy_from_slice(&before[slot]);
            }
        }
        let strays = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        Ok(vec![gated, Output::exact("stray ring writes", Key::Always, vec![strays as f64])])
    }
}

impl RowOp for ProjectedConv {
    type State<D: Device> = (D::Matrix, <ShortConv as RowOp>::State<D>);

    fn name(&self) -> String {
        format!("project_short_conv {:?} and {}", self.matrix, self.conv.name())
    }

    fn lanes(&self) -> Vec<LaneRows> {
        self.conv.lanes()
    }

    fn cut(&self) -> Cut {
        Cut::Chunks
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<Self::State<D>, DeviceError> {
        Ok((device.load_matrix(&self.matrix.host(17))?, self.conv.prepare(device)?))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        (matrix, (weight, ring)): &mut Self::State<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let channels = self.conv.channels;
        let rows = lane_rows(device, layout)?;
        let x = upload(device, &activations(18, layout, self.matrix.columns, 2.0))?;
        let mut projected = unwritten(device, layout.len() * 3 * channels)?;
        let mut out = unwritten(device, layout.len() * channels)?;
        device.project_short_conv(matrix, &x, weight, channels, &rows, ring, &mut projected, &mut out);
        let values = download(device, &out, layout.len() * channels)?;
        // Each of three products may be a step off before they are multiplied.
        let bound = Bound::Bf16 { steps: 6.0 };
        let convolved = Output::of_rows("convolved", bound, layout, values);
        Ok(vec![convolved, self.conv.gated_rows(device, ring, layout, bound)?])
    }

    fn finish<D: Device>(
        &self,
        device: &D,
        (_, (_, ring)): &Self::State<D>,
        lengths: &[usize],
    ) -> Result<Vec<Output>, DeviceError> {
        self.conv.finished(device, ring, lengths, Bound::Bf16 { steps: 6.0 })
    }
}
