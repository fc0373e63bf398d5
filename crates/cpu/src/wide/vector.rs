//! What an instruction set does for products in 8 lanes.

use forerunner_tensor::bf16;

/// Lanes of a vector.
pub(crate) const LANES: usize = 8;
/// Columns that two vectors hold: the even ones, then the odd ones. That is what shifting pairs of bf16 values gives,
/// and weights and rows agree in it. Rows are padded with zeros to a multiple.
pub(crate) const CHUNK: usize = 2 * LANES;

/// 8 values in fp32, in one register or two, and how chunks of columns become such values.
///
/// Implementations are `#[inline(always)]`, so that they are compiled for the mode's instruction set, and all give the
/// same bits.
pub(crate) trait Vector: Copy {
    /// The weights of a group's 16 codes of 4 bits.
    type Table: Copy;

    /// 8 zeros.
    fn zeros() -> Self;

    /// 8 values.
    fn load(values: &[f32; LANES]) -> Self;

    /// `self * by + sum`, fused.
    fn multiply_add(self, by: Self, sum: Self) -> Self;

    /// The lanes added as a tree: lane `i` and `i + 4`, then `i + 2`, `i + 1`.
    fn sum(self) -> f32;

    /// A chunk in fp32.
    fn widen(values: &[bf16; CHUNK], out: &mut [f32; CHUNK]);

    /// `bf16(scale * code + bias)` of every code of 4 bits.
    fn table(pair: u32) -> Self::Table;

    /// The weights of 16 codes, which stand in 16-bit words from bit `shift` on.
    fn look_up(table: Self::Table, words: &[u32; CHUNK / 2], shift: u32, out: &mut [f32; CHUNK]);

    /// `bf16(scale * code + bias)` of 16 codes of 8 bits.
    fn affine(pair: u32, codes: &[u8; CHUNK], out: &mut [f32; CHUNK]);
}
