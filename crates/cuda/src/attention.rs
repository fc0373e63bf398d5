//! Attention over pages: which kernel, and how pages are shared among blocks.

use forerunner_tensor::{DeviceError, HeadNorms, HeadShape, KeyValuePages, PageTable, RopeTable, Rows, bf16};

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::driver::Address;
use crate::module::{Grid, Kernel, Params};
use crate::rows::RowsParam;
use crate::scratch::Place;
use crate::weights::unsupported;

/// Width of a head.
pub(crate) const HEAD: usize = 64;
/// Queries of a warp.
pub(crate) const QUERIES: usize = 16;
/// Rows up to which each has a block of its own, whatever lane it is of.
const BLOCK_ROWS: usize = 256;
/// Rows up to which blocks share pages, as many as the parts that rows make leave free: `MOST_SHARED_ROWS` of
/// `attention.cuh`. More rows are parts enough.
const MOST_SHARED_ROWS: usize = 64;
/// Warps of a block of `attention_few`, and its shared memory: `FewShared` of `attention.cuh`.
const FEW_WARPS: usize = 4;
const FEW_SHARED: usize = 90 << 10;
/// Pages of a chapter: `CHAPTER` of `attention.cuh`.
const CHAPTER: usize = 8;
/// Sums of pages that all rows together have room for, as long as that is enough for their chapters.
const PAGE_SUMS: usize = 1024;
/// Warps of a block of `attention_many`, and its shared memory: `ATTENTION_WARPS` and `ManyShared` of `attention.cuh`.
const ATTENTION_WARPS: usize = 4;
const MANY_SHARED: usize = 64 << 10;
/// Floats that the sum of a page or a chapter takes.
const PARTIAL: usize = HEAD + 4;

#[repr(C)]
#[derive(Clone, Copy)]
struct RopeParams {
    stacked: Address,
    query_norm: Address,
    key_norm: Address,
    cos_sin: Address,
    pages: Address,
    keys: Address,
    values: Address,
    rows: RowsParam,
    query_heads: i32,
    key_value_heads: i32,
    pages_per_lane: i32,
    epsilon: f32,
}

// SAFETY: `RopeParams` of `attention.cuh`.
unsafe impl Params for RopeParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct AttentionParams {
    stacked: Address,
    keys: Address,
    values: Address,
    pages: Address,
    out: Address,
    partials: Address,
    counters: Address,
    rows: RowsParam,
    query_heads: i32,
    key_value_heads: i32,
    pages_per_lane: i32,
    partial_units: i32,
    many_rows: i32,
    is_shared: i32,
    group: i32,
    room: i32,
    group_inverse: i32,
    reserved: i32,
}

// SAFETY: `AttentionParams` of `attention.cuh`.
unsafe impl Params for AttentionParams {}

impl CudaDevice {
    pub(crate) fn rotate_and_append(
        &self,
        stacked: &Buffer<bf16>,
        shape: HeadShape,
        norms: &HeadNorms<CudaDevice>,
        rope: &RopeTable<CudaDevice>,
        rows: &Rows<CudaDevice>,
        table: &PageTable<CudaDevice>,
        pages: &KeyValuePages<CudaDevice>,
    ) -> Result<(), DeviceError> {
        check_shape(shape)?;
        let params = RopeParams {
            stacked: stacked.first(rows.count * shape.stacked_width()),
            query_norm: norms.query.first(HEAD),
            key_norm: norms.key.first(HEAD),
            cos_sin: rope.cos_sin.first(rope.positions * HEAD),
            pages: table.pages.address(),
            keys: pages.keys.address(),
            values: pages.values.address(),
            rows: RowsParam::new(rows),
            query_heads: shape.query_heads as i32,
            key_value_heads: shape.key_value_heads as i32,
            pages_per_lane: table.pages_per_lane as i32,
            epsilon: norms.epsilon,
        };
        let heads = shape.query_heads + 2 * shape.key_value_heads;
        self.launch_rows(Kernel::RopeAppend, Grid::new(heads.div_ceil(8), rows.count, 256), &params)
    }

    pub(crate) fn attend(
        &self,
        stacked: &Buffer<bf16>,
        shape: HeadShape,
        rows: &Rows<CudaDevice>,
        table: &PageTable<CudaDevice>,
        pages: &KeyValuePages<CudaDevice>,
        out: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        check_shape(shape)?;
        let heads = shape.key_value_heads;
        let group = shape.query_heads / heads;
        let room = QUERIES / group;
        let many_rows = ATTENTION_WARPS * room;
        let has_many = rows.count > BLOCK_ROWS;
        let is_shared = rows.count <= MOST_SHARED_ROWS;
        let units = if is_shared { partial_units(rows.count, table.pages_per_lane) } else { 0 };
        let sums = rows.count * shape.query_heads * units * PARTIAL;
        let params = AttentionParams {
            stacked: stacked.first(rows.count * shape.stacked_width()),
            keys: pages.keys.address(),
            values: pages.values.address(),
            pages: table.pages.address(),
            out: out.first(rows.count * shape.query_heads * HEAD),
            partials: self.scratch(Place::Partials, (sums * size_of::<f32>()).max(1))?,
            counters: self.scratch(Place::Counters, rows.count * heads * size_of::<u32>())?,
            rows: RowsParam::new(rows),
            query_heads: shape.query_heads as i32,
            key_value_heads: heads as i32,
            pages_per_lane: table.pages_per_lane as i32,
            partial_units: units as i32,
            many_rows: if has_many { many_rows as i32 } else { 0 },
            is_shared: i32::from(is_shared),
            group: group as i32,
            room: room as i32,
            // Exact for what is divided: queries, of which there are 16.
            group_inverse: (1 << 16) / group as i32 + 1,
            reserved: 0,
        };
        if has_many {
            let grid = Grid::new(rows.count.div_ceil(many_rows), heads, ATTENTION_WARPS * 32);
            self.launch_rows(Kernel::AttentionMany, grid.with_shared(MANY_SHARED), &params)?;
        }
        // Two on each multiprocessor, which share what there is, or a block for each row and key head.
        let blocks = (2 * self.driver.resources.multiprocessors).max(rows.count * heads);
        let grid = if is_shared { [blocks, 1, 1] } else { [rows.count, heads, 1] };
        let grid = Grid { blocks: grid, threads: 32 * FEW_WARPS, shared: FEW_SHARED };
        self.launch_rows(Kernel::AttentionFew, grid, &params)
    }
}

/// Pages or chapters that a row's partial sums have room for: the chapters of the longest context, and more where rows are
/// few.
fn partial_units(rows: usize, pages: usize) -> usize {
    (PAGE_SUMS / rows.max(1)).clamp(pages.div_ceil(CHAPTER), pages)
}

fn check_shape(shape: HeadShape) -> Result<(), DeviceError> {
    let HeadShape { query_heads, key_value_heads, head_dim } = shape;
    let group = query_heads.checked_div(key_value_heads);
    let fits = group.is_some_and(|group| group <= QUERIES && group * key_value_heads == query_heads);
    if head_dim == HEAD && fits {
        return Ok(());
    }
    Err(unsupported(
        "the shape of attention heads",
        format!("{query_heads} query and {key_value_heads} key heads of {head_dim}"),
        format!("heads of {HEAD}, at most {QUERIES} query heads a key head"),
    ))
}
