//! What goes into the engine and what comes out.

use std::task::{Context, Poll};
use std::time::Duration;

use forerunner_lanes::{GuardState, Origin, SamplingRule, TokenId, TokenLogprob, Totals};
use forerunner_text::Constraint;

/// One reply asked for, already tokenized.
#[derive(Debug, Clone)]
pub struct Request {
    /// The prompt; not empty.
    pub prompt: Vec<TokenId>,
    /// Most reply tokens; the context's rest when `None`.
    pub max_tokens: Option<usize>,
    /// How tokens are drawn. The seed is always set: a server draws one at random when the client gave none.
    pub rule: SamplingRule,
    /// Where the reply ends.
    pub stop: StopRule,
    /// Whether drafting is allowed; it changes time, never text.
    pub draft: bool,
    /// What the reply is held to: compiled beforehand, over the engine's own
    /// [`grammars`](crate::EngineHandle::grammars), because that takes its time.
    pub constraint: Option<Constraint>,
    /// Whether its tokens are told one by one ([`ToldToken`]).
    pub tells_tokens: bool,
    /// Whether they are told with their log-probabilities, and with so many alternatives, at most
    /// [`MAX_ALTERNATIVES`](crate::MAX_ALTERNATIVES).
    pub logprobs: Option<usize>,
}

/// Where a reply ends, besides its length.
#[derive(Debug, Clone, Default)]
pub struct StopRule {
    /// The reply ends before the first of these in its text; they are not part of it.
    pub strings: Vec<String>,
    /// Go on past the model's end-of-sequence tokens.
    pub ignore_end_of_sequence: bool,
}

/// Why a request was refused before it ran. All are the caller's faults but [`RequestError::QueueFull`] and
/// [`RequestError::Stopping`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// The prompt leaves no room for a reply.
    #[error(
        "the prompt has {prompt_tokens} tokens and the reply may have {max_tokens}; this engine's context is {context}"
    )]
    ContextLengthExceeded {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Reply tokens asked for.
        max_tokens: usize,
        /// Longest context of a sequence.
        context: usize,
    },
    /// A field is out of its range.
    #[error("{field} is {found}; accepted: {accepted}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What is accepted.
        accepted: String,
    },
    /// As many requests wait as the queue takes.
    #[error("{waiting} requests are waiting; the queue takes {limit}")]
    QueueFull {
        /// Requests waiting.
        waiting: usize,
        /// `--max-queue`
        limit: usize,
    },
    /// The engine is shutting down.
    #[error("the engine is stopping")]
    Stopping,
}

/// What a [`Reply`] yields, in order; the last one is [`Event::Finished`] or [`Event::Failed`].
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// New text of the reply, and the tokens committed since the last event. Text may lag behind tokens: half
    /// a character or the beginning of a stop string is held back. Either may be empty.
    Text {
        /// Text to append.
        text: String,
        /// Tokens committed.
        tokens: Vec<TokenId>,
        /// Tokens whose text is out, if the request wants them told.
        told: Vec<ToldToken>,
    },
    /// The reply is whole.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// How it went.
        statistics: Statistics,
    },
    /// The reply is not whole, and will not be.
    Failed {
        /// Whose fault it is.
        fault: Fault,
        /// What went wrong.
        message: String,
    },
}

/// What a reply failed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The engine or its device.
    Engine,
    /// The form that the request holds its reply to: it leads nowhere from some point on.
    Form,
}

/// A token of a reply, told when all of its text is out. The texts of a reply's told tokens, joined, are its text:
/// tokens that end it, or that a stop string takes away, are not told.
#[derive(Debug, Clone, PartialEq)]
pub struct ToldToken {
    /// The token.
    pub token: TokenId,
    /// What it adds to the text. A character of several tokens is with the last of them.
    pub text: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Its log-probability and then those of its alternatives, if they were asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-sequence token.
    Stop,
    /// This one of its stop strings.
    StopString(usize),
    /// The token limit.
    Length,
}

/// How a reply went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// Tokens in the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt found in the prefix cache.
    pub cached_tokens: usize,
    /// Tokens drawn for the reply, an end-of-sequence token included.
    pub reply_tokens: usize,
    /// From submission to the first token.
    pub time_to_first_token: Duration,
    /// From the first token to the last.
    pub decode_time: Duration,
    /// Rounds that decoded this reply.
    pub rounds: u64,
    /// Those with drafts in this reply's window.
    pub drafted_rounds: u64,
    /// Drafts verified.
    pub drafts: u64,
    /// Drafts accepted.
    pub accepted_drafts: u64,
    /// Copied tokens among the drafts verified.
    pub copies: u64,
    /// Copied tokens among the drafts accepted.
    pub accepted_copies: u64,
    /// Per draft position (0 is the first draft of a window): drafts verified, drafts accepted.
    pub by_position: Vec<(u64, u64)>,
    /// Why the reply, or its end, ran without drafts; `None` when it was drafted to its end.
    pub draft_off_reason: Option<String>,
}

/// What an engine is, for `/v1/models`, `info` and the banner.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineInfo {
    /// Model name, such as the directory's.
    pub model: String,
    /// Drafter name, when one is loaded.
    pub drafter: Option<String>,
    /// Device name and mode, such as `cpu (avx512)`.
    pub device: String,
    /// Longest context of a sequence.
    pub context: usize,
    /// Lanes.
    pub parallel: usize,
    /// Vocabulary size.
    pub vocabulary: usize,
}

/// What an engine is doing, for `/health` and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Sequences with a lane.
    pub running: usize,
    /// Requests without one yet.
    pub waiting: usize,
    /// Pages that running sequences hold.
    pub pages_in_use: usize,
    /// Pages there are.
    pub pages: usize,
    /// Tokens of a page.
    pub page_tokens: usize,
}

/// What an engine has counted since its start, for metrics; as of its last round.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// What the scheduler has counted.
    pub totals: Totals,
    /// What the scheduler's guards have found.
    pub guards: Vec<GuardState>,
    /// Tokens of prompts that were read to their end.
    pub prompt_tokens: u64,
    /// Those among them that stood in a stored prefix.
    pub cached_tokens: u64,
    /// Tokens of prompts that are not read to their end yet: those that wait, and those under way.
    pub unread_tokens: usize,
    /// Reply tokens a second, of about the last second; 0 when nothing runs.
    pub tokens_per_second: f64,
}

/// A reply in progress. Dropping it before its end cancels it: its lane is free after the current round.
pub struct Reply {
    pub(crate) events: tokio::sync::mpsc::UnboundedReceiver<Event>,
    pub(crate) id: u64,
    pub(crate) commands: std::sync::mpsc::Sender<crate::thread::Command>,
}

impl Drop for Reply {
    fn drop(&mut self) {
        // An engine that is gone, or a reply that has ended, needs no cancelling.
        let _ = self.commands.send(crate::thread::Command::Cancel(self.id));
    }
}

impl Reply {
    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The next event if there is one, else a wake when there is; `None` after the last one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(context)
    }

    /// The next event, waiting on this thread; `None` after the last one. Not for use inside a runtime.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.events.blocking_recv()
    }
}
