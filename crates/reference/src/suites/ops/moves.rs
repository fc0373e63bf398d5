//! `copy_columns`, `copy_rows` and `gather_rows`: copies, so every bit must be the oracle's.

use forerunner_tensor::{Device, DeviceError, bf16};

use super::host::{activations, download, free_lanes, unwritten, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::places::{Cut, LaneRows, Layout, Place};

struct CopyColumns {
    width: usize,
    out_width: usize,
    offset: usize,
}

struct CopyRows(usize);

struct GatherRows(usize);

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for (width, out_width, offset) in [(64, 64, 0), (64, 320, 128), (96, 288, 192), (2048, 4096, 2048)] {
        visitor.operation(&CopyColumns { width, out_width, offset });
    }
    for width in [64, 97, 256, 2048] {
        visitor.operation(&CopyRows(width));
        visitor.operation(&GatherRows(width));
    }
}

impl RowOp for CopyColumns {
    type State<D: Device> = ();

    fn name(&self) -> String {
        format!("copy_columns {} to {} of {}", self.width, self.offset, self.out_width)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
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
        let x = upload(device, &activations(12, layout, self.width, 1.0))?;
        let len = layout.len() * self.out_width;
        let mut out = unwritten(device, len)?;
        device.copy_columns(&x, layout.len(), self.width, &mut out, self.out_width, self.offset);
        Ok(vec![Output::of_rows("columns", Bound::Exact, layout, download(device, &out, len)?)])
    }
}

impl RowOp for CopyRows {
    type State<D: Device> = ();

    fn name(&self) -> String {
        format!("copy_rows {}", self.0)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn prepare<D: Device>(&self, _device: &D) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Copies the rows, in reverse, to places behind them.
    fn forward<D: Device>(
        &self,
        device: &D,
        _state: &mut (),
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let count = layout.len();
        let mut values = activations(14, layout, self.0, 1.0);
        values.resize(2 * count * self.0, bf16::ZERO);
        let mut buffer = upload(device, &values)?;
        let from: Vec<i32> = (0..count as i32).collect();
        let to: Vec<i32> = (0..count as i32).map(|row| 2 * count as i32 - 1 - row).collect();
        device.copy_rows(&mut buffer, &upload(device, &from)?, &upload(device, &to)?, count, self.0);
        let all = download(device, &buffer, 2 * count * self.0)?;
        let mut copies = Vec::with_capacity(count * self.0);
        for row in all[count * self.0..].chunks_exact(self.0).rev() {
            copies.extend_from_slice(row);
        }
        Ok(vec![
            Output::of_rows("copies", Bound::Exact, layout, copies),
            Output::of_rows("sources", Bound::Exact, layout, all[..count * self.0].to_vec()),
        ])
    }
}

impl RowOp for GatherRows {
    type State<D: Device> = ();

    fn name(&self) -> String {
        format!("gather_rows {}", self.0)
    }

    fn lanes(&self) -> Vec<LaneRows> {
        free_lanes(self.large())
    }

    fn cut(&self) -> Cut {
        Cut::Free
    }

    fn prepare<D: Device>(&self, _device: &D) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Gathers the rows in reverse; pad places ask for no row and get zeros.
    fn forward<D: Device>(
        &self,
        device: &D,
        _state: &mut (),
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let x = upload(device, &activations(13, layout, self.0, 1.0))?;
        let reversed: Vec<usize> = (0..layout.len()).rev().collect();
        let index: Vec<i32> =
            reversed.iter().map(|row| if layout[*row] == Place::Pad { -1 } else { *row as i32 }).collect();
        let index = upload(device, &index)?;
        let len = layout.len() * self.0;
        let mut out = unwritten(device, len)?;
        device.gather_rows(&x, &index, layout.len(), self.0, &mut out);
        let key = |row: &usize| match Key::from(layout[*row]) {
            Key::Nothing => Key::Forward,
            key => key,
        };
        Ok(vec![Output {
            name: "gathered",
            bound: Bound::Exact,
            keys: reversed.iter().map(key).collect(),
            width: self.0,
            values: download(device, &out, len)?,
        }])
    }
}
