//! `held_tokens`: integers only, so everything must be the oracle's.

use forerunner_tensor::{Accepted, Device, DeviceError, DeviceWindow, NO_LANE};

use super::host::{download_as, rows, upload};
use super::rules::{first_row, lanes_of};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::places::{Cut, LaneRows, Layout};

const LANES: usize = 12;
/// Drafts of a block.
const SIZE: usize = 9;
/// What the host uploaded: the tokens of windows that continue nothing.
const HOST_TOKEN: usize = 500;

struct HeldTokens;

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    visitor.operation(&HeldTokens);
}

/// Where the round before had the lane's window, and which block it filled: neither in the order of lanes.
fn previous(lane: usize) -> usize {
    (lane * 5 + 3) % LANES
}

fn block(lane: usize) -> usize {
    LANES - 1 - lane
}

/// Every third lane is given its tokens by the host; every fourth has no drafts.
fn window(layout: &Layout, lane: usize) -> DeviceWindow {
    let row_count = HeldTokens.lanes()[lane].count as i32;
    DeviceWindow {
        lane: lane as i32,
        first_row: first_row(layout, lane) as i32,
        row_count,
        draft_count: row_count - 1,
        previous: if lane % 3 == 2 { -1 } else { previous(lane) as i32 },
        ..DeviceWindow::default()
    }
}

/// The outcome of the round before and the drafts it made.
fn before() -> (Vec<Accepted>, Vec<i32>) {
    let mut accepted = vec![Accepted::default(); LANES];
    let mut drafts = vec![-1; LANES * SIZE];
    for lane in 0..LANES {
        let has_drafts = HeldTokens.lanes()[lane].count > 1;
        let block_field = if has_drafts { block(lane) as i32 } else { -1 };
        accepted[previous(lane)] =
            Accepted { anchor: lane as i32 * 3 + 1, block: block_field, ..Accepted::default() };
        for (draft, token) in drafts[block(lane) * SIZE..][..SIZE].iter_mut().enumerate() {
            *token = (lane * 20 + draft) as i32;
        }
    }
    (accepted, drafts)
}

impl RowOp for HeldTokens {
    type State<D: Device> = ();

    fn name(&self) -> String {
        "held_tokens".into()
    }

    fn lanes(&self) -> Vec<LaneRows> {
        let count = |lane: usize| if lane.is_multiple_of(4) { 1 } else { 2 + lane % 7 };
        (0..LANES).map(|lane| LaneRows { start: lane * 37, count: count(lane) }).collect()
    }

    fn cut(&self) -> Cut {
        Cut::Whole
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
        let mut rows = rows(device, layout, |_, _| HOST_TOKEN, |_, position| position + 1)?;
        let pad = DeviceWindow { lane: NO_LANE, previous: 0, ..DeviceWindow::default() };
        let lanes = lanes_of(layout);
        let windows: Vec<DeviceWindow> =
            lanes.iter().rev().map(|lane| lane.map_or(pad, |lane| window(layout, lane))).collect();
        let (accepted, drafts) = before();
        let windows_buffer = upload(device, &windows)?;
        let (accepted, drafts) = (upload(device, &accepted)?, upload(device, &drafts)?);
        device.held_tokens(&windows_buffer, windows.len(), &accepted, &drafts, SIZE, &mut rows);

        let tokens = download_as(device, &rows.token, rows.count)?;
        let mut output =
            Output { name: "tokens", bound: Bound::Exact, keys: vec![], width: 1, values: vec![] };
        for lane in lanes.into_iter().flatten() {
            let LaneRows { start, count } = self.lanes()[lane];
            for row in 0..count {
                output.keys.push(Key::Row { lane, position: start + row });
                output.values.push(tokens[first_row(layout, lane) + row]);
            }
        }
        Ok(vec![output])
    }
}
