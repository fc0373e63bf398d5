//! Kernels for few rows: how many blocks, and how a block's memory is shared out (`few.cuh`).

use forerunner_tensor::bf16;

use crate::module::Grid;
use crate::weights::Format;

/// Rows up to which the weights pass a block once.
pub(crate) const FEW_ROWS: usize = 16;
/// Outputs of a strip.
pub(crate) const STRIP: usize = 16;
/// Warps of a block.
pub(crate) const WARPS: usize = 8;
/// Threads of a block.
pub(crate) const THREADS: usize = 32 * WARPS;
/// Inputs of a chunk, which a warp multiplies at a time.
pub(crate) const CHUNK: usize = 256;
/// Inputs of which each warp has one chunk.
pub(crate) const FEW_INPUTS: usize = CHUNK * WARPS;
/// Tiles of a chunk.
const TILES: usize = 4;
/// Bytes of a row's chunk in shared memory, with those that keep rows in different banks: `CHUNK_ROW` of `few.cuh`.
const CHUNK_ROW: usize = CHUNK * size_of::<bf16>() + 16;
/// Bytes of shared memory that a kernel's own arrays take at most.
const OWN_SHARED: usize = 28 << 10;
/// Bytes of shared memory that a multiprocessor keeps of each block's.
const SYSTEM_SHARED: usize = 1 << 10;

/// How a block's dynamic memory is shared out, as `FewLayout` of `few.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FewLayout {
    warp_bytes: i32,
    row_bytes: i32,
}

/// What a kernel for few rows has to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FewWork {
    pub(crate) format: Format,
    /// Things that are shared among blocks.
    pub(crate) items: usize,
    /// Whether there may be fewer.
    pub(crate) at_most: bool,
    /// Pieces of each that a warp has.
    pub(crate) pieces: usize,
    /// Chunks of a piece, which the warp multiplies together.
    pub(crate) together: usize,
    /// Pieces that a warp has on their way at once, at most.
    pub(crate) stages: usize,
    /// Rows that a warp keeps a chunk of.
    pub(crate) rows: usize,
    /// Groups of 8 warps that share those rows.
    pub(crate) groups: usize,
}

/// What a chip has that blocks share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chip {
    /// Streaming multiprocessors.
    pub(crate) multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub(crate) shared_of_block: usize,
    /// Bytes of shared memory of a multiprocessor.
    pub(crate) shared_of_processor: usize,
    /// Whether its image takes it for one with much shared memory: `ROOMY` of `common.cuh`.
    pub(crate) is_roomy: bool,
}

impl Chip {
    /// `Slots::STAGES` of `few.cuh`.
    pub(crate) fn few_stages(&self, format: Format) -> usize {
        if format == Format::Bf16 && !self.is_roomy { 1 } else { 2 }
    }

    /// `Slots::EXPERT_STAGES` of `few.cuh`.
    pub(crate) fn expert_stages(&self, format: Format) -> usize {
        if matches!(format, Format::Affine4 { .. }) { 1 } else { self.few_stages(format) }
    }

    /// `Slots::TOGETHER` of `few.cuh`.
    pub(crate) fn strips_together(format: Format) -> usize {
        if matches!(format, Format::Affine4 { .. }) { 2 } else { 1 }
    }

    /// Bytes of dynamic memory that a block may have.
    pub(crate) fn room_of_block(&self) -> usize {
        self.shared_of_block - OWN_SHARED
    }

    /// The grid and the layout; none where a block's memory is not enough.
    pub(crate) fn few_plan(&self, work: FewWork) -> Option<(Grid, FewLayout)> {
        let row_bytes = work.rows * CHUNK_ROW;
        let slots = work.together * slot_bytes(work.format);
        let bytes = |stages: usize| WARPS * (row_bytes + stages * work.groups * slots);
        let most_blocks = |stages: usize| {
            let of_block = bytes(stages) + OWN_SHARED + SYSTEM_SHARED;
            // Registers are enough for three groups.
            (self.shared_of_processor / of_block).clamp(1, 3 / work.groups) * self.multiprocessors
        };
        // A block with one piece needs one stage, and more of them fit.
        let pieces = work.items * work.pieces;
        let most = most_blocks(if pieces <= most_blocks(1) { 1 } else { work.stages });
        // Of so many items rounds are equally long; of fewer, more blocks have fewer rounds.
        let blocks = if work.at_most { most.min(work.items) } else { even_grid(work.items, most) };
        let stages = work.stages.min(work.items.div_ceil(blocks.max(1)) * work.pieces);
        let shared = bytes(stages);
        if shared > self.room_of_block() {
            return None;
        }
        let warp_bytes = row_bytes + stages * slots;
        let layout = FewLayout { warp_bytes: warp_bytes as i32, row_bytes: row_bytes as i32 };
        Some((Grid::new(blocks, 1, work.groups * THREADS).with_shared(shared), layout))
    }
}

/// Bytes of a warp's slot: `Slots::BYTES` of `few.cuh`.
fn slot_bytes(format: Format) -> usize {
    TILES * staged_tile_bytes(format)
}

/// Bytes of a tile in shared memory with its scales: those of `Fragment` of `weights.cuh`.
pub(crate) fn staged_tile_bytes(format: Format) -> usize {
    match format {
        Format::Bf16 => 2048,
        Format::Affine4 { .. } => 512 + 128,
        Format::Affine8 { .. } => 1024 + 128,
    }
}

/// Blocks for `items`: as few rounds of at most `most` blocks as there can be, all equally long.
fn even_grid(items: usize, most: usize) -> usize {
    items.div_ceil(items.div_ceil(most).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::many_shared;

    const KIB: usize = 1 << 10;
    /// The H100 and H200, the A100, and what L4, L40 and GeForce cards have in common.
    const CHIPS: [Chip; 3] = [
        Chip {
            multiprocessors: 132,
            shared_of_block: 227 * KIB,
            shared_of_processor: 228 * KIB,
            is_roomy: true,
        },
        Chip {
            multiprocessors: 108,
            shared_of_block: 163 * KIB,
            shared_of_processor: 164 * KIB,
            is_roomy: false,
        },
        Chip {
            multiprocessors: 58,
            shared_of_block: 99 * KIB,
            shared_of_processor: 100 * KIB,
            is_roomy: false,
        },
    ];
    const FORMATS: [Format; 3] = [Format::Bf16, Format::Affine4 { group: 64 }, Format::Affine8 { group: 64 }];

    #[test]
    fn no_plan_asks_for_more_than_a_block_may_have() {
        for (chip, format) in CHIPS.iter().flat_map(|chip| FORMATS.map(|format| (chip, format))) {
            let stages = chip.few_stages(format);
            for (items, rows) in
                [1, 4, 128, 384, 8000].into_iter().flat_map(|items| (0..=16).map(move |rows| (items, rows)))
            {
                let together = Chip::strips_together(format);
                for (pieces, together, stages, groups) in [
                    (1, 1, stages, 1),
                    (1, together, chip.expert_stages(format), 1),
                    (2, 1, stages, 1),
                    (3, 1, stages, 1),
                    (1, 1, 1, 3),
                ] {
                    let work =
                        FewWork { format, items, at_most: false, pieces, together, stages, rows, groups };
                    let Some((grid, layout)) = chip.few_plan(work) else { continue };
                    assert!(grid.shared + OWN_SHARED <= chip.shared_of_block, "{chip:?} {work:?}");
                    // The slots that the kernel goes through: as many as pieces come after each other, or all stages.
                    let warp_slots =
                        (layout.warp_bytes - layout.row_bytes) as usize / (together * slot_bytes(format));
                    let most = items.div_ceil(grid.blocks[0]) * pieces;
                    assert_eq!(warp_slots, stages.min(most), "{chip:?} {work:?}");
                }
            }
            assert!(many_shared(format, chip.is_roomy) <= chip.shared_of_block, "{chip:?} {format:?}");
        }
    }

    #[test]
    fn the_formats_of_released_models_have_plans_for_few_rows_on_every_chip() {
        for (chip, format) in CHIPS.iter().flat_map(|chip| [(chip, FORMATS[0]), (chip, FORMATS[1])]) {
            let stages = chip.expert_stages(format);
            let together = Chip::strips_together(format);
            let work = FewWork {
                format,
                items: 8000,
                at_most: true,
                pieces: 2,
                together,
                stages,
                rows: 0,
                groups: 1,
            };
            assert!(chip.few_plan(work).is_some(), "{chip:?} {format:?}");
        }
    }
}
