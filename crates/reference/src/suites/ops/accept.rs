//! `accept`: integers only, so everything must be the oracle's.

use forerunner_tensor::{Accepted, Device, DeviceError, DeviceWindow, DrawTables, NO_LANE};

use super::host::{download_as, place_random, rows, upload};
use super::rules::{first_row, lanes_of, tables};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::places::{Cut, LaneRows, Layout, Place};

const VOCABULARY: usize = 97;

struct Accept;

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    visitor.operation(&Accept);
}

/// The windows of a forward and the ids that its rows drew.
#[derive(Default)]
struct Windows {
    windows: Vec<DeviceWindow>,
    drawn: Vec<i32>,
}

impl Windows {
    /// In the reverse order of the rows, for nothing promises that they agree.
    fn new(layout: &Layout) -> Self {
        let mut windows = Windows::default();
        for lane in lanes_of(layout).into_iter().rev() {
            match lane {
                Some(lane) => windows.push(layout, lane),
                None => windows.windows.push(DeviceWindow { lane: NO_LANE, ..DeviceWindow::default() }),
            }
        }
        windows
    }

    fn push(&mut self, layout: &Layout, lane: usize) {
        let rows = Accept.lanes()[lane];
        let drafts = draft_count(lane, rows.count);
        let draws = lane % 4 != 2;
        self.windows.push(DeviceWindow {
            lane: lane as i32,
            first_row: first_row(layout, lane) as i32,
            row_count: rows.count as i32,
            draft_count: drafts as i32,
            first_draw: if draws { self.drawn.len() as i32 } else { -1 },
            block: if draws { lane as i32 % 3 - 1 } else { -1 },
            counted: i32::from(!lane.is_multiple_of(3)),
            previous: -1,
        });
        if draws {
            self.draw(lane, rows, drafts);
        }
    }

    /// The draws agree with some of the drafts, then differ, then agree again.
    fn draw(&mut self, lane: usize, rows: LaneRows, drafts: usize) {
        let end = rows.start + rows.count;
        let mut random = place_random(35, Place::Row { lane, position: end });
        let wrong = random.below(drafts + 2);
        for (index, position) in (end - drafts..end).enumerate() {
            let change = usize::from(index == wrong);
            self.drawn.push(((token(lane, position) + change) % VOCABULARY) as i32);
        }
        self.drawn.push(random.below(VOCABULARY) as i32);
    }
}

/// Decode windows, prompt chunks that draw and that do not, and forced rows with drafts after them.
fn draft_count(lane: usize, rows: usize) -> usize {
    match lane % 4 {
        0 => rows - 1,
        3 => rows / 2,
        _ => 0,
    }
}

fn token(lane: usize, position: usize) -> usize {
    place_random(36, Place::Row { lane, position }).below(VOCABULARY)
}

impl Accept {
    /// What each window got, and the counts of its lane.
    fn outputs<D: Device>(
        &self,
        device: &D,
        windows: &Windows,
        accepted: &D::Buffer<Accepted>,
        counts: &[f64],
    ) -> Result<Vec<Output>, DeviceError> {
        let mut values = vec![Accepted::default(); windows.windows.len()];
        device.download(accepted, 0, &mut values)?;
        let mut outcomes =
            Output { name: "accepted", bound: Bound::Exact, keys: vec![], width: 4, values: vec![] };
        let mut counted =
            Output { name: "counts", bound: Bound::Exact, keys: vec![], width: VOCABULARY, values: vec![] };
        for (window, accepted) in windows.windows.iter().zip(values) {
            if let Ok(lane) = usize::try_from(window.lane) {
                let key = Key::Row { lane, position: self.lanes()[lane].start };
                outcomes.keys.push(key);
                let Accepted { drafts, anchor, length, block } = accepted;
                outcomes.values.extend([drafts, anchor, length, block].map(f64::from));
                counted.keys.push(key);
                counted.values.extend(&counts[lane * VOCABULARY..(lane + 1) * VOCABULARY]);
            }
        }
        Ok(vec![outcomes, counted])
    }
}

impl RowOp for Accept {
    type State<D: Device> = DrawTables<D>;

    fn name(&self) -> String {
        "accept".into()
    }

    fn lanes(&self) -> Vec<LaneRows> {
        (0..16).map(|lane| LaneRows { start: lane * 5, count: 1 + lane * 3 % 7 }).collect()
    }

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<DrawTables<D>, DeviceError> {
        tables(device, self.lanes().len(), VOCABULARY)
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        tables: &mut DrawTables<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let rows = rows(device, layout, token, |_, position| position + 1)?;
        let windows = Windows::new(layout);
        let len = self.lanes().len() * VOCABULARY;
        let before = download_as(device, &tables.counts, len)?;
        let (count, drawn) = (windows.windows.len(), upload(device, &windows.drawn)?);
        let mut accepted = device.allocate(count)?;
        device.accept(&upload(device, &windows.windows)?, count, &rows, &drawn, tables, &mut accepted);
        let after = download_as(device, &tables.counts, len)?;
        let mut outputs = self.outputs(device, &windows, &accepted, &after)?;
        let absent = |lane: &usize| windows.windows.iter().all(|window| window.lane != *lane as i32);
        let changed = |lane: usize| {
            let span = lane * VOCABULARY..(lane + 1) * VOCABULARY;
            before[span.clone()] != after[span]
        };
        let strays = (0..self.lanes().len()).filter(absent).filter(|lane| changed(*lane)).count();
        outputs.push(Output::exact("counts of other lanes", Key::Always, vec![strays as f64]));
        Ok(outputs.into_iter().filter(|output| !output.keys.is_empty()).collect())
    }
}
