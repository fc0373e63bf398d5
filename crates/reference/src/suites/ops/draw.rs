//! `draw`: every row by its own rule, with the drafts before it.

use forerunner_tensor::{Device, DeviceError, DrawRow, DrawTables};

use super::host::{activations_f32, download_as, place_random, rows, upload};
use super::rules::{first_row, rule, tables};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::places::{Cut, LaneRows, Layout, Place};

struct Draw {
    vocabulary: usize,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for vocabulary in [97, 1000, 8192] {
        visitor.operation(&Draw { vocabulary });
    }
}

impl Draw {
    fn token(&self, lane: usize, position: usize) -> usize {
        place_random(33, Place::Row { lane, position }).below(self.vocabulary)
    }

    /// A row's drafts are the lane's tokens after the first, up to the row itself.
    fn rule(&self, layout: &Layout, row: usize) -> DrawRow {
        let Place::Row { lane, position } = layout[row] else { return DrawRow::default() };
        let first = first_row(layout, lane);
        DrawRow {
            position: position as u32 + 1,
            first_draft_row: first as i32 + 1,
            draft_rows: (row - first) as i32,
            ..rule(lane)
        }
    }

    /// Drafted tokens would be drawn, were they not penalized.
    fn logits(&self, layout: &Layout) -> Vec<f32> {
        let mut logits = activations_f32(34, layout, self.vocabulary, 8.0);
        for (row, place) in logits.chunks_exact_mut(self.vocabulary).zip(layout) {
            if let Place::Row { lane, position } = place {
                for before in self.lanes()[*lane].start..=*position {
                    row[self.token(*lane, before)] = 9.0;
                }
            }
        }
        logits
    }
}

impl RowOp for Draw {
    type State<D: Device> = DrawTables<D>;

    fn name(&self) -> String {
        format!("draw of {}", self.vocabulary)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        (0..14).map(|lane| LaneRows { start: lane * 300, count: 1 + lane * 2 % 5 }).collect()
    }

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    fn large(&self) -> bool {
        self.vocabulary > 1000
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<DrawTables<D>, DeviceError> {
        tables(device, self.lanes().len(), self.vocabulary)
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        tables: &mut DrawTables<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let token = |lane, position| self.token(lane, position);
        let rows = rows(device, layout, token, |_, position| position + 1)?;
        let rules: Vec<DrawRow> = (0..layout.len()).map(|row| self.rule(layout, row)).collect();
        let logits = upload(device, &self.logits(layout))?;
        let mut drawn = upload(device, &vec![-77i32; layout.len()])?;
        device.draw(&logits, &upload(device, &rules)?, &rows, tables, layout.len(), &mut drawn);
        let mut output =
            Output::of_rows("drawn", Bound::Exact, layout, download_as(device, &drawn, layout.len())?);
        // Pad rows draw -1.
        for key in output.keys.iter_mut().filter(|key| **key == Key::Nothing) {
            *key = Key::Forward;
        }
        Ok(vec![output])
    }
}
