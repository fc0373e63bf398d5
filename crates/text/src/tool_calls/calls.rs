//! The list of calls between two marks, as a flat sequence of what is found in it.

use serde_json::Value;

use super::literal::{Cursor, Quote, Quotes};

/// What is found in a list of calls, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// A call of this function begins.
    Begin(String),
    /// An argument of the call that has begun.
    Argument(String, Value),
    /// The call ends.
    End,
    /// An argument that is a text, which goes on past what is there. `body` is where it begins after its quotes.
    OpenText { key: String, quote: Quote, body: usize },
}

/// Where in a list of calls a text begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// At its start.
    Start,
    /// After an argument of a call that has these arguments so far; whether an opening bracket stood before the calls.
    AfterArgument { keys: Vec<String>, in_brackets: bool },
}

/// A list of calls as far as it could be read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// What was found.
    pub(super) items: Vec<Item>,
    /// Where the last complete call ends.
    pub(super) calls_end: usize,
    /// Whether an opening bracket stands before the calls.
    pub(super) in_brackets: bool,
    /// Whether all of the text was read as such a list.
    pub(super) is_complete: bool,
    /// The arguments that the last call has so far.
    pub(super) keys: Vec<String>,
}

/// Reads a list of calls, with or without the brackets around it.
pub(super) fn read(text: &str, place: &Place, quotes: Quotes) -> Reading {
    let mut reader = Reader { cursor: Cursor::new(text, quotes), reading: Reading::default() };
    reader.reading.is_complete = reader.list(place).is_some();
    reader.reading
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    reading: Reading,
}

impl Reader<'_> {
    fn list(&mut self, place: &Place) -> Option<()> {
        match place {
            Place::Start => {
                self.reading.in_brackets = self.cursor.take('[');
                self.call()?;
            }
            Place::AfterArgument { keys, in_brackets } => {
                self.reading.in_brackets = *in_brackets;
                self.reading.keys.clone_from(keys);
                let after_comma = self.cursor.take(',');
                self.arguments(after_comma)?;
            }
        }
        self.more_calls()
    }

    /// All after the first call.
    fn more_calls(&mut self) -> Option<()> {
        loop {
            let after_comma = self.cursor.take(',');
            if self.reading.in_brackets && self.cursor.take(']') {
                break;
            }
            self.cursor.skip_blanks();
            if self.cursor.rest().is_empty() && !self.reading.in_brackets {
                break;
            }
            if !after_comma {
                return None;
            }
            self.call()?;
        }
        self.cursor.skip_blanks();
        self.cursor.rest().is_empty().then_some(())
    }

    fn call(&mut self) -> Option<()> {
        let name = self.cursor.name()?.to_owned();
        if !self.cursor.take('(') {
            return None;
        }
        self.reading.items.push(Item::Begin(name));
        self.reading.keys.clear();
        self.arguments(true)
    }

    /// Arguments up to the closing parenthesis. Only keyword arguments are: a position has no name.
    fn arguments(&mut self, mut after_comma: bool) -> Option<()> {
        while !self.cursor.take(')') {
            if !after_comma {
                return None;
            }
            self.argument()?;
            after_comma = self.cursor.take(',');
        }
        self.reading.items.push(Item::End);
        self.reading.calls_end = self.cursor.at;
        Some(())
    }

    fn argument(&mut self) -> Option<()> {
        let key = self.cursor.name()?.to_owned();
        if self.reading.keys.contains(&key) || !self.cursor.take('=') {
            return None;
        }
        self.reading.keys.push(key.clone());
        let mut opening = self.cursor.clone();
        match self.cursor.argument() {
            Some(value) => self.reading.items.push(Item::Argument(key, value)),
            None => {
                let quote = opening.quote()?;
                self.reading.items.push(Item::OpenText { key, quote, body: opening.at });
                return None;
            }
        }
        Some(())
    }
}
