//! Reads a request's JSON body; whatever is wrong with it is answered with the field's name.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::error::ApiError;

/// How long a body may take to arrive.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Most bytes of a body, as the limit's layer has it: an extension of every request, to be named in refusals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// A JSON object. Which fields matter is for [`Body::read`] to say: others are accepted and not looked at.
#[derive(Debug)]
pub(crate) struct Body(Value);

impl Body {
    /// Parses a body.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| ApiError::bad_request(format!("the body is not UTF-8: {error}")))?;
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))?;
        if !value.is_object() {
            return Err(ApiError::bad_request("the body is JSON, but not an object; accepted: an object"));
        }
        Ok(Body(value))
    }

    /// A body of these fields.
    pub(crate) fn from_fields(fields: Map<String, Value>) -> Self {
        Body(Value::Object(fields))
    }

    /// The fields of `T`, each in its type.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        serde_path_to_error::deserialize(&self.0).map_err(|error| {
            let field = error.path().to_string();
            let message = format!("{field}: {}", error.inner());
            ApiError::field(field, message)
        })
    }

    /// All fields.
    pub(crate) fn fields(&self) -> &Map<String, Value> {
        self.0.as_object().expect("checked when parsed")
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        check_content_type(request.headers())?;
        let limit = request.extensions().get::<BodyLimit>().map_or(0, |limit| limit.0);
        let reading = timeout(TIME_LIMIT, Bytes::from_request(request, state));
        let Ok(read) = reading.await else { return Err(ApiError::too_slow(TIME_LIMIT.as_secs())) };
        let bytes = read.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                ApiError::too_large(limit)
            } else {
                ApiError::bad_request(rejection.body_text())
            }
        })?;
        Body::parse(&bytes)
    }
}

/// A body that says to be something else than JSON is refused: pages of any origin may send such bodies without asking
/// first, and those who forgot the header are told so. One that says nothing is taken.
fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json");
    if is_json { Ok(()) } else { Err(ApiError::unsupported_media_type(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Fields {
        #[expect(dead_code, reason = "only its type matters")]
        max_tokens: Option<u32>,
    }

    #[track_caller]
    fn check(bytes: &[u8], param: Option<&str>, fragment: &str) {
        let error = Body::parse(bytes).and_then(|body| body.read::<Fields>()).expect_err("refused");
        assert_eq!(error.status, StatusCode::BAD_REQUEST);
        assert_eq!(error.param.as_deref(), param);
        assert!(error.message.contains(fragment), "{}", error.message);
    }

    #[test]
    fn every_way_to_be_wrong_is_named() {
        check(b"", None, "not JSON");
        check(b"{", None, "not JSON");
        check(b"[]", None, "not an object");
        check(b"{\"max_tokens\": \"\xf0\x9f\"}", None, "not UTF-8");
        check(br#"{"max_tokens": "many"}"#, Some("max_tokens"), "max_tokens: invalid type: string");
        check(br#"{"max_tokens": -1}"#, Some("max_tokens"), "max_tokens: invalid value");
        check("[".repeat(1000).as_bytes(), None, "recursion limit");
    }

    #[test]
    fn unknown_fields_and_nulls_are_accepted() {
        let body = Body::parse(br#"{"max_tokens": null, "store": true}"#).unwrap();
        assert!(body.read::<Fields>().is_ok());
    }
}
