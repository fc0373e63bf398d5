//! Tells the model's thoughts from its answer while a reply streams.

use crate::marks::{Marks, Stretch};

/// Where a reply begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThoughtStart {
    /// The prompt has no open thought: the model writes `<think>` itself if it thinks, as LFM2.5 does.
    #[default]
    Closed,
    /// The prompt ends within a thought, because the chat template opened one.
    Open,
}

impl ThoughtStart {
    /// Reads it off the rendered prompt, whatever its template is called: a thought is open if the last turn opens one
    /// and does not close it.
    pub fn of_prompt(prompt: &str) -> ThoughtStart {
        let turn = prompt.rfind("<|im_start|>").map_or(prompt, |start| &prompt[start..]);
        let is_open = match (turn.rfind(THINK), turn.rfind(THINK_END)) {
            (Some(opened), Some(closed)) => opened > closed,
            (opened, None) => opened.is_some(),
            (None, Some(_)) => false,
        };
        if is_open && is_reply(turn) { ThoughtStart::Open } else { ThoughtStart::Closed }
    }
}

/// Whether the last turn is the one that the model continues: what a user writes opens no thought.
fn is_reply(turn: &str) -> bool {
    !turn.contains("<|im_end|>") && !turn.starts_with("<|im_start|>user")
}

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThoughtPiece {
    /// The model thinks.
    Thought(String),
    /// The model answers.
    Answer(String),
}

const THINK: &str = "<think>";
const THINK_END: &str = "</think>";
const MARKS: [&str; 2] = [THINK, THINK_END];

/// Splits a reply at `<think>` and `</think>`.
///
/// Only a thought that opens the reply is one: an answer may speak of the marks. Blanks before a thought and between
/// it and the answer belong to neither; all else comes out as it is, in pieces that join to the same two texts however the
/// reply is cut. A thought that never ends is a thought to the last character.
#[derive(Clone, Debug)]
pub struct ReasoningSplitter {
    marks: Marks,
    state: State,
    /// Blanks that may be a part of the answer.
    blanks: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but blanks so far.
    Start,
    /// Nothing but blanks so far, in a thought that the prompt opened.
    OpenedByPrompt,
    Thought,
    /// After a thought, nothing but blanks so far.
    Between,
    Answer,
}

impl ReasoningSplitter {
    /// A splitter at the start of a reply.
    pub fn new(start: ThoughtStart) -> ReasoningSplitter {
        let state = match start {
            ThoughtStart::Closed => State::Start,
            ThoughtStart::Open => State::OpenedByPrompt,
        };
        ReasoningSplitter { marks: Marks::new(&MARKS), state, blanks: String::new() }
    }

    /// Takes the next piece of the reply.
    pub fn push(&mut self, text: &str) -> Vec<ThoughtPiece> {
        let mut pieces = Vec::new();
        for stretch in self.marks.push(text) {
            match stretch {
                Stretch::Text(text) => self.text(&text, &mut pieces),
                Stretch::Mark(index) => self.mark(MARKS[index], &mut pieces),
            }
        }
        pieces
    }

    /// Ends the reply.
    pub fn finish(&mut self) -> Vec<ThoughtPiece> {
        let mut pieces = Vec::new();
        let held = self.marks.finish();
        self.text(&held, &mut pieces);
        if self.state == State::Start {
            self.answer("", &mut pieces);
        }
        pieces
    }

    /// Whether the model is thinking now.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::OpenedByPrompt | State::Thought)
    }

    fn mark(&mut self, mark: &str, pieces: &mut Vec<ThoughtPiece>) {
        match (self.state, mark) {
            // Some models open a thought although the prompt has done so.
            (State::Start | State::OpenedByPrompt, THINK) => {
                self.blanks.clear();
                self.state = State::Thought;
            }
            (State::OpenedByPrompt | State::Thought, THINK_END) => {
                self.blanks.clear();
                self.state = State::Between;
            }
            _ => self.text(mark, pieces),
        }
    }

    fn text(&mut self, text: &str, pieces: &mut Vec<ThoughtPiece>) {
        let is_blank = text.trim_start().is_empty();
        match self.state {
            State::Start if is_blank => self.blanks.push_str(text),
            State::OpenedByPrompt if is_blank => self.blanks.push_str(text),
            State::OpenedByPrompt | State::Thought => {
                self.state = State::Thought;
                let thought = std::mem::take(&mut self.blanks) + text;
                if !thought.is_empty() {
                    pieces.push(ThoughtPiece::Thought(thought));
                }
            }
            State::Between if is_blank => {}
            State::Between => self.answer(text.trim_start(), pieces),
            State::Start | State::Answer => self.answer(text, pieces),
        }
    }

    fn answer(&mut self, text: &str, pieces: &mut Vec<ThoughtPiece>) {
        self.state = State::Answer;
        let answer = std::mem::take(&mut self.blanks) + text;
        if !answer.is_empty() {
            pieces.push(ThoughtPiece::Answer(answer));
        }
    }
}
