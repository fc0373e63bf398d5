//! Turns a stream of tokens into a stream of text that never holds half a character.

use std::sync::Arc;

use crate::bytes::ByteTable;

/// Decodes one sequence, token by token.
///
/// All pieces that [`push`](Self::push) and [`finish`](Self::finish) return, joined, equal the decoding of all tokens
/// at once. Each piece is whole characters: at most the three bytes of a character that is not complete yet are held
/// back. Bytes that cannot become a character turn into U+FFFD at once, so a stream never stalls on them.
/// A push costs the token's own bytes, however long the reply is.
#[derive(Clone, Debug)]
pub struct Detokenizer {
    table: Arc<ByteTable>,
    shown: Vec<u32>,
    pending: Vec<u8>,
}

impl Detokenizer {
    pub(crate) fn new(table: Arc<ByteTable>, shown: &[u32]) -> Detokenizer {
        Detokenizer { table, shown: shown.to_vec(), pending: Vec::new() }
    }

    /// Takes the next token and returns the text that it completes, which is often empty for a part of a character.
    ///
    /// Special tokens are not text, unless they are among those to be shown; ids outside of the vocabulary are nothing.
    pub fn push(&mut self, token: u32) -> String {
        let mut text = String::new();
        self.push_into(token, &mut text);
        text
    }

    /// Like [`push`](Self::push), but appends to a text.
    pub fn push_into(&mut self, token: u32, text: &mut String) {
        if self.table.is_special(token) && !self.shown.contains(&token) {
            return;
        }
        self.pending.extend_from_slice(self.table.bytes(token));
        let complete = append_complete(&self.pending, text);
        self.pending.drain(..complete);
    }

    /// Ends the sequence: a character that was not completed becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// Appends all of `bytes` but an incomplete character at its end, and returns how many bytes that was.
fn append_complete(bytes: &[u8], text: &mut String) -> usize {
    let mut done = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        done += chunk.valid().len();
        let invalid = chunk.invalid();
        let is_incomplete = done + invalid.len() == bytes.len()
            && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if is_incomplete {
            break;
        }
        if !invalid.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            done += invalid.len();
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected_text: &str, expected_done: usize) {
        let mut text = String::new();
        let done = append_complete(bytes, &mut text);
        assert_eq!((text.as_str(), done), (expected_text, expected_done), "{bytes:x?}");
    }

    #[test]
    fn only_an_incomplete_character_at_the_end_is_held_back() {
        check(b"", "", 0);
        check(b"ab", "ab", 2);
        check("aé".as_bytes(), "aé", 3);
        check(b"a\xc3", "a", 1);
        check(b"a\xe6\x97", "a", 1);
        check(b"\xf0\x9f\x99", "", 0);
        check(b"\xc3a\xc3", "\u{fffd}a", 2);
        check(b"\xff\xff", "\u{fffd}\u{fffd}", 2);
        check(b"\x80\xe6", "\u{fffd}", 1);
        check(b"\xf0\x9f\xf0\x9f\x99\x82", "\u{fffd}🙂", 6);
    }
}
