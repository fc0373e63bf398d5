//! What each token id means in bytes, for byte-level vocabularies.

use std::collections::HashMap;

/// The bytes of every token, in one piece of memory, and which tokens are special.
#[derive(Debug)]
pub(crate) struct ByteTable {
    /// The bytes of token `id` are `bytes[starts[id]..starts[id + 1]]`.
    starts: Vec<u32>,
    bytes: Vec<u8>,
    special: Vec<bool>,
}

impl ByteTable {
    /// Lays out a vocabulary. A later name for an id replaces an earlier one; ids that no token has get no bytes.
    pub(crate) fn new(vocabulary: &[(String, u32)], is_special: impl Fn(u32) -> bool) -> ByteTable {
        let size = vocabulary.iter().map(|&(_, id)| id as usize + 1).max().unwrap_or(0);
        let mut names = vec![""; size];
        for (name, id) in vocabulary {
            names[*id as usize] = name;
        }
        let alphabet = alphabet();
        let mut table = ByteTable {
            starts: vec![0],
            bytes: Vec::new(),
            special: (0..size as u32).map(is_special).collect(),
        };
        for name in names {
            push_token_bytes(name, &alphabet, &mut table.bytes);
            table.starts.push(table.bytes.len() as u32);
        }
        table
    }

    /// One past the largest id.
    pub(crate) fn size(&self) -> usize {
        self.special.len()
    }

    /// The bytes of a token; none for an id outside of the vocabulary.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        if id >= self.size() {
            return &[];
        }
        &self.bytes[self.starts[id] as usize..self.starts[id + 1] as usize]
    }

    /// Whether a token is marked special: a control mark, and not a part of the text.
    pub(crate) fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }
}

/// Appends what a token's name stands for: one byte a character, or the name itself
/// where a character is not of the byte alphabet (an added token with a blank, for instance).
fn push_token_bytes(name: &str, alphabet: &HashMap<char, u8>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    for character in name.chars() {
        match alphabet.get(&character) {
            Some(&byte) => bytes.push(byte),
            None => {
                bytes.truncate(start);
                bytes.extend_from_slice(name.as_bytes());
                return;
            }
        }
    }
}

/// The character that stands for each byte in a byte-level vocabulary: printable Latin-1 bytes stand
/// for themselves, the 68 others are counted up from U+0100.
fn alphabet() -> HashMap<char, u8> {
    let stands_for_itself = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    let mut alphabet = HashMap::new();
    for byte in 0..=u8::MAX {
        let code = if stands_for_itself(byte) {
            u32::from(byte)
        } else {
            next += 1;
            next - 1
        };
        alphabet.insert(char::from_u32(code).expect("below U+0200"), byte);
    }
    alphabet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet_covers_every_byte_once() {
        let mut bytes: Vec<u8> = alphabet().into_values().collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=u8::MAX).collect::<Vec<_>>());
        assert_eq!(alphabet()[&'Ġ'], b' ');
        assert_eq!(alphabet()[&'Ċ'], b'\n');
    }

    #[test]
    fn names_outside_the_alphabet_stand_for_themselves() {
        let vocabulary = [("Ġa".to_owned(), 0), ("b".to_owned(), 2), ("<| x |>".to_owned(), 2)];
        let table = ByteTable::new(&vocabulary, |id| id == 2);
        assert_eq!(table.bytes(0), b" a");
        assert_eq!(table.bytes(1), b"");
        assert_eq!(table.bytes(2), b"<| x |>");
        assert_eq!(table.bytes(3), b"");
        assert!(table.is_special(2) && !table.is_special(0) && !table.is_special(9));
    }
}
