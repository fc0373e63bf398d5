//! Attention: head norms with rotation and append, sums of pages, and their merging.

use bytemuck::{Pod, Zeroable};
use forerunner_tensor::{DeviceError, HeadNorms, HeadShape, KeyValuePages, PageTable, RopeTable, Rows, bf16};

use crate::buffer::Buffer;
use crate::device::GpuDevice;
use crate::driver::unsupported;
use crate::scratch::Place;
use crate::shaders::Kernel;
use crate::weights::Format;

/// Width of a head.
pub(crate) const HEAD: usize = 64;
/// Query heads of one key head that a workgroup has.
const HEADS: usize = 4;
/// Heads of a workgroup of `rope_append`.
const ROPE_HEADS: usize = 4;
/// Bytes that a page's sum takes.
const PARTIAL_BYTES: usize = (HEAD + 2) * size_of::<f32>();
/// Bytes of page sums at most, by which rows are cut.
const MOST_PARTIAL_BYTES: usize = 64 << 20;
/// Workgroups that keep a large GPU busy: pages are shared out until there are as many.
const WANTED_WORKGROUPS: usize = 512;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RopeParams {
    query_heads: u32,
    key_value_heads: u32,
    pages_per_lane: u32,
    epsilon: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AttentionParams {
    first_row: u32,
    query_heads: u32,
    key_value_heads: u32,
    pages_per_lane: u32,
    shares: u32,
}

impl GpuDevice {
    pub(crate) fn rotate_and_append(
        &self,
        stacked: &Buffer<bf16>,
        shape: HeadShape,
        norms: &HeadNorms<GpuDevice>,
        rope: &RopeTable<GpuDevice>,
        rows: &Rows<GpuDevice>,
        table: &PageTable<GpuDevice>,
        pages: &KeyValuePages<GpuDevice>,
    ) -> Result<(), DeviceError> {
        check_shape(shape)?;
        let params = RopeParams {
            query_heads: shape.query_heads as u32,
            key_value_heads: shape.key_value_heads as u32,
            pages_per_lane: table.pages_per_lane as u32,
            epsilon: norms.epsilon,
        };
        let buffers = [
            stacked.first(rows.count * shape.stacked_width()),
            // Unread when there are no query heads.
            norms.query.first(if shape.query_heads > 0 { HEAD } else { 0 }),
            norms.key.first(HEAD),
            rope.cos_sin.first(rope.positions * HEAD),
            &table.pages.memory,
            rows.lane.first(rows.count),
            rows.position.first(rows.count),
            &pages.keys.memory,
            &pages.values.memory,
        ];
        let heads = shape.query_heads + 2 * shape.key_value_heads;
        let grid = [heads.div_ceil(ROPE_HEADS), rows.count, 1];
        self.launch((Kernel::RopeAppend, Format::Bf16), &buffers, &params, grid)
    }

    pub(crate) fn attend(
        &self,
        stacked: &Buffer<bf16>,
        shape: HeadShape,
        rows: &Rows<GpuDevice>,
        table: &PageTable<GpuDevice>,
        pages: &KeyValuePages<GpuDevice>,
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        check_shape(shape)?;
        let HeadShape { query_heads, key_value_heads, .. } = shape;
        let stacked = stacked.first(rows.count * shape.stacked_width());
        let out = out.first(rows.count * query_heads * HEAD);
        let (lane, key_end) = (rows.lane.first(rows.count), rows.key_end.first(rows.count));
        let row_bytes = query_heads * table.pages_per_lane * PARTIAL_BYTES;
        let rows_at_once = (MOST_PARTIAL_BYTES / row_bytes).clamp(1, rows.count.max(1));
        let partials = self.scratch(Place::Partials, rows_at_once * row_bytes)?;
        let heads = key_value_heads * (query_heads / key_value_heads).div_ceil(HEADS);
        for first_row in (0..rows.count).step_by(rows_at_once) {
            let count = rows_at_once.min(rows.count - first_row);
            let shares = WANTED_WORKGROUPS.div_ceil(count * heads).min(table.pages_per_lane);
            let params = AttentionParams {
                first_row: first_row as u32,
                query_heads: query_heads as u32,
                key_value_heads: key_value_heads as u32,
                pages_per_lane: table.pages_per_lane as u32,
                shares: shares as u32,
            };
            let (keys, values) = (&pages.keys.memory, &pages.values.memory);
            let buffers = [stacked, keys, values, &table.pages.memory, lane, key_end, &*partials];
            let grid = [count, heads, shares];
            self.launch((Kernel::Attention, Format::Bf16), &buffers, &params, grid)?;
            let buffers = [&*partials, lane, key_end, out];
            let grid = [count, query_heads, 1];
            self.launch((Kernel::AttentionMerge, Format::Bf16), &buffers, &params, grid)?;
        }
        Ok(())
    }
}

fn check_shape(shape: HeadShape) -> Result<(), DeviceError> {
    let HeadShape { query_heads, key_value_heads, head_dim } = shape;
    let group = query_heads.checked_div(key_value_heads);
    if head_dim == HEAD && group.is_some_and(|group| group * key_value_heads == query_heads) {
        return Ok(());
    }
    Err(unsupported(
        "the shape of attention heads",
        format!("{query_heads} query and {key_value_heads} key heads of {head_dim}"),
        format!("heads of {HEAD}, as many query heads for each key head"),
    ))
}
