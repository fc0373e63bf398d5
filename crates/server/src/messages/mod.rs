//! `POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's API over the same replies.

mod error;
mod events;
mod request;
mod types;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::body::Body;
use crate::chat::ChatPrompt;
use crate::error::ApiError;
use crate::generation::Generation;
use crate::openapi::{MessageBodyRefusals, MessageRefusals};
use crate::service::Service;
use crate::session::Session;
use crate::stream;
use error::MessagesError;
pub(crate) use error::MessagesErrorBody;
use events::{Event, EventWriter};
use request::{MessagesRequest, TokenCountRequest};
use types::{Message, MessageLabel, TokenCount};

/// Answers a conversation.
#[utoipa::path(
    post, path = "/v1/messages", tag = "anthropic", request_body = MessagesRequest,
    responses(
        (status = 200, description = "The reply: whole, or as server-sent events.",
            content((Message = "application/json"), (Event = "text/event-stream"))),
        MessageRefusals,
    ),
)]
pub(crate) async fn messages(
    State(service): State<Arc<Service>>,
    body: Result<Body, ApiError>,
) -> Result<Response, MessagesError> {
    let admission = service.admit()?;
    let body = body?;
    request::check_limit(&body)?;
    let body = request::translated(&body)?;
    let mut generation = Generation::read(&body, service.engine.info(), &service.defaults)?.single()?;
    let prepare = async { ChatPrompt::read(&body)?.put_into(&mut generation.request, &service).await };
    let reading = prepare.await.map_err(|error| {
        error
            .renamed("response_format.json_schema", "output_config.format")
            .renamed("response_format", "output_config.format")
    })?;
    let label = MessageLabel::new(service.model(), &generation);
    let Generation { request, format, .. } = generation;
    let session = Session::start(&service, admission, request, 1, reading)?;
    if format.stream {
        return Ok(stream::response(session, EventWriter::new(label)));
    }
    let replies = session.whole().await?;
    let reply = replies.into_iter().next().ok_or_else(ApiError::stopping)?;
    Ok(Json(label.whole(reply)).into_response())
}

/// How many tokens a conversation has as a prompt.
#[utoipa::path(
    post, path = "/v1/messages/count_tokens", tag = "anthropic", request_body = TokenCountRequest,
    responses((status = 200, description = "The count.", body = TokenCount), MessageBodyRefusals),
)]
pub(crate) async fn count_tokens(
    State(service): State<Arc<Service>>,
    body: Result<Body, ApiError>,
) -> Result<Json<TokenCount>, MessagesError> {
    let body = request::translated(&body?)?;
    // What is refused there is refused here.
    Generation::read(&body, service.engine.info(), &service.defaults)?.single()?;
    let (prompt, _) = ChatPrompt::read(&body)?.encode(&service).await?;
    Ok(Json(TokenCount { input_tokens: prompt.len() }))
}
