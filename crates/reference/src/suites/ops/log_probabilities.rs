//! `log_probabilities`: of draws in another order than their rows, with values that tie.

use forerunner_tensor::{ALTERNATIVES, Device, DeviceError};

use super::host::{activations_f32, download_as, free_lanes, place_random, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Output};
use crate::suites::places::{Cut, LaneRows, Layout, Place};

struct LogProbabilities {
    vocabulary: usize,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for vocabulary in [13, 97, 1000, 16_385] {
        visitor.operation(&LogProbabilities { vocabulary });
    }
}

impl LogProbabilities {
    /// Steps of a quarter, so that alternatives tie, 0 with -0 too; the spread differs between rows.
    fn logits(&self, layout: &Layout) -> Vec<f32> {
        let mut logits = activations_f32(35, layout, self.vocabulary, 1.0);
        for (row, place) in logits.chunks_exact_mut(self.vocabulary).zip(layout) {
            let spread = [1.0, 8.0, 30.0][place_random(36, *place).below(3)];
            row.iter_mut().for_each(|value| *value = (*value * spread * 4.0).round() / 4.0);
        }
        logits
    }

    fn drawn(&self, layout: &Layout) -> Vec<i32> {
        layout.iter().map(|place| place_random(37, *place).below(self.vocabulary) as i32).collect()
    }
}

impl RowOp for LogProbabilities {
    type State<D: Device> = ();

    fn name(&self) -> String {
        format!("log-probabilities of {}", self.vocabulary)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn large(&self) -> bool {
        self.vocabulary > 1000
    }

    fn prepare<D: Device>(&self, _device: &D) -> Result<(), DeviceError> {
        Ok(())
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        _state: &mut (),
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        // Rows are asked for backwards, and pad rows not at all.
        let asked: Layout = layout.iter().rev().copied().collect();
        let index: Vec<i32> = (0..layout.len() as i32).rev().collect();
        let of_pad = |(index, place): (i32, &Place)| if *place == Place::Pad { -1 } else { index };
        let index: Vec<i32> = index.into_iter().zip(&asked).map(of_pad).collect();
        let logits = upload(device, &self.logits(layout))?;
        let drawn = upload(device, &self.drawn(layout))?;
        let count = layout.len();
        let len = count * (1 + ALTERNATIVES);
        let mut tokens = upload(device, &vec![-77i32; len])?;
        let mut values = upload(device, &vec![-77f32; len])?;
        let index = upload(device, &index)?;
        device.log_probabilities(&logits, self.vocabulary, &drawn, &index, count, &mut tokens, &mut values);
        let tokens = download_as(device, &tokens, len)?;
        // Where there is no token both are negative infinity, whose difference is no number.
        let values = download_as(device, &values, len)?.into_iter().map(|value| value.max(-100.0)).collect();
        Ok(vec![
            Output::of_rows("tokens", Bound::Exact, &asked, tokens),
            Output::of_rows("values", Bound::Fp32, &asked, values),
        ])
    }
}
