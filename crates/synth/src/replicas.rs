//! Which source each part of a grown tensor repeats, and what it is multiplied by (docs/synth.md section 1).

/// Inputs of one scale in a quantized matrix. Everything is tiled in runs of this width, so a group of the grown
/// matrix is a group of its source.
pub(crate) const GROUP: usize = 64;

/// A part of a grown tensor: which part of the source it repeats, and what that is multiplied by. With a factor of 0
/// it is zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Piece {
    pub(crate) source: usize,
    pub(crate) factor: f32,
}

const ZEROS: Piece = Piece { source: 0, factor: 0.0 };

/// The grown hidden state: `count` replicas of the source's, one behind the other. In the last two replicas the last
/// group is not a replica: the one is the energy replica, which stands in for both in a norm's mean and is never
/// read, the other is the control group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replicas {
    /// Width of the source.
    pub(crate) width: usize,
    /// A power of two, at least 4.
    pub(crate) count: usize,
}

impl Replicas {
    /// The grown width.
    pub(crate) fn grown(&self) -> usize {
        self.width * self.count
    }

    /// How each group of 64 is written.
    pub(crate) fn written_groups(&self) -> Vec<Piece> {
        self.groups(|copy| match self.count - 1 - copy {
            0 => 0.0,
            1 => std::f32::consts::SQRT_2,
            _ => 1.0,
        })
    }

    /// How each row is written, of a matrix that writes the hidden state.
    pub(crate) fn written_rows(&self) -> Vec<Piece> {
        let rows = |piece: &Piece| {
            let Piece { source, factor } = *piece;
            (0..GROUP).map(move |row| Piece { source: source * GROUP + row, factor })
        };
        self.written_groups().iter().flat_map(rows).collect()
    }

    /// How each group of columns is read, of a matrix that reads the hidden state. What is read of one source sums
    /// to 1.
    pub(crate) fn read_groups(&self) -> Vec<Piece> {
        let last = parts(self.count - 2);
        let mut pieces = self.groups(|copy| last.get(copy).copied().unwrap_or(0.0));
        let last_group = self.width / GROUP - 1;
        for piece in pieces.iter_mut().filter(|piece| piece.source != last_group) {
            piece.factor = 1.0 / self.count as f32;
        }
        pieces
    }

    /// A norm's weights for the grown state: the source's where it is read, else 0.
    pub(crate) fn norm(&self, source: &[f32]) -> Vec<f32> {
        self.spread(source, |factor| if factor > 0.0 { 1.0 } else { 0.0 })
    }

    /// A norm's weights that divide as well, for what is read by a matrix that is not.
    pub(crate) fn dividing_norm(&self, source: &[f32]) -> Vec<f32> {
        self.spread(source, |factor| factor)
    }

    fn spread(&self, source: &[f32], weight: impl Fn(f32) -> f32) -> Vec<f32> {
        let group = |piece: Piece| {
            let weight = weight(piece.factor);
            source[piece.source * GROUP..][..GROUP].iter().map(move |value| value * weight)
        };
        self.read_groups().into_iter().flat_map(group).collect()
    }

    /// All groups, with a factor of 1 but for the last group of each replica.
    fn groups(&self, last: impl Fn(usize) -> f32) -> Vec<Piece> {
        let groups = self.width / GROUP;
        let piece = |index: usize| {
            let (copy, source) = (index / groups, index % groups);
            Piece { source, factor: if source + 1 == groups { last(copy) } else { 1.0 } }
        };
        (0..groups * self.count).map(piece).collect()
    }
}

/// Powers of two, one a copy, that sum to 1.
pub(crate) fn parts(copies: usize) -> Vec<f32> {
    let whole = copies.next_power_of_two();
    (0..copies).map(|copy| if copy < 2 * copies - whole { 1.0 } else { 2.0 } / whole as f32).collect()
}

/// `grown` rows that repeat `source` rows.
pub(crate) fn tiled_rows(source: usize, grown: usize) -> Vec<Piece> {
    (0..grown).map(|row| Piece { source: row % source, factor: 1.0 }).collect()
}

/// `blocks` blocks of rows, each tiled by itself.
pub(crate) fn tiled_blocks(blocks: usize, source: usize, grown: usize) -> Vec<Piece> {
    let block = |block| {
        tiled_rows(source, grown)
            .into_iter()
            .map(move |piece| Piece { source: block * source + piece.source, ..piece })
    };
    (0..blocks).flat_map(block).collect()
}

/// `grown` rows of which the first `source` are the source's and the rest zeros.
pub(crate) fn padded_rows(source: usize, grown: usize) -> Vec<Piece> {
    let row = |row| if row < source { Piece { source: row, factor: 1.0 } } else { ZEROS };
    (0..grown).map(row).collect()
}

/// Groups of columns over `grown` units that repeat `source` units.
pub(crate) fn tiled_groups(source: usize, grown: usize) -> Vec<Piece> {
    tiled_rows(source / GROUP, grown / GROUP)
}

/// As [`tiled_groups`], for a matrix that sums over the units: what is read of one source sums to 1.
pub(crate) fn divided_groups(source: usize, grown: usize) -> Vec<Piece> {
    let (source, grown) = (source / GROUP, grown / GROUP);
    let piece = |group: usize| {
        let (unit, copy) = (group % source, group / source);
        Piece { source: unit, factor: parts((grown - unit).div_ceil(source))[copy] }
    };
    (0..grown).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the factors of each source sum to.
    fn sums(pieces: &[Piece], sources: usize) -> Vec<f32> {
        let mut sums = vec![0.0; sources];
        pieces.iter().for_each(|piece| sums[piece.source] += piece.factor);
        sums
    }

    #[test]
    fn parts_are_powers_of_two_that_sum_to_one() {
        assert_eq!(parts(6), [0.125, 0.125, 0.125, 0.125, 0.25, 0.25]);
        assert_eq!(parts(2), [0.5, 0.5]);
        for copies in 1..40 {
            let parts = parts(copies);
            assert_eq!((parts.len(), parts.iter().sum::<f32>()), (copies, 1.0));
            assert!(parts.iter().all(|part| part.log2().fract() == 0.0), "{parts:?}");
        }
    }

    #[test]
    fn every_source_is_read_once_and_keeps_its_energy() {
        for count in [4, 8, 16] {
            let replicas = Replicas { width: 256, count };
            let (written, read) = (replicas.written_groups(), replicas.read_groups());
            let product = |(written, read): (&Piece, &Piece)| {
                assert_eq!(written.source, read.source);
                Piece { factor: written.factor * read.factor, ..*written }
            };
            let products: Vec<Piece> = written.iter().zip(&read).map(product).collect();
            assert_eq!(sums(&products, 4), [1.0; 4]);
            // The energy replica and the control group are never read.
            let last = 4 * count - 1;
            assert_eq!((read[last].factor, written[last].factor, read[last - 4].factor), (0.0, 0.0, 0.0));
            for piece in &read {
                assert!(piece.factor == 0.0 || piece.factor.log2().fract() == 0.0);
            }
            let squares: Vec<Piece> =
                written.iter().map(|piece| Piece { factor: piece.factor.powi(2), ..*piece }).collect();
            for sum in sums(&squares, 4) {
                assert!((sum - count as f32).abs() < 1e-5, "{sum} of {count}");
            }
        }
    }

    #[test]
    fn uneven_units_are_divided_by_how_often_they_occur() {
        let groups = divided_groups(768, 11_776);
        assert_eq!(groups.len(), 184);
        assert_eq!(sums(&groups, 12), [1.0; 12]);
        // Units 0 to 255 have 16 copies, the others 15.
        assert_eq!((groups[0].factor, groups[4].factor, groups[12 * 14 + 4].factor), (0.0625, 0.0625, 0.125));
    }

    #[test]
    fn blocks_are_tiled_apart() {
        let rows = tiled_blocks(3, 2, 4);
        let sources: Vec<usize> = rows.iter().map(|piece| piece.source).collect();
        assert_eq!(sources, [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5]);
    }
}
