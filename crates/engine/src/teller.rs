//! What is told of each token beside the reply's text, in step with it: no token before all of its text.

use std::collections::VecDeque;

use crate::request::ToldToken;

/// Holds tokens until their text is shown: it may be half a character, or turn out to belong to a stop string.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    waiting: VecDeque<Waiting>,
    /// Bytes of text that the tokens have made, and how many of them are shown.
    made: usize,
    shown: usize,
}

#[derive(Debug)]
struct Waiting {
    /// Where its text is in the reply.
    start: usize,
    end: usize,
    told: ToldToken,
}

impl Waiting {
    /// A token that makes no text, as the first half of a character, is told with what comes after it.
    fn is_shown(&self, shown: usize) -> bool {
        self.end <= shown && self.start < shown
    }
}

impl Teller {
    /// Takes the reply's next token; its text is what the detokenizer made of it.
    pub(crate) fn push(&mut self, told: ToldToken) {
        let start = self.made;
        self.made += told.text.len();
        self.waiting.push_back(Waiting { start, end: self.made, told });
    }

    /// Drops the last token: it ends the reply and is no part of it.
    pub(crate) fn drop_last(&mut self) {
        self.waiting.pop_back();
    }

    /// Gives the last token what the detokenizer still held.
    pub(crate) fn extend_last(&mut self, text: &str) {
        if let Some(last) = self.waiting.back_mut() {
            last.told.text.push_str(text);
            last.end += text.len();
        }
        self.made += text.len();
    }

    /// The tokens whose text is out when so many bytes more are.
    pub(crate) fn show(&mut self, bytes: usize) -> Vec<ToldToken> {
        self.shown += bytes;
        let count = self.waiting.iter().take_while(|waiting| waiting.is_shown(self.shown)).count();
        self.waiting.drain(..count).map(|waiting| waiting.told).collect()
    }

    /// All the others, at the reply's end.
    pub(crate) fn finish(&mut self) -> Vec<ToldToken> {
        self.waiting.drain(..).map(|waiting| waiting.told).collect()
    }

    /// Those of the others that begin before a stop string, which starts where the shown text ends; the last one's
    /// text is cut there.
    pub(crate) fn stop(&mut self) -> Vec<ToldToken> {
        let shown = self.shown;
        let before = self.waiting.drain(..).filter(|waiting| waiting.start < shown);
        before
            .map(|Waiting { start, end, mut told }| {
                told.text.truncate(shown.min(end) - start);
                told
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    fn teller(texts: &[&str]) -> Teller {
        let mut teller = Teller::default();
        for (token, text) in texts.iter().enumerate() {
            let (token, text) = (token as u32, (*text).to_owned());
            teller.push(ToldToken { token, text, origin: Origin::Plain, logprobs: Vec::new() });
        }
        teller
    }

    fn texts(told: Vec<ToldToken>) -> Vec<(u32, String)> {
        told.into_iter().map(|told| (told.token, told.text)).collect()
    }

    fn pairs(expected: &[(u32, &str)]) -> Vec<(u32, String)> {
        expected.iter().map(|(token, text)| (*token, (*text).to_owned())).collect()
    }

    #[test]
    fn a_token_is_told_when_all_of_its_text_is_out() {
        let mut teller = teller(&["ab", "cd", "ef"]);
        assert_eq!(texts(teller.show(3)), pairs(&[(0, "ab")]));
        assert_eq!(texts(teller.show(3)), pairs(&[(1, "cd"), (2, "ef")]));
        assert_eq!(texts(teller.finish()), pairs(&[]));
    }

    #[test]
    fn halves_of_a_character_are_told_together() {
        let mut teller = teller(&["a", "", "é", "b"]);
        assert_eq!(texts(teller.show(1)), pairs(&[(0, "a")]));
        assert_eq!(texts(teller.show(2)), pairs(&[(1, ""), (2, "é")]));
    }

    #[test]
    fn a_half_that_is_never_completed_gets_the_replacement() {
        let mut teller = teller(&["a", "", ""]);
        assert_eq!(texts(teller.show(1)), pairs(&[(0, "a")]));
        teller.drop_last();
        teller.extend_last("\u{fffd}");
        assert_eq!(texts(teller.show(3)), pairs(&[(1, "\u{fffd}")]));
    }

    #[test]
    fn a_stop_string_takes_its_tokens_with_it() {
        let mut teller = teller(&["ab", "cST", "", "OP", "x"]);
        assert_eq!(texts(teller.show(3)), pairs(&[(0, "ab")]));
        assert_eq!(texts(teller.stop()), pairs(&[(1, "c")]));
    }

    #[test]
    fn a_stop_string_at_a_border_leaves_nothing_of_the_next_token() {
        let mut teller = teller(&["ab", "", "STOP"]);
        assert_eq!(texts(teller.show(2)), pairs(&[(0, "ab")]));
        assert_eq!(texts(teller.stop()), pairs(&[]));
    }
}
