//! `/v1/responses`: OpenAI's newer API over the same replies, with conversations kept in memory.

mod events;
mod output;
mod request;
mod store;

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts as RequestParts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::Body;
use crate::chat::ChatPrompt;
use crate::error::ApiError;
use crate::generation::Generation;
use crate::openapi::{Missing, ReplyRefusals};
use crate::parts::Parts;
use crate::service::Service;
use crate::session::Session;
use crate::stream;
use events::{Event, EventWriter};
use output::{ResponseLabel, ResponseObject, output_items};
use request::{Asked, ResponseRequest, with_messages};
pub(crate) use store::ResponseStore;
use store::Stored;

/// Keeps a response when it is whole, if it is to be kept.
pub(super) struct Keeper {
    service: Arc<Service>,
    messages: Vec<Value>,
    is_asked: bool,
}

/// Answers an input, which may go on from an earlier response.
#[utoipa::path(
    post, path = "/v1/responses", tag = "openai", request_body = ResponseRequest,
    responses(
        (status = 200, description = "The reply: whole, or as server-sent events.",
            content((ResponseObject = "application/json"), (Event = "text/event-stream"))),
        ReplyRefusals,
    ),
)]
pub(crate) async fn responses(State(service): State<Arc<Service>>, body: Body) -> Result<Response, ApiError> {
    let admission = service.admit()?;
    let asked = Asked::read(&body)?;
    let mut messages = match &asked.previous {
        Some(id) => service.responses.get(id).ok_or_else(|| unknown(id, "previous_response_id"))?.messages,
        None => Vec::new(),
    };
    messages.extend(asked.messages.iter().cloned());
    let body = with_messages(&body, asked.instructions.as_deref(), &messages)?;
    let mut generation = Generation::read(&body, service.engine.info(), &service.defaults)?.single()?;
    let prepare = async { ChatPrompt::read(&body)?.put_into(&mut generation.request, &service).await };
    let reading = prepare.await.map_err(|error| {
        error.renamed("response_format.json_schema", "text.format").renamed("response_format", "text.format")
    })?;
    generation.ask_logprobs(asked.logprobs);
    let label = ResponseLabel::new(&service, &generation, &asked);
    let keeper = Keeper { service: service.clone(), messages, is_asked: asked.store };
    let Generation { request, format, .. } = generation;
    let session = Session::start(&service, admission, request, 1, reading)?;
    if format.stream {
        return Ok(stream::response(session, EventWriter::new(label, keeper)));
    }
    let reply = session.whole().await?.into_iter().next().ok_or_else(ApiError::stopping)?;
    let items = output_items(&reply.parts, label.logprobs(&reply.told));
    let response = label.ended(items, reply.ending, &reply.statistics, &reply.told);
    keeper.keep(&response, reply.parts);
    Ok(Json(response).into_response())
}

/// A response that is kept.
#[utoipa::path(
    get, path = "/v1/responses/{id}", tag = "openai", params(("id" = String, Path)),
    responses((status = 200, description = "As it was answered.", body = ResponseObject), Missing),
)]
pub(crate) async fn kept_response(
    State(service): State<Arc<Service>>,
    ResponseId(id): ResponseId,
) -> Result<Json<ResponseObject>, ApiError> {
    let stored = service.responses.get(&id).ok_or_else(|| unknown(&id, "response_id"))?;
    Ok(Json(stored.response))
}

/// That a response is forgotten.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forgotten {
    id: String,
    object: &'static str,
    deleted: bool,
}

/// Forgets a response.
#[utoipa::path(
    delete, path = "/v1/responses/{id}", tag = "openai", params(("id" = String, Path)),
    responses((status = 200, description = "It is forgotten.", body = Forgotten), Missing),
)]
pub(crate) async fn forget_response(
    State(service): State<Arc<Service>>,
    ResponseId(id): ResponseId,
) -> Result<Json<Forgotten>, ApiError> {
    if !service.responses.remove(&id) {
        return Err(unknown(&id, "response_id"));
    }
    Ok(Json(Forgotten { id, object: "response", deleted: true }))
}

/// The id in a path.
pub(crate) struct ResponseId(String);

impl<S: Send + Sync> FromRequestParts<S> for ResponseId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut RequestParts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(ResponseId(id)),
            Err(rejection) => Err(ApiError::bad_request(rejection.body_text())),
        }
    }
}

fn unknown(id: &str, field: &str) -> ApiError {
    let message = format!("there is no response {id:?}, or none any more");
    ApiError { param: Some(field.into()), ..ApiError::not_found(message, "response_not_found") }
}

impl Keeper {
    /// Keeps a response, and with it the conversation up to its end.
    fn keep(self, response: &ResponseObject, parts: Parts) {
        let Keeper { service, mut messages, is_asked } = self;
        if is_asked {
            messages.push(request::reply_message(parts));
            service.responses.keep(&response.id, Stored { messages, response: response.clone() });
        }
    }
}
