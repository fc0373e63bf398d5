//! The chunks of a streamed reply, as OpenAI clients read them.

use forerunner_engine::{Statistics, TokenId, ToldToken};
use forerunner_text::{ReplyEvent, ToolEvent};

use crate::error::ErrorBody;
use crate::parts::{Ending, call_id};
use crate::reply::{Endpoint, Label};
use crate::session::Step;
use crate::stream::{Frames, Writer};
use crate::telling;
use crate::types::{
    CallDelta, Choice, Completion, Content, Delta, FunctionDelta, StatisticsBlock, Usage, finish_reason,
};

/// Writes chunks.
pub(crate) struct ChunkWriter {
    label: Label,
    /// Choices whose opening chunk is written. It goes out with the first token, so that clients that time their
    /// first chunk time the first token.
    open: Vec<bool>,
    /// Characters of each choice whose tokens are told.
    text_offsets: Vec<usize>,
    /// Of the choices that have ended.
    statistics: Vec<Statistics>,
}

/// What comes beside the text of a step.
#[derive(Default)]
struct Beside {
    token_ids: Vec<TokenId>,
    told: Vec<ToldToken>,
}

impl ChunkWriter {
    pub(crate) fn new(label: Label, choices: usize) -> Self {
        ChunkWriter {
            label,
            open: vec![false; choices],
            text_offsets: vec![0; choices],
            statistics: Vec::new(),
        }
    }

    fn more(&mut self, index: usize, events: Vec<ReplyEvent>, beside: Beside, frames: &mut Frames) {
        let endpoint = self.label.endpoint;
        if !std::mem::replace(&mut self.open[index], true) && endpoint == Endpoint::Chat {
            let delta = Delta { role: Some("assistant"), ..Delta::content(String::new()) };
            self.push(Choice::new(index, Content::Delta { delta }), frames);
        }
        let mut beside = self.told(index, beside);
        for content in events.into_iter().filter_map(|event| piece(endpoint, event)) {
            let choice = match beside.take() {
                Some(told) => Choice { content, ..told },
                None => Choice::new(index, content),
            };
            self.push(choice, frames);
        }
        if let Some(told) = beside {
            self.push(told, frames);
        }
    }

    /// An empty piece with what is told of the tokens; nothing if nothing is.
    fn told(&mut self, index: usize, beside: Beside) -> Option<Choice> {
        let Beside { token_ids, told } = beside;
        let format = self.label.format;
        let choice = Choice {
            logprobs: self.label.logprobs(&told, self.text_offsets[index]).filter(|_| !told.is_empty()),
            token_ids: format.token_ids.then_some(token_ids).filter(|ids| !ids.is_empty()),
            token_origins: telling::origins(format.asked, &told).filter(|origins| !origins.is_empty()),
            ..Choice::new(index, self.label.endpoint.piece(String::new()))
        };
        self.text_offsets[index] += told.iter().map(|told| told.text.chars().count()).sum::<usize>();
        let is_told =
            choice.logprobs.is_some() || choice.token_ids.is_some() || choice.token_origins.is_some();
        is_told.then_some(choice)
    }

    /// A choice's last chunk. What concerns all choices comes with the last of them.
    fn close(&mut self, index: usize, ending: Ending, statistics: Statistics, frames: &mut Frames) {
        self.statistics.push(statistics);
        let finish_reason = Some(finish_reason(ending));
        let choice = Choice { finish_reason, ..Choice::new(index, self.label.endpoint.closing()) };
        let mut chunk = self.label.completion(vec![choice]);
        if self.statistics.len() == self.open.len() {
            chunk.seed = Some(self.label.seed);
            chunk.forerunner = Some(StatisticsBlock::of_choices(&self.statistics));
        }
        frames.data(&chunk);
    }

    fn push(&self, choice: Choice, frames: &mut Frames) {
        frames.data(&self.label.completion(vec![choice]));
    }
}

impl Writer for ChunkWriter {
    fn step(&mut self, index: usize, step: Step, frames: &mut Frames) {
        match step {
            Step::More { events, token_ids, told } => {
                self.more(index, events, Beside { token_ids, told }, frames);
            }
            Step::Finished { events, ending, statistics } => {
                self.more(index, events, Beside::default(), frames);
                self.close(index, ending, statistics, frames);
            }
            Step::Failed(error) => {
                frames.data(&ErrorBody { error: &error });
                frames.word("[DONE]");
            }
        }
    }

    fn end(&mut self, frames: &mut Frames) {
        if self.label.format.include_usage {
            let usage = Some(Usage::of_choices(&self.statistics));
            frames.data(&Completion { usage, ..self.label.completion(Vec::new()) });
        }
        frames.word("[DONE]");
    }
}

/// What an event adds to a choice. The end of a call adds nothing, and neither does a broken one: what was told of it
/// is no complete JSON, so that no client runs it.
fn piece(endpoint: Endpoint, event: ReplyEvent) -> Option<Content> {
    let delta = match event {
        ReplyEvent::Tool(ToolEvent::Content(text)) => return Some(endpoint.piece(text)),
        ReplyEvent::Thought(text) => Delta { reasoning_content: Some(text), ..Delta::default() },
        ReplyEvent::Tool(ToolEvent::CallBegin { index, name }) => Delta::call(CallDelta {
            index,
            id: Some(call_id()),
            kind: Some("function"),
            function: FunctionDelta { name: Some(name), arguments: String::new() },
        }),
        ReplyEvent::Tool(ToolEvent::ArgumentsDelta { index, fragment }) => Delta::call(CallDelta {
            index,
            id: None,
            kind: None,
            function: FunctionDelta { name: None, arguments: fragment },
        }),
        ReplyEvent::Tool(ToolEvent::CallEnd { .. } | ToolEvent::CallBroken { .. }) => return None,
    };
    Some(Content::Delta { delta })
}
