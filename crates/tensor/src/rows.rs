//! Ragged rows, windows, pages and rings: the state that a forward reads and writes.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use half::bf16;

use crate::{Device, DeviceError};

/// Positions in a page of attention keys and values. A page is also the unit in which attention partitions are
/// merged, in page order.
pub const PAGE: usize = 256;

/// Slots of the short convolution's ring a lane: position `p` lives in slot `p % CONV_RING`. More than the
/// longest window plus the convolution's reach, so that rejected rows never overwrite the state before them.
pub const CONV_RING: usize = 64;

/// The lane of a pad row: it routes, writes and draws nothing.
pub const NO_LANE: i32 = -1;

/// The rows of one forward, as device arrays of `capacity` entries of which the first `count` are used.
///
/// Rows of one lane are contiguous and in ascending, consecutive positions; every lane appears once.
pub struct Rows<D: Device> {
    /// Rows in this forward, pad rows included.
    pub count: usize,
    /// Token id.
    pub token: D::Buffer<i32>,
    /// Lane, or [`NO_LANE`].
    pub lane: D::Buffer<i32>,
    /// Absolute position, from 0.
    pub position: D::Buffer<i32>,
    /// End (exclusive) of the keys this row may see: `position + 1` for causal rows, the end of the block for a
    /// drafter's block rows.
    pub key_end: D::Buffer<i32>,
}

impl<D: Device> Rows<D> {
    /// Room for `capacity` rows; none are in use.
    pub fn new(device: &D, capacity: usize) -> Result<Self, crate::DeviceError> {
        Ok(Rows {
            count: 0,
            token: device.allocate(capacity)?,
            lane: device.allocate(capacity)?,
            position: device.allocate(capacity)?,
            key_end: device.allocate(capacity)?,
        })
    }
}

/// Which page holds positions `[i * PAGE, (i + 1) * PAGE)` of a lane: `pages[lane * pages_per_lane + i]`.
pub struct PageTable<D: Device> {
    /// Longest context of a lane, in pages.
    pub pages_per_lane: usize,
    /// `lanes * pages_per_lane` page numbers; unused entries are never read.
    pub pages: D::Buffer<i32>,
}

/// Attention keys and values of one layer: each `[pages, key_value_heads, PAGE, head_dim]`.
pub struct KeyValuePages<D: Device> {
    /// Keys after norm and rope.
    pub keys: D::Buffer<bf16>,
    /// Values as projected.
    pub values: D::Buffer<bf16>,
}

impl<D: Device> KeyValuePages<D> {
    /// Reserves `pages` pages of `width` keys and as many values each.
    pub fn reserve(device: &D, pages: usize, width: usize) -> Result<Self, DeviceError> {
        Ok(KeyValuePages { keys: device.reserve(pages * width)?, values: device.reserve(pages * width)? })
    }

    /// Has some of them take memory.
    pub fn commit(&mut self, device: &D, pages: Range<usize>, width: usize) -> Result<(), DeviceError> {
        let values = pages.start * width..pages.end * width;
        device.commit(&mut self.keys, values.clone())?;
        device.commit(&mut self.values, values)
    }
}

/// Gated rows (`B * x`) of one short convolution: `[lanes, CONV_RING, channels]`, and behind them rows that a
/// caller keeps for other times ([`Device::copy_rows`]).
pub struct ConvRing<D: Device> {
    /// See [`CONV_RING`].
    pub gated: D::Buffer<bf16>,
}

/// Cosines and sines of `position * theta^(-2i / head_dim)` for half-split pairs `(i, i + head_dim / 2)`:
/// `[positions, head_dim]`, the first half of a row the cosines, the second the sines.
///
/// Made once on the host, so that every device rotates by the same numbers.
pub struct RopeTable<D: Device> {
    /// Positions covered.
    pub positions: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// The table.
    pub cos_sin: D::Buffer<f32>,
}

impl<D: Device> RopeTable<D> {
    /// Fills the table: angles in fp32, as the released models were trained, their cosines and sines in f64.
    pub fn new(
        device: &D,
        theta: f32,
        head_dim: usize,
        positions: usize,
    ) -> Result<Self, crate::DeviceError> {
        let half = head_dim / 2;
        let frequencies: Vec<f32> = (0..half)
            .map(|i| (1.0 / f64::from(theta).powf(2.0 * i as f64 / head_dim as f64)) as f32)
            .collect();
        let mut table = vec![0f32; positions * head_dim];
        for (position, row) in table.chunks_exact_mut(head_dim).enumerate() {
            for (i, frequency) in frequencies.iter().enumerate() {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                row[i] = cos as f32;
                row[half + i] = sin as f32;
            }
        }
        let mut cos_sin = device.allocate(table.len())?;
        device.upload(&mut cos_sin, 0, &table);
        Ok(RopeTable { positions, head_dim, cos_sin })
    }
}

/// One lane's part of a round, as the device sees it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct DeviceWindow {
    /// The lane, or [`NO_LANE`] for a pad window.
    pub lane: i32,
    /// Index of the window's first row in [`Rows`].
    pub first_row: i32,
    /// Rows of the window: a prompt chunk, or the pending token and its drafts.
    pub row_count: i32,
    /// Drafts among the rows (they are the last ones); 0 for a prompt chunk.
    pub draft_count: i32,
    /// Index of the window's first draw in the drawn ids, -1 when it draws nothing. A window that draws has
    /// `draft_count + 1` consecutive draws, one for each of its last `draft_count + 1` rows.
    pub first_draw: i32,
    /// Which draft block this window's lane fills after the round, -1 for none.
    pub block: i32,
    /// 1 when the committed tokens are to be added to the lane's counts ([`DrawTables`](crate::DrawTables)).
    pub counted: i32,
    /// Index of the lane's window in the round before, when the pending token and the drafts are that round's
    /// anchor and held drafts ([`Device::held_tokens`]); -1 when the host gave all tokens.
    pub previous: i32,
}

/// What a window committed.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Accepted {
    /// Drafts accepted, from the first.
    pub drafts: i32,
    /// The lane's next pending token: the draw after the last accepted draft; -1 when the window drew nothing.
    pub anchor: i32,
    /// The lane's new cached length: positions `0..length` are committed.
    pub length: i32,
    /// The draft block that the window's lane fills after the round, -1 for none.
    pub block: i32,
}

// Host and device agree on these sizes.
const _: () = assert!(size_of::<DeviceWindow>() == 32 && size_of::<Accepted>() == 16);
