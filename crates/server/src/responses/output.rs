//! A response as OpenAI clients read it.

use forerunner_engine::{Statistics, ToldToken};
use forerunner_text::Tokenizer;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::request::{Asked, Echoed};
use crate::error::ApiError;
use crate::generation::Generation;
use crate::parts::{Call, Ending, Parts};
use crate::random::random_id;
use crate::service::{Service, unix_seconds};
use crate::telling::{self, TokenEntry, TokenOrigin};
use crate::types::StatisticsBlock;

/// A reply, whole or under way.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Response)]
pub(crate) struct ResponseObject {
    pub(super) id: String,
    object: &'static str,
    created_at: u64,
    model: String,
    status: Status,
    pub(super) output: Vec<Item>,
    error: Option<Failure>,
    /// Why it was cut.
    incomplete_details: Option<Incomplete>,
    usage: Option<ResponseUsage>,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    /// Whether it is kept, for others to go on from.
    store: bool,
    #[serde(flatten)]
    echoed: Echoed,
    truncation: &'static str,
    reasoning: Reasoning,
    /// The seed that was used: sent again with the same request, it draws the same reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forerunner: Option<StatisticsBlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_origins: Option<Vec<TokenOrigin>>,
}

/// How far a response, or a part of it, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ResponseStatus)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    /// Cut at its token limit.
    Incomplete,
    Failed,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ResponseFailure)]
struct Failure {
    code: &'static str,
    message: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ResponseIncomplete)]
struct Incomplete {
    reason: &'static str,
}

/// Nothing is asked of a model about its thoughts; clients expect the keys.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = ResponseReasoning)]
struct Reasoning {
    effort: Option<String>,
    summary: Option<String>,
}

/// Tokens as a bill would list them.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct ResponseUsage {
    input_tokens: usize,
    input_tokens_details: InputTokensDetails,
    output_tokens: usize,
    #[schema(value_type = Object)]
    output_tokens_details: Map<String, Value>,
    total_tokens: usize,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
struct InputTokensDetails {
    cached_tokens: usize,
}

/// A part of a response.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = ResponseItem)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Item {
    Reasoning {
        id: String,
        /// Always empty: thoughts are told as they are.
        summary: [String; 0],
        content: Vec<Part>,
        status: Status,
    },
    Message {
        id: String,
        role: &'static str,
        status: Status,
        content: Vec<Part>,
    },
    FunctionCall {
        id: String,
        call_id: String,
        name: String,
        /// A JSON object, as text.
        arguments: String,
        status: Status,
    },
}

/// A text of an item.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = ResponsePart)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part {
    ReasoningText {
        text: String,
    },
    OutputText {
        text: String,
        /// Always empty.
        annotations: [String; 0],
        logprobs: Vec<TokenEntry>,
    },
}

/// What of a response does not change while it is made.
#[derive(Debug, Clone)]
pub(super) struct ResponseLabel {
    begun: ResponseObject,
    seed: u64,
    asked: telling::Asked,
    tokenizer: Tokenizer,
}

impl ResponseLabel {
    pub(super) fn new(service: &Service, generation: &Generation, asked: &Asked) -> Self {
        let rule = &generation.request.rule;
        let begun = ResponseObject {
            id: random_id("resp_"),
            object: "response",
            created_at: unix_seconds(),
            model: service.model().to_owned(),
            status: Status::InProgress,
            output: Vec::new(),
            error: None,
            incomplete_details: None,
            usage: None,
            instructions: asked.instructions.clone(),
            previous_response_id: asked.previous.clone(),
            store: asked.store,
            echoed: asked.echoed.clone().or_used(rule),
            truncation: "disabled",
            reasoning: Reasoning::default(),
            seed: None,
            forerunner: None,
            token_origins: None,
        };
        let tokenizer = service.text().tokenizer.clone();
        ResponseLabel { begun, seed: rule.seed, asked: generation.format.asked, tokenizer }
    }

    /// The response while it is made.
    pub(super) fn in_progress(&self) -> ResponseObject {
        self.begun.clone()
    }

    /// The response once it has ended.
    pub(super) fn ended(
        &self,
        output: Vec<Item>,
        ending: Ending,
        statistics: &Statistics,
        told: &[ToldToken],
    ) -> ResponseObject {
        let is_cut = ending == Ending::Length;
        let usage = ResponseUsage {
            input_tokens: statistics.prompt_tokens,
            input_tokens_details: InputTokensDetails { cached_tokens: statistics.cached_tokens },
            output_tokens: statistics.reply_tokens,
            output_tokens_details: Map::new(),
            total_tokens: statistics.prompt_tokens + statistics.reply_tokens,
        };
        ResponseObject {
            status: if is_cut { Status::Incomplete } else { Status::Completed },
            output,
            incomplete_details: is_cut.then_some(Incomplete { reason: "max_output_tokens" }),
            usage: Some(usage),
            seed: Some(self.seed),
            forerunner: Some(StatisticsBlock::of_one(statistics)),
            token_origins: telling::origins(self.asked, told),
            ..self.in_progress()
        }
    }

    /// The log-probabilities of these tokens; none unless they are asked for.
    pub(super) fn logprobs(&self, told: &[ToldToken]) -> Vec<TokenEntry> {
        telling::entries(&self.tokenizer, told)
    }

    /// The response when its making failed.
    pub(super) fn failed(&self, error: &ApiError) -> ResponseObject {
        let code = error.code.unwrap_or(error.kind);
        let failure = Failure { code, message: error.message.clone() };
        ResponseObject { status: Status::Failed, error: Some(failure), ..self.in_progress() }
    }
}

/// All items of a whole reply; its message has these log-probabilities.
pub(super) fn output_items(parts: &Parts, logprobs: Vec<TokenEntry>) -> Vec<Item> {
    let mut items = Vec::new();
    if !parts.thought.is_empty() {
        items.push(Item::reasoning(&random_id("rs_"), &parts.thought));
    }
    if !parts.content.is_empty() || parts.calls.is_empty() {
        items.push(Item::message(&random_id("msg_"), &parts.content, logprobs));
    }
    items.extend(parts.calls.iter().map(|call| Item::call(&random_id("fc_"), call)));
    items
}

impl Item {
    /// A thought.
    pub(super) fn reasoning(id: &str, text: &str) -> Self {
        let content = vec![Part::ReasoningText { text: text.to_owned() }];
        Item::Reasoning { id: id.to_owned(), summary: [], content, status: Status::Completed }
    }

    /// A message.
    pub(super) fn message(id: &str, text: &str, logprobs: Vec<TokenEntry>) -> Self {
        let content = vec![Part::output_text(text, logprobs)];
        Item::Message { id: id.to_owned(), role: "assistant", status: Status::Completed, content }
    }

    /// A tool call.
    pub(super) fn call(id: &str, call: &Call) -> Self {
        Item::FunctionCall {
            id: id.to_owned(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            status: Status::Completed,
        }
    }

    /// The same while it is made: its texts are still to come.
    pub(super) fn begun(mut self) -> Self {
        match &mut self {
            Item::Reasoning { content, status, .. } | Item::Message { content, status, .. } => {
                content.clear();
                *status = Status::InProgress;
            }
            Item::FunctionCall { status, .. } => *status = Status::InProgress,
        }
        self
    }
}

impl Part {
    /// The text of a message.
    pub(super) fn output_text(text: &str, logprobs: Vec<TokenEntry>) -> Self {
        Part::OutputText { text: text.to_owned(), annotations: [], logprobs }
    }
}
