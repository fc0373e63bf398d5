//! `draft_rows`: integers only, so everything must be the oracle's.

use forerunner_tensor::{Accepted, Device, DeviceError, DeviceWindow, NO_LANE, Rows};

use super::host::{download_as, upload};
use super::rules::lanes_of;
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::places::{Cut, LaneRows, Layout};

const MASK_TOKEN: i32 = 96;

struct DraftRows {
    size: usize,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for size in [1, 4, 9] {
        visitor.operation(&DraftRows { size });
    }
}

impl DraftRows {
    /// A window for each block's lane, in the reverse order of the blocks; before each one that drafts
    /// nothing, and a pad window. Their outcomes follow the lane.
    fn windows(&self, blocks: &[Option<usize>]) -> (Vec<DeviceWindow>, Vec<Accepted>) {
        let (mut windows, mut accepted) = (Vec::new(), Vec::new());
        let mut push = |lane: i32, block: i32, length: usize| {
            windows.push(DeviceWindow { lane, block, ..DeviceWindow::default() });
            accepted.push(Accepted { anchor: lane * 3 + 1, length: length as i32, ..Accepted::default() });
        };
        for (block, lane) in blocks.iter().enumerate().rev() {
            if let Some(lane) = *lane {
                push(lane as i32 + 100, -1, 50);
                push(lane as i32, block as i32, self.lanes()[lane].start);
            }
            push(NO_LANE, -1, 0);
        }
        (windows, accepted)
    }

    /// Token, lane, position and key end of each block row; of blocks without a window the lane alone.
    fn output<D: Device>(
        &self,
        device: &D,
        rows: &Rows<D>,
        blocks: &[Option<usize>],
    ) -> Result<Output, DeviceError> {
        let columns = [
            download_as(device, &rows.token, rows.count)?,
            download_as(device, &rows.lane, rows.count)?,
            download_as(device, &rows.position, rows.count)?,
            download_as(device, &rows.key_end, rows.count)?,
        ];
        let mut output =
            Output { name: "block rows", bound: Bound::Exact, keys: vec![], width: 4, values: vec![] };
        for row in 0..rows.count {
            match blocks[row / self.size] {
                Some(lane) => {
                    let position = self.lanes()[lane].start + row % self.size;
                    output.keys.push(Key::Row { lane, position });
                    output.values.extend(columns.iter().map(|column| column[row]));
                }
                None => {
                    output.keys.push(Key::Forward);
                    output.values.extend([0.0, columns[1][row], 0.0, 0.0]);
                }
            }
        }
        Ok(output)
    }
}

impl RowOp for DraftRows {
    type State<D: Device> = ();

    fn name(&self) -> String {
        format!("draft_rows, blocks of {}", self.size)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        (0..12).map(|lane| LaneRows { start: lane * 37, count: self.size }).collect()
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
        let blocks = lanes_of(layout);
        let (windows, accepted) = self.windows(&blocks);
        let (windows_buffer, accepted) = (upload(device, &windows)?, upload(device, &accepted)?);
        let mut rows = Rows::new(device, blocks.len() * self.size)?;
        rows.count = blocks.len() * self.size;
        // An earlier round's rows.
        device.upload(&mut rows.lane, 0, &vec![7; rows.count]);
        device.draft_rows(&windows_buffer, windows.len(), &accepted, self.size, MASK_TOKEN, &mut rows);
        Ok(vec![self.output(device, &rows, &blocks)?])
    }
}
