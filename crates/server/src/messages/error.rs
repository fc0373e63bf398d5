//! A refusal as Anthropic's clients read it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;

/// The same refusal in another envelope.
#[derive(Debug)]
pub(crate) struct MessagesError(ApiError);

/// The body of a refusal, which is also an event of a stream.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct MessagesErrorBody {
    #[serde(rename = "type")]
    kind: &'static str,
    error: MessagesErrorDetail,
}

#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
struct MessagesErrorDetail {
    #[serde(rename = "type")]
    kind: &'static str,
    /// What was wrong, with the value found and what is accepted.
    message: String,
}

impl From<ApiError> for MessagesError {
    fn from(error: ApiError) -> Self {
        MessagesError(error)
    }
}

impl IntoResponse for MessagesError {
    fn into_response(self) -> Response {
        let body = MessagesErrorBody::from(&self.0);
        // Status and headers are the same.
        let (parts, _) = self.0.into_response().into_parts();
        Response::from_parts(parts, Json(body).into_response().into_body())
    }
}

impl From<&ApiError> for MessagesErrorBody {
    fn from(error: &ApiError) -> Self {
        let kind = match error.status.as_u16() {
            400 | 405 | 415 => "invalid_request_error",
            401 => "authentication_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            _ => "api_error",
        };
        MessagesErrorBody {
            kind: "error",
            error: MessagesErrorDetail { kind, message: error.message.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_keeps_its_status_and_says_its_kind() {
        let error = MessagesError(ApiError::field("max_tokens", "max_tokens is missing"));
        let expected = json!({"type": "error", "error": {
            "type": "invalid_request_error", "message": "max_tokens is missing",
        }});
        assert_eq!(serde_json::to_value(MessagesErrorBody::from(&error.0)).unwrap(), expected);
        assert_eq!(error.into_response().status(), 400);
    }
}
