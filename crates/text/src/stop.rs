//! Ends a reply at a stop string, wherever the borders of its tokens fall.

use crate::TextError;

/// Watches a text that arrives in pieces for the strings that end it.
///
/// Where the text ends depends on the characters alone, never on how they are cut into pieces: at the first place where
/// a stop string is complete, and among those complete there at the start of the longest. No character from there on is
/// ever returned. What could be the start of a stop string is held back until it is one, or is not.
#[derive(Clone, Debug, Default)]
pub struct StopStrings {
    matchers: Vec<Matcher>,
    held: String,
    /// The string that was seen.
    stopped_by: Option<usize>,
}

/// What a push lets out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopOutput {
    /// Text that can be shown: it is before any stop string.
    pub text: String,
    /// Whether a stop string has been seen: the reply is over.
    pub stopped: bool,
}

impl StopStrings {
    /// Watches for any of these strings; with none, every piece passes unchanged.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<StopStrings, TextError> {
        if let Some(index) = stops.iter().position(|stop| stop.as_ref().is_empty()) {
            return Err(TextError::EmptyStop { index });
        }
        let matchers = stops.iter().map(|stop| Matcher::new(stop.as_ref())).collect();
        Ok(StopStrings { matchers, held: String::new(), stopped_by: None })
    }

    /// Takes the next piece of the text.
    pub fn push(&mut self, text: &str) -> StopOutput {
        if self.stopped_by.is_some() {
            return StopOutput { text: String::new(), stopped: true };
        }
        let before = self.held.len();
        self.held.push_str(text);
        for (index, byte) in text.bytes().enumerate() {
            if let Some(stop) = self.step(byte) {
                let length = self.matchers[stop].stop.len();
                return self.stop_at(stop, before + index + 1 - length);
            }
        }
        let maybe = self.matchers.iter().map(|matcher| matcher.matched).max().unwrap_or(0);
        StopOutput { text: self.held.drain(..self.held.len() - maybe).collect(), stopped: false }
    }

    /// Which of the strings has been seen, if one has.
    pub fn stopped_by(&self) -> Option<usize> {
        self.stopped_by
    }

    /// Ends the text: what was held back is no stop string any more and comes out.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Advances every matcher by a byte; which stop string it completes, the longest of several.
    fn step(&mut self, byte: u8) -> Option<usize> {
        let lengths = self.matchers.iter_mut().map(|matcher| matcher.step(byte)).enumerate();
        let completed = lengths.filter_map(|(index, length)| Some((length?, index)));
        completed.max().map(|(_, index)| index)
    }

    fn stop_at(&mut self, stop: usize, end: usize) -> StopOutput {
        self.stopped_by = Some(stop);
        let mut text = std::mem::take(&mut self.held);
        text.truncate(end);
        StopOutput { text, stopped: true }
    }
}

/// Finds one string by the Knuth-Morris-Pratt method: a state and a table, no buffer.
#[derive(Clone, Debug)]
struct Matcher {
    stop: Vec<u8>,
    /// `shorter[n]`: the length of the longest proper prefix of the string that its first `n + 1` bytes end with.
    shorter: Vec<usize>,
    /// How many bytes of the string the text ends with.
    matched: usize,
}

impl Matcher {
    fn new(stop: &str) -> Matcher {
        let mut matcher = Matcher { stop: stop.as_bytes().to_vec(), shorter: vec![0], matched: 0 };
        for index in 1..stop.len() {
            matcher.advance(stop.as_bytes()[index]);
            matcher.shorter.push(matcher.matched);
        }
        matcher.matched = 0;
        matcher
    }

    /// Takes a byte; the string's length if it completes the string, after which the matcher must not be used.
    fn step(&mut self, byte: u8) -> Option<usize> {
        self.advance(byte);
        (self.matched == self.stop.len()).then_some(self.matched)
    }

    fn advance(&mut self, byte: u8) {
        while self.matched > 0 && self.stop[self.matched] != byte {
            self.matched = self.shorter[self.matched - 1];
        }
        if self.stop[self.matched] == byte {
            self.matched += 1;
        }
    }
}
