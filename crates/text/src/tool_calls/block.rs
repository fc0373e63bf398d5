//! All between two marks: read at once when it is complete, and as it arrives where a long text is in it.

use super::calls::{Item, Place, Reading, read};
use super::literal::Quotes;
use super::scanner::Scanner;
use super::text::{OpenText, Step};
use super::{Events, json};

/// What a block stands between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// The model's own marks.
    Marks,
    /// XML tags, which are content where no call is between them.
    Xml,
}

/// A block under way.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) tags: Tags,
    body: String,
    /// How much of the body has been given out.
    taken: usize,
    /// None after a long text was no argument: the block waits for its end then.
    scanner: Option<Scanner>,
    open: Option<OpenCall>,
}

/// A call that has begun to be given out.
#[derive(Clone, Debug)]
struct OpenCall {
    /// Where in the body it begins.
    start: usize,
    keys: Vec<String>,
    in_brackets: bool,
    text: Option<OpenText>,
}

impl Block {
    pub(super) fn new(tags: Tags) -> Block {
        Block { tags, body: String::new(), taken: 0, scanner: Some(Scanner::new()), open: None }
    }

    /// Takes more of the block. False if it can be no call: all of it is content then, and the block is over.
    pub(super) fn push(&mut self, text: &str, events: &mut Events) -> bool {
        let mut rest = text.to_owned();
        while !rest.is_empty() {
            rest = match self.open_text() {
                Some(_) => self.push_text(&rest, events),
                None => self.scan(&rest, events).to_owned(),
            };
        }
        let is_json = |body: &str| body.is_empty() || body.starts_with(['[', '{']);
        if self.tags == Tags::Xml && !is_json(self.body.trim_start()) {
            events.content("<tool_call>");
            events.content(&self.body);
            return false;
        }
        true
    }

    fn open_text(&mut self) -> Option<&mut OpenText> {
        self.open.as_mut()?.text.as_mut()
    }

    /// Hands a piece to the long text under way, and returns what comes after the text.
    fn push_text(&mut self, piece: &str, events: &mut Events) -> String {
        self.body.push_str(piece);
        let has_ended = self.step_text(piece, false, events);
        if has_ended { self.body.split_off(self.taken) } else { String::new() }
    }

    /// Decodes more of the long text; true if it ended.
    fn step_text(&mut self, piece: &str, is_all: bool, events: &mut Events) -> bool {
        let Some(text) = self.open_text() else { return true };
        match text.push(piece, is_all) {
            Step::Goes(decoded) => {
                events.arguments(&escaped(&decoded));
                false
            }
            Step::Ended(decoded, rest) => {
                events.arguments(&escaped(&decoded));
                events.arguments("\"");
                self.taken = self.body.len() - rest.len();
                if let Some(open) = &mut self.open {
                    open.text = None;
                    self.scanner = Some(Scanner::after_argument(open.in_brackets));
                }
                true
            }
        }
    }

    /// Takes characters until a long text is under way, and returns those after that point.
    fn scan<'a>(&mut self, piece: &'a str, events: &mut Events) -> &'a str {
        let Some(scanner) = &mut self.scanner else {
            self.body.push_str(piece);
            return "";
        };
        let long = piece.char_indices().find(|&(_, character)| scanner.step(character));
        let end = long.map_or(piece.len(), |(at, character)| at + character.len_utf8());
        self.body.push_str(&piece[..end]);
        if long.is_some() && !self.open_long_text(events) {
            self.scanner = None;
        }
        &piece[end..]
    }

    /// Gives out all up to the text under way; false if it is no argument of a call.
    fn open_long_text(&mut self, events: &mut Events) -> bool {
        let reading = read(&self.body[self.taken..], &self.place(), Quotes::Python);
        let Some(Item::OpenText { key, quote, body }) = reading.items.last().cloned() else { return false };
        self.emit(&reading, reading.items.len() - 1, events);
        let start = match &self.open {
            Some(open) if reading.calls_end == 0 => open.start,
            _ => self.taken + reading.calls_end,
        };
        let is_first = reading.keys.len() == 1;
        events.arguments(&format!("{}{}:\"", if is_first { '{' } else { ',' }, quoted(&key)));
        let (keys, in_brackets) = (reading.keys, reading.in_brackets);
        self.open = Some(OpenCall { start, keys, in_brackets, text: Some(OpenText::new(quote)) });
        let arrived = self.body[self.taken + body..].to_owned();
        self.step_text(&arrived, false, events);
        true
    }

    fn place(&self) -> Place {
        match &self.open {
            None => Place::Start,
            Some(open) => Place::AfterArgument { keys: open.keys.clone(), in_brackets: open.in_brackets },
        }
    }

    /// Gives out the first `count` items.
    fn emit(&self, reading: &Reading, count: usize, events: &mut Events) {
        let mut is_first = self.open.as_ref().is_none_or(|open| open.keys.is_empty());
        for item in &reading.items[..count] {
            match item {
                Item::Begin(name) => {
                    events.begin(name);
                    is_first = true;
                }
                Item::Argument(key, value) => {
                    let opening = if is_first { '{' } else { ',' };
                    events.arguments(&format!("{opening}{}:{value}", quoted(key)));
                    is_first = false;
                }
                Item::End => {
                    events.arguments(if is_first { "{}" } else { "}" });
                    events.end();
                }
                Item::OpenText { .. } => {}
            }
        }
    }

    /// The block is over: what is left of it is calls, or content.
    pub(super) fn end(mut self, closing_tag: &str, events: &mut Events) {
        if self.open.is_some() {
            self.end_open(events);
        } else if !self.end_closed(events) {
            if self.tags == Tags::Xml {
                events.content("<tool_call>");
            }
            events.content(&self.body);
            events.content(closing_tag);
        }
    }

    /// Reads the block in one of the ways that there are; false if none fits.
    fn end_closed(&self, events: &mut Events) -> bool {
        if self.body_is_calls(&self.body, events) {
            return true;
        }
        // Some models say something around the list.
        let Some((start, end)) = self.body.find('[').zip(self.body.rfind(']')) else { return false };
        let mut within = Events::new(events.calls);
        if end < start || !self.body_is_calls(&self.body[start..=end], &mut within) {
            return false;
        }
        events.content(&self.body[..start]);
        events.list.append(&mut within.list);
        events.calls = within.calls;
        events.content(&self.body[end + 1..]);
        true
    }

    fn body_is_calls(&self, body: &str, events: &mut Events) -> bool {
        if let Some(reading) = read_complete(body, &Place::Start) {
            self.emit(&reading, reading.items.len(), events);
            return true;
        }
        let calls = json::read(body);
        calls.iter().flatten().for_each(|call| events.call(call));
        calls.is_some()
    }

    /// Ends a block of which a call has been given out in part.
    fn end_open(&mut self, events: &mut Events) {
        let start = self.open.as_ref().map_or(0, |open| open.start);
        if !self.step_text("", true, events) {
            return events.broken(&self.body[start..]);
        }
        let rest = &self.body[self.taken..];
        let place = self.place();
        if let Some(reading) = read_complete(rest, &place) {
            return self.emit(&reading, reading.items.len(), events);
        }
        let reading = read(rest, &place, Quotes::Python);
        match reading.items.iter().rposition(|item| *item == Item::End) {
            Some(last) => self.emit(&reading, last + 1, events),
            None => events.broken(&self.body[start..self.taken]),
        }
        events.content(&rest[reading.calls_end..]);
    }
}

/// Reads a list as Python, or else with the unescaped texts of chat templates.
fn read_complete(text: &str, place: &Place) -> Option<Reading> {
    let as_python = read(text, place, Quotes::Python);
    let reading = if as_python.is_complete { as_python } else { read(text, place, Quotes::Template) };
    reading.is_complete.then_some(reading)
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A part of a text as JSON has it between quotes.
fn escaped(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}
