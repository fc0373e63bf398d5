//! Answers a validated request in OpenAI's shapes: at once, or as a stream.

use axum::Json;
use axum::response::{IntoResponse, Response};
use forerunner_engine::ToldToken;
use forerunner_text::Tokenizer;

use crate::chunks::ChunkWriter;
use crate::error::ApiError;
use crate::generation::{Generation, ReplyFormat};
use crate::parts::{Reading, WholeReply};
use crate::random::random_id;
use crate::service::{Admission, Service, unix_seconds};
use crate::session::Session;
use crate::stream;
use crate::telling::{self, Logprobs};
use crate::types::{Choice, Completion, Content, Delta, Message, StatisticsBlock, Usage, finish_reason};

/// Where a reply goes, which decides its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

/// What stands on all chunks of a reply.
pub(crate) struct Label {
    pub(crate) endpoint: Endpoint,
    pub(crate) format: ReplyFormat,
    /// The seed in use.
    pub(crate) seed: u64,
    tokenizer: Tokenizer,
    id: String,
    created: u64,
    model: String,
}

/// Submits the request and answers with its reply. Refusals come before a stream opens.
pub(crate) async fn respond(
    service: &Service,
    admission: Admission,
    endpoint: Endpoint,
    generation: Generation,
    reading: Reading,
) -> Result<Response, ApiError> {
    let Generation { request, format, choices } = generation;
    let label = Label {
        endpoint,
        format,
        seed: request.rule.seed,
        tokenizer: service.text().tokenizer.clone(),
        id: random_id(endpoint.id_prefix()),
        created: unix_seconds(),
        model: service.model().to_owned(),
    };
    let session = Session::start(service, admission, request, choices, reading)?;
    if format.stream {
        return Ok(stream::response(session, ChunkWriter::new(label, choices)));
    }
    let replies = session.whole().await?;
    Ok(Json(label.whole(replies)).into_response())
}

impl Label {
    /// All of a reply.
    fn whole(&self, replies: Vec<WholeReply>) -> Completion {
        let statistics: Vec<_> = replies.iter().map(|reply| reply.statistics.clone()).collect();
        let choices = replies.into_iter().enumerate().map(|(index, reply)| self.choice(index, reply));
        Completion {
            usage: Some(Usage::of_choices(&statistics)),
            seed: Some(self.seed),
            forerunner: Some(StatisticsBlock::of_choices(&statistics)),
            ..self.completion(choices.collect())
        }
    }

    fn choice(&self, index: usize, reply: WholeReply) -> Choice {
        let content = match self.endpoint {
            Endpoint::Chat => Content::Message { message: Message::from(reply.parts) },
            Endpoint::Completions => Content::Text { text: reply.parts.content },
        };
        Choice {
            logprobs: self.logprobs(&reply.told, 0),
            finish_reason: Some(finish_reason(reply.ending)),
            token_ids: self.format.token_ids.then_some(reply.token_ids),
            token_origins: telling::origins(self.format.asked, &reply.told),
            ..Choice::new(index, content)
        }
    }

    /// The log-probabilities of these tokens, if they were asked for.
    pub(crate) fn logprobs(&self, told: &[ToldToken], text_offset: usize) -> Option<Logprobs> {
        telling::logprobs(self.endpoint, &self.tokenizer, self.format.asked, told, text_offset)
    }

    /// A completion or chunk with these choices and nothing else.
    pub(crate) fn completion(&self, choices: Vec<Choice>) -> Completion {
        Completion {
            id: self.id.clone(),
            object: self.endpoint.object(self.format.stream),
            created: self.created,
            model: self.model.clone(),
            choices,
            usage: None,
            seed: None,
            forerunner: None,
        }
    }
}

impl Endpoint {
    fn id_prefix(self) -> &'static str {
        match self {
            Endpoint::Chat => "chatcmpl-",
            Endpoint::Completions => "cmpl-",
        }
    }

    fn object(self, streamed: bool) -> &'static str {
        match (self, streamed) {
            (Endpoint::Chat, false) => "chat.completion",
            (Endpoint::Chat, true) => "chat.completion.chunk",
            (Endpoint::Completions, _) => "text_completion",
        }
    }

    /// A piece of a streamed reply's text.
    pub(crate) fn piece(self, text: String) -> Content {
        match self {
            Endpoint::Chat => Content::Delta { delta: Delta::content(text) },
            Endpoint::Completions => Content::Text { text },
        }
    }

    /// What stands beside the finish reason of a streamed reply.
    pub(crate) fn closing(self) -> Content {
        match self {
            Endpoint::Chat => Content::Delta { delta: Delta::default() },
            Endpoint::Completions => Content::Text { text: String::new() },
        }
    }
}
