//! Which path leads where, and what every answer carries.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::body::BodyLimit;
use crate::error::ApiError;
use crate::keys::check_key;
use crate::origins::share;
use crate::page::page;
use crate::random::random_id;
use crate::service::Service;
use crate::{chat, completions, loads, messages, metrics, openapi, responses, tokenize};

/// Most bytes of a request's headers together.
const HEADER_LIMIT_BYTES: usize = 32 << 10;

/// Which trace a request is part of.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// All routes over `service`.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let options = service.options.clone();
    let (router, document) = documented().split_for_parts();
    router
        .merge(page())
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(Extension(openapi::Served::new(&document)))
        .layer(DefaultBodyLimit::max(options.body_limit_bytes))
        .layer(Extension(BodyLimit(options.body_limit_bytes)))
        .layer(middleware::from_fn_with_state(Arc::new(options.api_keys), check_key))
        .layer(middleware::from_fn(limit_headers))
        .layer(middleware::from_fn_with_state(Arc::new(options.cors_origins), share))
        .layer(middleware::from_fn(label))
        .with_state(service)
}

/// Every route of the API goes through this, so that the document has them all.
fn documented() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(openapi::Base::openapi())
        .routes(routes!(loads::health))
        .routes(routes!(loads::version))
        .routes(routes!(metrics::metrics))
        .routes(routes!(loads::models))
        .routes(routes!(loads::loads))
        .routes(routes!(responses::responses))
        .routes(routes!(responses::kept_response, responses::forget_response))
        .routes(routes!(messages::messages))
        .routes(routes!(messages::count_tokens))
        .routes(routes!(tokenize::tokenize))
        .routes(routes!(tokenize::detokenize))
        .routes(routes!(chat::chat))
        .routes(routes!(completions::completions))
        .routes(routes!(openapi::openapi))
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

/// Answers carry the id and the trace that their request came with, or a new id: what gateways write to their logs.
pub(crate) async fn label(request: Request, next: Next) -> Response {
    let id = request.headers().get(REQUEST_ID).cloned().unwrap_or_else(new_request_id);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let trace = request.headers().get(TRACE_PARENT).cloned();
    let mut response = next.run(request).await.into_response();
    let status = response.status().as_u16();
    tracing::debug!(%method, path, status, request_id = ?id, traceparent = ?trace, "answered");
    response.headers_mut().insert(REQUEST_ID, id);
    trace.into_iter().for_each(|trace| drop(response.headers_mut().insert(TRACE_PARENT, trace)));
    response
}

fn new_request_id() -> HeaderValue {
    HeaderValue::try_from(random_id("req-")).expect("letters and digits are a header value")
}
