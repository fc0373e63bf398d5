//! Parallel writes to a matrix: rows in groups, columns in tiles, one disjoint block a chunk of work.

use std::marker::PhantomData;
use std::ops::Range;

use crate::pool::Pool;

/// `[rows, columns]` values, borrowed to be handed out in blocks.
pub(crate) struct Grid<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    values: PhantomData<&'a mut [T]>,
}

// SAFETY: a grid stands for a `&mut [T]`; blocks of it that several threads hold are disjoint.
unsafe impl<T: Send> Sync for Grid<'_, T> {}

impl<'a, T> Grid<'a, T> {
    /// The whole rows of `columns` values that `values` holds.
    pub(crate) fn new(values: &'a mut [T], columns: usize) -> Self {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        Grid { start: values.as_mut_ptr(), rows, columns, values: PhantomData }
    }

    /// Copies row `from[i]` to row `to[i]`, several rows a chunk.
    ///
    /// # Panics
    /// When a row is written twice, or both read and written.
    pub(crate) fn copy_rows(&mut self, pool: &Pool, from: &[i32], to: &[i32], rows_a_chunk: usize)
    where
        T: Copy + Send,
    {
        assert_eq!(from.len(), to.len(), "rows to copy and where to");
        assert!(are_distinct(from, to, self.rows), "rows {from:?} to rows {to:?} of {}", self.rows);
        let grid = &*self;
        pool.run(from.len().div_ceil(rows_a_chunk), |chunk| {
            let range = chunk * rows_a_chunk..from.len().min((chunk + 1) * rows_a_chunk);
            for (&from, &to) in from[range.clone()].iter().zip(&to[range]) {
                let (from, to) = (from as usize * grid.columns, to as usize * grid.columns);
                // SAFETY: both rows are inside the grid, and no other copy reads or writes the second.
                unsafe {
                    std::ptr::copy_nonoverlapping(grid.start.add(from), grid.start.add(to), grid.columns);
                }
            }
        });
    }

    /// # Safety
    /// No other block that is alive overlaps these rows and columns.
    unsafe fn block(&self, rows: Range<usize>, columns: Range<usize>) -> Block<'_, T> {
        assert!(rows.end <= self.rows && columns.end <= self.columns, "{rows:?} x {columns:?} of a grid");
        // SAFETY: the first value is inside the grid, or the block is empty.
        let start = unsafe { self.start.add(rows.start * self.columns + columns.start) };
        Block { start, rows: rows.len(), width: columns.len(), stride: self.columns, values: PhantomData }
    }
}

/// Whether rows below `rows` are each written once at most, and none of them read.
fn are_distinct(read: &[i32], written: &[i32], rows: usize) -> bool {
    let inside = |row: &i32| usize::try_from(*row).is_ok_and(|row| row < rows);
    if !read.iter().chain(written).all(inside) {
        return false;
    }
    // Rows mostly rise and lie past those that are read, which needs no search.
    let mut highest = read.iter().copied().max().unwrap_or(-1);
    written.iter().enumerate().all(|(index, row)| {
        let is_new = *row > highest || !read.contains(row) && !written[..index].contains(row);
        highest = highest.max(*row);
        is_new
    })
}

/// Some columns of some rows of a grid, held alone.
pub(crate) struct Block<'a, T> {
    start: *mut T,
    rows: usize,
    width: usize,
    stride: usize,
    values: PhantomData<&'a mut [T]>,
}

impl<T> Block<'_, T> {
    /// The block's columns of its row `row`.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of a block of {}", self.rows);
        // SAFETY: the row is inside the grid, and the block holds these columns of it alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.stride), self.width) }
    }
}

/// One chunk of work: a group of rows and a tile of columns.
pub(crate) struct Patch {
    pub(crate) group: usize,
    pub(crate) columns: Range<usize>,
}

/// Calls `work` with each tile of `tile` columns of each group of rows. Group `g` is rows
/// `bounds[g]..bounds[g + 1]`.
pub(crate) fn over_groups<T: Send>(
    pool: &Pool,
    grid: &mut Grid<'_, T>,
    bounds: &[usize],
    tile: usize,
    work: impl Fn(Patch, Block<'_, T>) + Sync,
) {
    assert!(bounds.is_sorted(), "bounds of groups");
    let columns = grid.columns;
    let tiles = columns.div_ceil(tile);
    let grid = &*grid;
    pool.run(bounds.len().saturating_sub(1) * tiles, |chunk| {
        let (group, tile_index) = (chunk / tiles, chunk % tiles);
        let columns = tile_index * tile..columns.min((tile_index + 1) * tile);
        // SAFETY: every chunk is run once, and groups (sorted bounds) and tiles do not overlap.
        let block = unsafe { grid.block(bounds[group]..bounds[group + 1], columns.clone()) };
        work(Patch { group, columns }, block);
    });
}

/// Calls `work` with each tile of columns over the first `rows` rows.
pub(crate) fn over_columns<T: Send>(
    pool: &Pool,
    grid: &mut Grid<'_, T>,
    rows: usize,
    tile: usize,
    work: impl Fn(Range<usize>, Block<'_, T>) + Sync,
) {
    over_groups(pool, grid, &[0, rows], tile, |patch, block| work(patch.columns, block));
}

/// Calls `work` with each tile of columns of all rows of two grids of one width.
pub(crate) fn over_columns_of_two<T: Send, U: Send>(
    pool: &Pool,
    first: &mut Grid<'_, T>,
    second: &mut Grid<'_, U>,
    tile: usize,
    work: impl Fn(Range<usize>, Block<'_, T>, Block<'_, U>) + Sync,
) {
    assert_eq!(first.columns, second.columns, "widths of two grids");
    let second = &*second;
    over_columns(pool, first, first.rows, tile, |columns, block| {
        // SAFETY: every tile is visited once, and tiles do not overlap.
        let other = unsafe { second.block(0..second.rows, columns.clone()) };
        work(columns, block, other);
    });
}

/// Calls `work` with the number and the values of each of the first `rows` rows, several rows a chunk.
pub(crate) fn over_rows<T: Send>(
    pool: &Pool,
    grid: &mut Grid<'_, T>,
    rows: usize,
    rows_a_chunk: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let (columns, all) = (grid.columns, &*grid);
    pool.run(rows.div_ceil(rows_a_chunk), |chunk| {
        let range = chunk * rows_a_chunk..rows.min((chunk + 1) * rows_a_chunk);
        // SAFETY: every chunk is run once, and chunks do not overlap.
        let mut block = unsafe { all.block(range.clone(), 0..columns) };
        for (index, row) in range.enumerate() {
            work(row, block.row(index));
        }
    });
}

/// Calls `work` with the number and the values of each of the first `rows` rows of two grids.
pub(crate) fn over_rows_of_two<T: Send, U: Send>(
    pool: &Pool,
    first: &mut Grid<'_, T>,
    second: &mut Grid<'_, U>,
    rows: usize,
    rows_a_chunk: usize,
    work: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let second = &*second;
    over_rows(pool, first, rows, rows_a_chunk, |row, values| {
        // SAFETY: every row is visited once.
        let mut other = unsafe { second.block(row..row + 1, 0..second.columns) };
        work(row, values, other.row(0));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_copied_and_conflicts_are_told() {
        let pool = Pool::new(3).unwrap();
        let mut values: Vec<i32> = (0..20).collect();
        Grid::new(&mut values, 2).copy_rows(&pool, &[0, 1, 2], &[9, 5, 7], 1);
        assert_eq!(values[10..], [2, 3, 12, 13, 4, 5, 16, 17, 0, 1]);
        assert!(are_distinct(&[0, 1], &[5, 3, 4], 6));
        for (read, written) in
            [([0, 1], [5, 5, 2]), ([0, 1], [5, 3, 5]), ([0, 4], [5, 3, 4]), ([0, 1], [2, 3, 6])]
        {
            assert!(!are_distinct(&read, &written, 6), "{read:?} to {written:?}");
        }
        assert!(!are_distinct(&[-1], &[2], 6));
    }

    #[test]
    fn every_value_is_visited_once() {
        let pool = Pool::new(3).unwrap();
        let mut values = vec![0; 7 * 10];
        over_groups(&pool, &mut Grid::new(&mut values, 10), &[0, 2, 2, 6], 3, |patch, mut block| {
            for row in 0..[2, 0, 4][patch.group] {
                block.row(row).iter_mut().for_each(|value| *value += 1);
            }
        });
        over_rows(&pool, &mut Grid::new(&mut values, 10), 7, 2, |row, values| {
            values.iter_mut().for_each(|value| *value += 10 * (row + 1));
        });
        for (index, value) in values.iter().enumerate() {
            let row = index / 10;
            assert_eq!(*value, 10 * (row + 1) + usize::from(row < 6), "value {index}");
        }
    }
}
