//! Which web pages may ask: cross-origin resource sharing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// How long a browser may remember that it may ask.
const MAX_AGE_SECONDS: &str = "600";

/// Answers for pages of these origins; `*` stands for any. Without origins, only pages of this server may ask, which
/// is what browsers do by themselves.
pub(crate) async fn share(State(origins): State<Arc<Vec<String>>>, request: Request, next: Next) -> Response {
    let Some(allowed) = allowed(&origins, request.headers()) else { return next.run(request).await };
    let asks_first =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks_first {
        may_ask(request.headers())
    } else {
        let mut response = next.run(request).await;
        let exposed = HeaderValue::from_static("x-request-id, retry-after");
        response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        response
    };
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
    response
}

fn allowed(origins: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let is_listed = origins.iter().any(|listed| listed == "*" || listed.as_bytes() == origin.as_bytes());
    is_listed.then(|| origin.clone())
}

/// The answer to a browser that asks before it asks.
fn may_ask(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let asked = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let answers = [
        (ACCESS_CONTROL_ALLOW_METHODS, Some(HeaderValue::from_static("GET, POST, DELETE"))),
        (ACCESS_CONTROL_ALLOW_HEADERS, asked),
        (ACCESS_CONTROL_MAX_AGE, Some(HeaderValue::from_static(MAX_AGE_SECONDS))),
    ];
    for (name, value) in answers {
        value.into_iter().for_each(|value| drop(response.headers_mut().insert(name.clone(), value)));
    }
    response
}
