//! Fields of the API that are known here and not served yet: refused by name, never ignored.

use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// A field with only some of the API's values.
struct Limited {
    field: &'static str,
    accepts: fn(&Value) -> bool,
    accepted: &'static str,
}

/// Null, which is the same as absent, is always accepted.
const LIMITED: [Limited; 6] = [
    Limited { field: "logprobs", accepts: |value| *value == json!(false), accepted: "false" },
    Limited { field: "top_logprobs", accepts: |value| *value == json!(0), accepted: "0" },
    Limited { field: "echo", accepts: |value| *value == json!(false), accepted: "false" },
    Limited { field: "suffix", accepts: |value| *value == json!(""), accepted: "an empty string" },
    Limited {
        field: "response_format",
        accepts: |value| value["type"] == json!("text"),
        accepted: r#"{"type": "text"}"#,
    },
    Limited {
        field: "tool_choice",
        accepts: |value| *value == json!("auto") || *value == json!("none"),
        accepted: r#""auto" or "none""#,
    },
];

/// Refuses the first field whose value asks for what is not served yet.
pub(crate) fn refuse_unsupported(fields: &Map<String, Value>) -> Result<(), ApiError> {
    for Limited { field, accepts, accepted } in &LIMITED {
        match fields.get(*field) {
            None | Some(Value::Null) => {}
            Some(value) if accepts(value) => {}
            Some(value) => return Err(ApiError::value(field, value, accepted)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(fields: Value) -> Option<String> {
        refuse_unsupported(fields.as_object().unwrap()).err().map(|error| error.message)
    }

    #[test]
    fn explicit_defaults_pass() {
        let defaults = json!({
            "logprobs": false, "top_logprobs": 0, "echo": false, "suffix": "",
            "response_format": {"type": "text"}, "tool_choice": "auto",
        });
        assert_eq!(refusal(defaults), None);
    }

    #[test]
    fn what_is_not_served_is_refused_with_what_is() {
        assert_eq!(refusal(json!({"echo": true})).unwrap(), "echo is true; accepted: false");
        assert!(refusal(json!({"logprobs": 5})).unwrap().starts_with("logprobs is 5"));
        assert!(refusal(json!({"response_format": {"type": "json_object"}})).is_some());
        assert!(refusal(json!({"tool_choice": "required"})).is_some());
    }
}
