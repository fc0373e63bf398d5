//! `short_conv`: prompts longer than the ring, lanes that resume from it, and rings with stale values.

use std::ops::Range;

use forerunner_tensor::{CONV_RING, ConvRing, Device, DeviceError, bf16};

use super::host::{activations, download, lane_rows, unwritten, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::inputs::Random;
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
        let bound = Bound::Bf16 { steps: 2.0 };
        let convolved = Output::of_rows("convolved", bound, layout, download(device, &out, len)?);
        let mut gated = self.no_gated_rows();
        let ring = download(device, &ring.gated, self.ring().len())?;
        for place in layout {
            if let Place::Row { lane, position } = *place
                && !layout.contains(&Place::Row { lane, position: position + CONV_RING })
            {
                gated.keys.push(Key::Row { lane, position });
                gated.values.extend(&ring[self.slot(lane, position)]);
            }
        }
        Ok(vec![convolved, gated])
    }

    /// The slots that were written, and that no other slot was.
    fn finish<D: Device>(
        &self,
        device: &D,
        (_, ring): &Self::State<D>,
        lengths: &[usize],
    ) -> Result<Vec<Output>, DeviceError> {
        let before: Vec<f64> = self.ring().into_iter().map(f64::from).collect();
        let mut after = download(device, &ring.gated, before.len())?;
        let mut gated = self.no_gated_rows();
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
