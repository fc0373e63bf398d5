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
const LIMITED: [Limited; 7] = [
    Limited { field: "echo", accepts: |value| *value == json!(false), accepted: "false" },
    Limited { field: "suffix", accepts: |value| *value == json!(""), accepted: "an empty string" },
    // Other servers' ways to ask for what response_format and structured_outputs do.
    Limited {
        field: "grammar",
        accepts: |_| false,
        accepted: "structured_outputs.grammar, in Lark's notation",
    },
    Limited { field: "ebnf", accepts: |_| false, accepted: "structured_outputs.grammar, in Lark's notation" },
    Limited { field: "regex", accepts: |_| false, accepted: "structured_outputs.regex" },
    Limited {
        field: "json_schema",
        accepts: |_| false,
        accepted: "response_format or structured_outputs.json",
    },
    Limited { field: "guided_whitespace_pattern", accepts: |_| false, accepted: "none" },
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
            "echo": false, "suffix": "", "grammar": null, "regex": null,
        });
        assert_eq!(refusal(defaults), None);
    }

    #[test]
    fn what_is_not_served_is_refused_with_what_is() {
        assert_eq!(refusal(json!({"echo": true})).unwrap(), "echo is true; accepted: false");
        let refused = refusal(json!({"grammar": "root ::= \"a\""})).unwrap();
        assert!(refused.ends_with("accepted: structured_outputs.grammar, in Lark's notation"), "{refused}");
    }
}
