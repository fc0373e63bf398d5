//! Which path leads where, and what every answer carries.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};

use crate::body::BodyLimit;
use crate::chat::chat;
use crate::completions::completions;
use crate::error::ApiError;
use crate::keys::check_key;
use crate::loads::{loads, version};
use crate::messages::{count_tokens, messages};
use crate::metrics::metrics;
use crate::origins::share;
use crate::random::random_id;
use crate::responses::{forget_response, kept_response, responses};
use crate::service::Service;
use crate::tokenize::{detokenize, tokenize};

/// Most bytes of a request's headers together.
const HEADER_LIMIT_BYTES: usize = 32 << 10;

/// Which trace a request is part of, for the log.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// All routes over `service`.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let options = service.options.clone();
    Router::new()
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models))
        .route("/v1/loads", get(loads))
        .route("/v1/responses", post(responses))
        .route("/v1/responses/{id}", get(kept_response).delete(forget_response))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(options.body_limit_bytes))
        .layer(Extension(BodyLimit(options.body_limit_bytes)))
        .layer(middleware::from_fn_with_state(Arc::new(options.api_keys), check_key))
        .layer(middleware::from_fn(limit_headers))
        .layer(middleware::from_fn_with_state(Arc::new(options.cors_origins), share))
        .layer(middleware::from_fn(label))
        .with_state(service)
}

async fn health(State(service): State<Arc<Service>>) -> (StatusCode, Json<Value>) {
    let (code, word) = match service.is_draining() {
        _ if !service.engine.is_alive() => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        false => (StatusCode::OK, "ok"),
    };
    let status = service.engine.status();
    (code, Json(json!({"status": word, "running": status.running, "waiting": status.waiting})))
}

async fn models(State(service): State<Arc<Service>>) -> Json<Value> {
    let info = service.engine.info();
    Json(json!({"object": "list", "data": [{
        "id": info.model,
        "object": "model",
        "created": service.created,
        "owned_by": "forerunner",
        "max_model_len": info.context,
    }]}))
}

async fn unknown_path(uri: Uri) -> ApiError {
    ApiError::not_found(format!("there is no {}", uri.path()), "unknown_path")
}

async fn unknown_method(method: Method, uri: Uri) -> ApiError {
    ApiError::method_not_allowed(format!("{} does not take {method}", uri.path()))
}

async fn limit_headers(request: Request, next: Next) -> Response {
    let bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADER_LIMIT_BYTES {
        return ApiError::headers_too_large(HEADER_LIMIT_BYTES).into_response();
    }
    next.run(request).await
}

/// Answers carry the id their request came with, or a new one: what gateways write to their logs.
async fn label(request: Request, next: Next) -> Response {
    let id = request.headers().get(REQUEST_ID).cloned().unwrap_or_else(new_request_id);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let trace = request.headers().get(TRACE_PARENT).cloned();
    let mut response = next.run(request).await.into_response();
    let status = response.status().as_u16();
    tracing::debug!(%method, path, status, request_id = ?id, traceparent = ?trace, "answered");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn new_request_id() -> HeaderValue {
    HeaderValue::try_from(random_id("req-")).expect("letters and digits are a header value")
}
