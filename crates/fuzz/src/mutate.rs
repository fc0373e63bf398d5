//! Changes inputs at random: the same seed makes the same changes everywhere.

/// Numbers that parsers stumble over.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "1e999",
    "-0.0",
    "1e-400",
];

/// Pieces of structure and of text that is easily cut wrong.
const PIECES: [&str; 16] = [
    "{", "}", "[", "]", "\"", ":", ",", "null", "true", "\\u0000", "\\ud800", "\\", "\u{0}", "é", "🙂", "\n",
];

/// Longest input that is made.
const LONGEST: usize = 1 << 16;

/// A source of changes.
#[derive(Debug, Clone)]
pub(crate) struct Mutator {
    state: u64,
    words: &'static [&'static str],
}

impl Mutator {
    /// The changes of `seed`, which also put in some of `words`.
    pub(crate) fn new(seed: u64, words: &'static [&'static str]) -> Mutator {
        Mutator { state: seed, words }
    }

    /// One of the inputs, changed in one to four places.
    ///
    /// # Panics
    /// If there is no input.
    pub(crate) fn change(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = inputs[self.below(inputs.len())].clone();
        for _ in 0..=self.below(4) {
            self.change_once(&mut bytes, inputs);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change_once(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + 1 + self.below(16)).min(bytes.len()).max(at))),
            4 => {
                let end = (at + 1 + self.below(64)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                insert(bytes, at, &piece.repeat(1 + self.below(3)));
            }
            5 => self.put_number(bytes, at),
            6 => {
                let other = &inputs[self.below(inputs.len())];
                let from = self.below(other.len() + 1);
                let piece = other[from..(from + 1 + self.below(64)).min(other.len())].to_vec();
                insert(bytes, at, &piece);
            }
            7 if !self.words.is_empty() => {
                let word = self.words[self.below(self.words.len())];
                insert(bytes, at, word.as_bytes());
            }
            _ => {
                let piece = PIECES[self.below(PIECES.len())];
                insert(bytes, at, piece.as_bytes());
            }
        }
    }

    /// Another number in the place of the next one.
    fn put_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else {
            return;
        };
        let end = bytes[from..]
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .map_or(bytes.len(), |len| from + len);
        let number = NUMBERS[self.below(NUMBERS.len())];
        bytes.splice(from..end, number.bytes());
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_changes_again_and_another_makes_others() {
        let inputs = [b"{\"a\": 12}".to_vec(), b"[]".to_vec(), Vec::new()];
        let changed = |seed| {
            let mut mutator = Mutator::new(seed, &["word"]);
            (0..200).map(|_| mutator.change(&inputs)).collect::<Vec<_>>()
        };
        assert_eq!(changed(1), changed(1));
        assert_ne!(changed(1), changed(2));
    }
}
