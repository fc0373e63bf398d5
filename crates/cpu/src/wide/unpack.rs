//! Rows as fp32, chunk by chunk.

use forerunner_tensor::bf16;

use super::{CHUNK, Vector};
use crate::weights::{BLOCK, CHUNK as CODES, View, row_words};

/// Widens a row; what is left of `out` becomes zeros.
#[inline(always)]
pub(super) fn widen<V: Vector>(row: &[bf16], out: &mut [f32]) {
    let (chunks, rest) = row.as_chunks::<CHUNK>();
    let (places, _) = out.as_chunks_mut::<CHUNK>();
    for (chunk, out) in chunks.iter().zip(places.iter_mut()) {
        V::widen(chunk, out);
    }
    if !rest.is_empty() {
        let mut padded = [bf16::ZERO; CHUNK];
        padded[..rest.len()].copy_from_slice(rest);
        V::widen(&padded, &mut places[chunks.len()]);
    }
}

/// Unpacks row `output` of `columns` columns; what is left of `out` becomes zeros.
#[inline(always)]
pub(super) fn row<V: Vector>(weights: View<'_>, columns: usize, output: usize, out: &mut [f32]) {
    match weights {
        View::Dense(values) => widen::<V>(&values[output * columns..(output + 1) * columns], out),
        View::Affine { bits, group, codes, pairs } => {
            let (words, groups) = (row_words(bits, columns), columns / group);
            let codes = &codes[output * words..(output + 1) * words];
            let pairs = &pairs[output * groups..(output + 1) * groups];
            if bits == 4 {
                codes4::<V>(codes, pairs, group, out)
            } else {
                codes8::<V>(codes, pairs, group, out)
            }
        }
    }
}

/// 4-bit codes: looked up in a table of the group's 16 weights.
#[inline(always)]
fn codes4<V: Vector>(codes: &[u32], pairs: &[u32], group: usize, out: &mut [f32]) {
    for ((index, pair), out) in pairs.iter().enumerate().zip(out.chunks_exact_mut(group)) {
        let table = V::table(*pair);
        for (chunk, out) in (index * group / CODES..).zip(out.chunks_exact_mut(CODES)) {
            // A line of 128 columns has nibble `n` of a 16-bit word for column `32 n + word`.
            let line: &[u32; 16] = codes[chunk * CODES / BLOCK * 16..].first_chunk().expect("a whole line");
            let (halves, _) = line.as_chunks();
            for (words, out) in halves.iter().zip(out.as_chunks_mut().0) {
                V::look_up(table, words, (chunk % 4 * 4) as u32, out);
            }
        }
    }
}

/// 8-bit codes, in order.
#[inline(always)]
fn codes8<V: Vector>(codes: &[u32], pairs: &[u32], group: usize, out: &mut [f32]) {
    let bytes: &[u8] = bytemuck::cast_slice(codes);
    let groups = bytes.chunks_exact(group).zip(out.chunks_exact_mut(group));
    for (pair, (bytes, out)) in pairs.iter().zip(groups) {
        for (codes, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            V::affine(*pair, codes, out);
        }
    }
}
