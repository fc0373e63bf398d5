//! A refusal as OpenAI clients read it: a status and a body that says what was wrong with which field.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use forerunner_engine::RequestError;
use forerunner_text::TextError;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// When a client may try again after a full queue, or while a model loads: soon, as a lane frees within moments, and as
/// nobody knows how long loading takes.
const RETRY_AFTER_SECONDS: &str = "1";

/// The code of [`ApiError::loading`].
const LOADING: &str = "loading";

/// Why a request gets no reply.
///
/// Gateways send a request with a 5xx or 429 to another worker, so everything that the caller did wrong is a 4xx:
/// a bad request must not be replayed across a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ApiError {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// What was wrong, with the value found and what is accepted.
    pub(crate) message: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The field that was wrong, if one was.
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
}

/// The envelope around an [`ApiError`].
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorBody<'a> {
    pub(crate) error: &'a ApiError,
}

impl ApiError {
    /// The caller's fault, in no particular field.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// The caller's fault, in this field.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        ApiError { param: Some(field.into()), ..ApiError::bad_request(message) }
    }

    /// The form that a reply was held to led nowhere: the caller's fault, which shows only in the middle of a reply.
    pub(crate) fn dead_end(message: impl Into<String>) -> Self {
        ApiError { code: Some("form_dead_end"), ..ApiError::bad_request(message) }
    }

    /// A field holds something that is not accepted.
    pub(crate) fn value(field: &str, found: &Value, accepted: &str) -> Self {
        ApiError::field(field, format!("{field} is {}; accepted: {accepted}", shown(found)))
    }

    /// The same refusal to a client that calls the field `theirs` by another name.
    pub(crate) fn renamed(mut self, theirs: &str, ours: &str) -> Self {
        if let Some(param) = self.param.as_mut().filter(|param| param.starts_with(theirs)) {
            *param = param.replacen(theirs, ours, 1);
            self.message = self.message.replace(theirs, ours);
        }
        self
    }

    /// No such thing.
    pub(crate) fn not_found(message: impl Into<String>, code: &'static str) -> Self {
        ApiError {
            code: Some(code),
            ..ApiError::new(StatusCode::NOT_FOUND, "invalid_request_error", message)
        }
    }

    /// The path exists, but not with this method.
    pub(crate) fn method_not_allowed(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", message)
    }

    /// No key, or none that is known.
    pub(crate) fn unauthorized() -> Self {
        let message =
            "no API key, or none that is known; accepted: Authorization: Bearer KEY, or x-api-key: KEY";
        ApiError {
            code: Some("invalid_api_key"),
            ..ApiError::new(StatusCode::UNAUTHORIZED, "invalid_request_error", message)
        }
    }

    /// The headers are larger than the limit.
    pub(crate) fn headers_too_large(limit_bytes: usize) -> Self {
        let message = format!("the headers are larger than {limit_bytes} bytes");
        ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request_error", message)
    }

    /// The body did not come in time.
    pub(crate) fn too_slow(limit_seconds: u64) -> Self {
        let message = format!("the body did not arrive within {limit_seconds} s");
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", message)
    }

    /// The body is larger than the limit.
    pub(crate) fn too_large(limit_bytes: usize) -> Self {
        let message = format!("the body is larger than {limit_bytes} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message)
    }

    /// The body is no JSON by its own word.
    pub(crate) fn unsupported_media_type(found: &str) -> Self {
        let message = format!("content-type is {}; accepted: application/json", shown(&found.into()));
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", message)
    }

    /// The server takes no new requests, or ends running ones.
    pub(crate) fn stopping() -> Self {
        let message = "the server is stopping and takes no new requests";
        ApiError {
            code: Some("stopping"),
            ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message)
        }
    }

    /// There is no model yet.
    pub(crate) fn loading() -> Self {
        ApiError {
            code: Some(LOADING),
            ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", "the model is loading")
        }
    }

    /// It cannot be done now, and can be soon.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        ApiError {
            code: Some("busy"),
            ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message)
        }
    }

    /// Our fault.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        ApiError { status, message: message.into(), kind, param: None, code: None }
    }
}

/// A value in an error message, cut short: nobody wants their prompt back.
fn shown(value: &Value) -> String {
    const MOST_CHARACTERS: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::ContextLengthExceeded { .. } => {
                ApiError { code: Some("context_length_exceeded"), ..ApiError::bad_request(message) }
            }
            RequestError::Invalid { field, .. } => ApiError::field(field, message),
            RequestError::QueueFull { .. } => ApiError {
                code: Some("queue_full"),
                ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message)
            },
            RequestError::Stopping => ApiError::stopping(),
        }
    }
}

impl From<TextError> for ApiError {
    fn from(error: TextError) -> Self {
        if error.is_callers_fault() {
            ApiError::bad_request(error.to_string())
        } else {
            ApiError::internal(error.to_string())
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorBody { error: &self })).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS || self.code == Some(LOADING) {
            let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_of_the_engine_keep_their_numbers_and_get_their_status() {
        let exceeded = ApiError::from(RequestError::ContextLengthExceeded {
            prompt_tokens: 70,
            max_tokens: 1,
            context: 64,
        });
        assert_eq!(exceeded.status, StatusCode::BAD_REQUEST);
        assert_eq!(exceeded.code, Some("context_length_exceeded"));
        assert!(exceeded.message.contains("70") && exceeded.message.contains("64"), "{}", exceeded.message);

        let full = ApiError::from(RequestError::QueueFull { waiting: 8, limit: 8 }).into_response();
        assert_eq!(full.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(full.headers().contains_key(header::RETRY_AFTER));

        let stopping = ApiError::from(RequestError::Stopping);
        assert_eq!(stopping.status, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn a_template_that_refuses_blames_the_caller_and_a_broken_one_the_server() {
        let refused = ApiError::from(TextError::Refused { message: "roles must alternate".into() });
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(refused.message.contains("roles must alternate"), "{}", refused.message);
        let (path, message) = ("chat_template.jinja".into(), "unknown filter".into());
        let broken = ApiError::from(TextError::Template { path, line: 1, message });
        assert_eq!(broken.status, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn a_body_has_the_four_fields_that_clients_read() {
        let error = ApiError::value("n", &json!(3), "1");
        let body = serde_json::to_value(ErrorBody { error: &error }).unwrap();
        let expected = json!({"error": {
            "message": "n is 3; accepted: 1", "type": "invalid_request_error", "param": "n", "code": null,
        }});
        assert_eq!(body, expected);
    }

    #[test]
    fn a_long_value_is_cut_at_a_character() {
        let error = ApiError::value("stop", &json!("é".repeat(200)), "less");
        assert!(error.message.contains("é...; accepted: less"), "{}", error.message);
    }
}
