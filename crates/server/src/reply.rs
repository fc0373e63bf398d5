//! Answers a validated request: at once, or as a stream.

use axum::Json;
use axum::response::{IntoResponse, Response};
use forerunner_engine::{Event, Reply};

use crate::error::ApiError;
use crate::generation::{Generation, ReplyFormat};
use crate::random::random_id;
use crate::service::{Admission, Service, unix_seconds};
use crate::stream;
use crate::types::{Choice, Completion, Content, Message, StatisticsBlock, Usage, finish_reason};

/// Where a reply goes, which decides its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

/// A reply in progress, with all that does not change while it is.
pub(crate) struct Running {
    pub(crate) reply: Reply,
    pub(crate) endpoint: Endpoint,
    pub(crate) format: ReplyFormat,
    id: String,
    created: u64,
    model: String,
    seed: u64,
    _admission: Admission,
}

/// Submits the request and answers with its reply. Refusals come before a stream opens.
pub(crate) async fn respond(
    service: &Service,
    admission: Admission,
    endpoint: Endpoint,
    generation: Generation,
) -> Result<Response, ApiError> {
    let Generation { request, format } = generation;
    let seed = request.rule.seed;
    let running = Running {
        reply: service.engine.submit(request)?,
        endpoint,
        format,
        id: random_id(endpoint.id_prefix()),
        created: unix_seconds(),
        model: service.model().to_owned(),
        seed,
        _admission: admission,
    };
    if format.stream {
        Ok(stream::response(running))
    } else {
        Ok(Json(running.whole().await?).into_response())
    }
}

impl Running {
    /// The reply when it is whole. Dropped before that, as when the client leaves, it is cancelled.
    async fn whole(mut self) -> Result<Completion, ApiError> {
        let (mut text, mut token_ids) = (String::new(), Vec::new());
        loop {
            match self.reply.next().await {
                Some(Event::Text { text: piece, tokens }) => {
                    text.push_str(&piece);
                    token_ids.extend(tokens);
                }
                Some(Event::Finished { reason, statistics }) => {
                    let choice = Choice {
                        finish_reason: Some(finish_reason(reason)),
                        token_ids: self.format.token_ids.then_some(token_ids),
                        ..Choice::new(self.endpoint.whole(text))
                    };
                    return Ok(Completion {
                        usage: Some(Usage::from(&statistics)),
                        seed: Some(self.seed),
                        forerunner: Some(StatisticsBlock::from(&statistics)),
                        ..self.completion(vec![choice])
                    });
                }
                Some(Event::Failed { message }) => return Err(ApiError::internal(message)),
                None => return Err(ApiError::stopping()),
            }
        }
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

    /// The seed in use.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

impl Choice {
    /// The first choice, unfinished.
    pub(crate) fn new(content: Content) -> Self {
        Choice { index: 0, content, logprobs: None, finish_reason: None, token_ids: None }
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

    /// All of a reply's text.
    fn whole(self, text: String) -> Content {
        match self {
            Endpoint::Chat => {
                Content::Message { message: Message { role: Some("assistant"), content: Some(text) } }
            }
            Endpoint::Completions => Content::Text { text },
        }
    }

    /// What opens a streamed reply, before its first piece.
    pub(crate) fn opening(self) -> Option<Content> {
        match self {
            Endpoint::Chat => {
                let delta = Message { role: Some("assistant"), content: Some(String::new()) };
                Some(Content::Delta { delta })
            }
            Endpoint::Completions => None,
        }
    }

    /// A piece of a reply's text.
    pub(crate) fn piece(self, text: String) -> Content {
        match self {
            Endpoint::Chat => Content::Delta { delta: Message { role: None, content: Some(text) } },
            Endpoint::Completions => Content::Text { text },
        }
    }

    /// What stands beside the finish reason of a streamed reply.
    pub(crate) fn closing(self) -> Content {
        match self {
            Endpoint::Chat => Content::Delta { delta: Message::default() },
            Endpoint::Completions => Content::Text { text: String::new() },
        }
    }
}
