//! Left operands: tiles of weights, read where they are or unpacked into memory.

use std::arch::x86_64::*;
use std::ops::Range;

use forerunner_tensor::bf16;

use super::ROW_BYTES;
use super::tiles::{Place, SIDE};
use crate::avx512::{Source, as_integers};
use crate::memory::Scratch;
use crate::weights::{BLOCK, CHUNK};

/// Values of a tile.
const TILE_VALUES: usize = SIDE * CHUNK;

/// The tiles of one block of 128 columns, or of what is left of a row.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    first: Place,
    /// Bytes from one to the next.
    step: usize,
}

impl Tiles {
    /// The tile of a chunk of 32 columns.
    ///
    /// # Safety
    /// The chunk is one of the block's.
    #[inline(always)]
    pub(super) unsafe fn chunk(self, chunk: usize) -> Place {
        // SAFETY: the caller's promise.
        unsafe { self.first.after(chunk * self.step) }
    }
}

/// Weights and room to unpack them.
pub(super) struct Left<'a, S> {
    source: S,
    columns: usize,
    /// After the last output that is asked for.
    end: usize,
    /// Two blocks of outputs, each with the four tiles of a block of columns.
    unpacked: &'a mut [bf16],
}

impl<'a, S: Source> Left<'a, S> {
    pub(super) fn new(source: S, columns: usize, end: usize, room: &'a mut Scratch<bf16>) -> Self {
        Left { source, columns, end, unpacked: room.take(2 * 4 * TILE_VALUES) }
    }

    /// The tiles of at most 16 outputs. Rows past the last output are unspecified. Those that were unpacked stay
    /// until `slot`, 0 or 1, is used again.
    ///
    /// # Safety
    /// The outputs and the block are inside the source; the processor has the mode's features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    pub(super) unsafe fn tiles(&mut self, outputs: Range<usize>, block: usize, slot: usize) -> Tiles {
        let left = (self.columns - block * BLOCK).min(BLOCK);
        // SAFETY: the caller's promise.
        unsafe {
            if let Some((start, stride)) = self.source.in_memory(outputs.start, block)
                && outputs.len() == SIDE
                && left.is_multiple_of(CHUNK)
            {
                return Tiles { first: Place { start: start.cast(), stride }, step: ROW_BYTES };
            }
            let room = self.unpacked[slot * 4 * TILE_VALUES..][..4 * TILE_VALUES].as_mut_ptr();
            // What this slot has next is on its way while this is multiplied.
            let next = outputs.start + 2 * SIDE;
            for (row, output) in outputs.enumerate() {
                if next < self.end {
                    self.source.fetch(next, block * SIDE + row);
                }
                let out = room.add(row * CHUNK);
                if left == BLOCK {
                    self.unpack(output, block, out)
                } else {
                    self.unpack_rest(output, left, out)
                }
            }
            Tiles { first: Place { start: room.cast(), stride: ROW_BYTES }, step: 2 * TILE_VALUES }
        }
    }

    /// Writes an output's row of each of four tiles.
    ///
    /// # Safety
    /// As for `tiles`; there are four tiles at `out`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn unpack(&self, output: usize, block: usize, out: *mut bf16) {
        // SAFETY: the caller's promise.
        unsafe {
            let line = self.source.line(output, block);
            let tile = |chunk: usize| out.add(chunk * TILE_VALUES).cast();
            _mm512_storeu_si512(tile(0), as_integers(S::weights::<0>(line)));
            _mm512_storeu_si512(tile(1), as_integers(S::weights::<1>(line)));
            _mm512_storeu_si512(tile(2), as_integers(S::weights::<2>(line)));
            _mm512_storeu_si512(tile(3), as_integers(S::weights::<3>(line)));
        }
    }

    /// As `unpack`, for the `left` columns past the last whole block.
    ///
    /// # Safety
    /// As for `unpack`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn unpack_rest(&self, output: usize, left: usize, out: *mut bf16) {
        for chunk in 0..left.div_ceil(CHUNK) {
            let mask = u32::MAX >> (CHUNK - (left - chunk * CHUNK).min(CHUNK));
            // SAFETY: the caller's promise; the mask names columns inside the row.
            unsafe {
                let weights = self.source.chunk(output, self.columns / BLOCK * 4 + chunk, mask);
                _mm512_storeu_si512(out.add(chunk * TILE_VALUES).cast(), as_integers(weights));
            }
        }
    }
}
