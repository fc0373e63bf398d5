//! What a request says about calling its tools: `tool_choice`, in the words of either of OpenAI's APIs.

use forerunner_text::ToolChoice;
use serde_json::Value;

use crate::error::ApiError;

/// What a request says about calling its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolUse {
    /// Not at all.
    Never,
    /// As the model likes.
    Auto,
    /// At least one call, of whichever tool.
    Required,
    /// At least one call, of this tool.
    Named(String),
    /// Calls of these tools alone. The model is told of all, so that a conversation's prompt stays the same.
    Among {
        /// Their names, at least one.
        names: Vec<String>,
        /// Whether there must be a call.
        is_required: bool,
    },
}

const ACCEPTED_CHOICES: &str = r#""none", "auto", "required", {"type": "function", "function": {"name": ...}}, or {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}"#;

impl ToolUse {
    /// Reads a `tool_choice`.
    pub(crate) fn read(choice: &Value) -> Result<Self, ApiError> {
        let refused = || ApiError::value("tool_choice", choice, ACCEPTED_CHOICES);
        match (choice.as_str(), choice["type"].as_str()) {
            _ if choice.is_null() => Ok(ToolUse::Auto),
            (Some("auto"), _) => Ok(ToolUse::Auto),
            (Some("none"), _) => Ok(ToolUse::Never),
            (Some("required"), _) => Ok(ToolUse::Required),
            (None, Some("function")) => {
                name(choice).map(|name| ToolUse::Named(name.to_owned())).ok_or_else(refused)
            }
            (None, Some("allowed_tools")) => match choice.get("allowed_tools") {
                Some(allowed) => among(allowed, "tool_choice.allowed_tools"),
                None => among(choice, "tool_choice"),
            },
            _ => Err(refused()),
        }
    }

    /// Which calls a reply must have.
    pub(crate) fn choice(&self) -> ToolChoice {
        match self {
            ToolUse::Required | ToolUse::Among { is_required: true, .. } => ToolChoice::Required,
            ToolUse::Named(name) => ToolChoice::Named(name.clone()),
            ToolUse::Never | ToolUse::Auto | ToolUse::Among { is_required: false, .. } => ToolChoice::Auto,
        }
    }

    /// Whether it says something that means nothing without tools.
    pub(crate) fn needs_tools(&self) -> bool {
        !matches!(self, ToolUse::Never | ToolUse::Auto)
    }

    /// The tools that may be called. A name that none of them has is refused.
    pub(crate) fn permitted(&self, tools: &[Value]) -> Result<Vec<Value>, ApiError> {
        let ToolUse::Among { names, .. } = self else { return Ok(tools.to_vec()) };
        let known: Vec<&str> = tools.iter().filter_map(name).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            let message =
                format!("tool_choice allows {unknown:?}; accepted is one of the tools: {}", known.join(", "));
            return Err(ApiError::field("tool_choice", message));
        }
        let is_named = |tool: &&Value| name(tool).is_some_and(|name| names.iter().any(|other| other == name));
        Ok(tools.iter().filter(is_named).cloned().collect())
    }
}

/// The name of a function, which is in an object of its own in one API and not in the other.
fn name(tool: &Value) -> Option<&str> {
    tool.get("function").unwrap_or(tool)["name"].as_str()
}

fn among(allowed: &Value, field: &str) -> Result<ToolUse, ApiError> {
    let is_required = match allowed["mode"].as_str() {
        Some("auto") => false,
        Some("required") => true,
        _ => {
            let field = format!("{field}.mode");
            return Err(ApiError::value(&field, &allowed["mode"], r#""auto" or "required""#));
        }
    };
    let field = format!("{field}.tools");
    let Some(tools) = allowed["tools"].as_array().filter(|tools| !tools.is_empty()) else {
        return Err(ApiError::value(&field, &allowed["tools"], "a list of at least one tool"));
    };
    let named = |(index, tool): (usize, &Value)| match (tool["type"].as_str(), name(tool)) {
        (Some("function"), Some(name)) => Ok(name.to_owned()),
        _ => {
            let accepted = r#"a tool of type "function" with a name"#;
            Err(ApiError::value(&format!("{field}[{index}]"), tool, accepted))
        }
    };
    let names = tools.iter().enumerate().map(named).collect::<Result<_, ApiError>>()?;
    Ok(ToolUse::Among { names, is_required })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_apis_say_it_in_their_words() {
        let named = ToolUse::Named("f".into());
        let among = |is_required| ToolUse::Among { names: vec!["f".into(), "g".into()], is_required };
        let inner = |name: &str| json!({"type": "function", "function": {"name": name}});
        let outer = |name: &str| json!({"type": "function", "name": name});
        for (choice, expected) in [
            (json!(null), ToolUse::Auto),
            (json!("auto"), ToolUse::Auto),
            (json!("none"), ToolUse::Never),
            (json!("required"), ToolUse::Required),
            (inner("f"), named.clone()),
            (outer("f"), named),
            (
                json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [inner("f"), inner("g")]}}),
                among(false),
            ),
            (
                json!({"type": "allowed_tools", "mode": "required", "tools": [outer("f"), outer("g")]}),
                among(true),
            ),
        ] {
            assert_eq!(ToolUse::read(&choice).unwrap(), expected, "{choice}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let allowed =
            |mode: Value, tools: Value| json!({"type": "allowed_tools", "mode": mode, "tools": tools});
        for (choice, field) in [
            (json!("any"), "tool_choice"),
            (json!(1), "tool_choice"),
            (json!({"type": "function"}), "tool_choice"),
            (json!({"type": "function", "function": 3}), "tool_choice"),
            (json!({"type": "web_search"}), "tool_choice"),
            (allowed(json!("any"), json!([])), "tool_choice.mode"),
            (allowed(json!("auto"), json!([])), "tool_choice.tools"),
            (allowed(json!("auto"), json!("f")), "tool_choice.tools"),
            (allowed(json!("auto"), json!([{"type": "mcp", "name": "f"}])), "tool_choice.tools[0]"),
            (
                json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}),
                "tool_choice.allowed_tools.tools",
            ),
        ] {
            assert_eq!(ToolUse::read(&choice).unwrap_err().param.as_deref(), Some(field), "{choice}");
        }
    }

    #[test]
    fn the_tools_that_may_be_called_are_among_those_there_are() {
        let tools = [json!({"type": "function", "function": {"name": "f"}}), json!({"name": "g"})];
        let among =
            |name: &str| ToolUse::Among { names: vec![name.into()], is_required: false }.permitted(&tools);
        assert_eq!(among("g").unwrap(), tools[1..]);
        assert_eq!(ToolUse::Required.permitted(&tools).unwrap(), tools);
        let error = among("h").unwrap_err();
        assert_eq!(error.message, "tool_choice allows \"h\"; accepted is one of the tools: f, g");
    }
}
