//! Whether and how much a model is to think before it answers: what its template can be told, and nothing else.

use forerunner_text::ChatTemplate;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::body::Body;
use crate::error::ApiError;

/// The variable by which templates turn thoughts on and off.
const SWITCH: &str = "enable_thinking";

/// The variable by which templates are told how much to think.
const EFFORT: &str = "reasoning_effort";

/// The variable by which templates are told how many tokens to think.
const BUDGET: &str = "thinking_budget";

/// What a request says about thinking, as it says it. All of it is refused where the template cannot be told.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ThinkingFields {
    reasoning_effort: Option<String>,
    reasoning: Option<ReasoningFields>,
    enable_thinking: Option<bool>,
    /// `{"type": "enabled", "disabled" or "adaptive"}`.
    thinking: Option<Value>,
    thinking_budget: Option<usize>,
    thinking_token_budget: Option<usize>,
    /// Variables of the template.
    #[schema(value_type = Option<Object>)]
    chat_template_kwargs: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct ReasoningFields {
    effort: Option<String>,
    max_tokens: Option<usize>,
}

/// What a request says about thinking.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Thinking {
    /// Each with the field that says so.
    switch: Option<(&'static str, bool)>,
    effort: Option<(&'static str, String)>,
    budget: Option<(&'static str, Value)>,
    /// Variables for the template as the client names them.
    variables: Map<String, Value>,
}

impl Thinking {
    /// Reads the fields of OpenAI's two APIs, of Anthropic's, and of vLLM's.
    pub(crate) fn read(body: &Body) -> Result<Self, ApiError> {
        let fields: ThinkingFields = body.read()?;
        let budgets = [
            (BUDGET, fields.thinking_budget),
            ("thinking_token_budget", fields.thinking_token_budget),
            ("reasoning.max_tokens", fields.reasoning.as_ref().and_then(|reasoning| reasoning.max_tokens)),
        ];
        let mut budgets =
            budgets.into_iter().filter_map(|(field, tokens)| Some((field, Value::from(tokens?))));
        let in_thinking = fields.thinking.as_ref().map(|thinking| thinking["budget_tokens"].clone());
        let in_thinking = in_thinking.filter(|budget| !budget.is_null());
        if let Some(budget) = in_thinking.as_ref().filter(|budget| !budget.is_u64()) {
            return Err(ApiError::value("thinking.budget_tokens", budget, "a number of tokens"));
        }
        let budget = budgets.next().or(in_thinking.map(|budget| ("thinking.budget_tokens", budget)));
        let in_object = fields.reasoning.and_then(|reasoning| reasoning.effort);
        let effort = fields.reasoning_effort.map(|effort| (EFFORT, effort));
        let effort = effort.or(in_object.map(|effort| ("reasoning.effort", effort)));
        let thinking = fields.thinking.as_ref().map(switched).transpose()?.flatten();
        let switch = fields.enable_thinking.map(|on| (SWITCH, on)).or(thinking.map(|on| ("thinking", on)));
        let variables = fields.chat_template_kwargs.unwrap_or_default();
        Ok(Thinking { switch, effort, budget, variables })
    }

    /// The template's variables that say all of it; a refusal where the template cannot be told, for a switch that does
    /// nothing is worse than none.
    pub(crate) fn variables(self, template: &ChatTemplate) -> Result<Map<String, Value>, ApiError> {
        let Thinking { switch, effort, budget, mut variables } = self;
        if let Some((name, value)) = variables.iter().find(|(name, _)| !template.reads(name)) {
            let field = format!("chat_template_kwargs.{name}");
            return Err(ApiError::value(&field, value, "variables that this model's template reads"));
        }
        if let Some((field, budget)) = budget {
            if !template.reads(BUDGET) {
                let accepted =
                    "none, as this model's template knows no budgets; max_tokens counts thoughts too";
                return Err(ApiError::value(field, &budget, accepted));
            }
            variables.insert(BUDGET.into(), budget);
        }
        let switch = match effort {
            Some((_, effort)) if template.reads(EFFORT) => {
                variables.insert(EFFORT.into(), effort.into());
                switch
            }
            Some((field, effort)) if effort == "none" => Some((field, false)),
            Some((field, effort)) => {
                let accepted = "none set, as this model's template knows no degrees of thinking";
                return Err(ApiError::value(field, &effort.into(), accepted));
            }
            None => switch,
        };
        match switch {
            Some((_, on)) if template.reads(SWITCH) => {
                variables.insert(SWITCH.into(), on.into());
            }
            // It thinks if its template knows of thoughts, and cannot be told otherwise.
            Some((field, on)) if on != template.marks_thoughts() => {
                let accepted = match on {
                    true => "no thinking, of which this model's template knows nothing",
                    false => "thinking as the model does it, which this model's template cannot turn off",
                };
                return Err(ApiError::value(field, &on.into(), accepted));
            }
            _ => {}
        }
        Ok(variables)
    }
}

/// Anthropic's `thinking`.
fn switched(thinking: &Value) -> Result<Option<bool>, ApiError> {
    match thinking["type"].as_str() {
        _ if thinking.is_null() => Ok(None),
        Some("enabled") => Ok(Some(true)),
        Some("disabled") => Ok(Some(false)),
        Some("adaptive") => Ok(None),
        _ => Err(ApiError::value("thinking.type", &thinking["type"], "enabled, disabled or adaptive")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::*;

    /// A template in a folder of its own.
    fn template(source: &str) -> ChatTemplate {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("forerunner-thinking-{process}-{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        let config = json!({"chat_template": source}).to_string();
        std::fs::write(folder.join("tokenizer_config.json"), config).unwrap();
        let template = ChatTemplate::open(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        template
    }

    /// The template's variables, or the field that is refused.
    fn said(body: &Value, template: &ChatTemplate) -> Result<Value, String> {
        let body = Body::parse(body.to_string().as_bytes()).unwrap();
        let variables = Thinking::read(&body).and_then(|thinking| thinking.variables(template));
        variables.map(Value::Object).map_err(|error| error.param.unwrap_or_default())
    }

    #[test]
    fn a_template_with_a_switch_is_told_by_every_field() {
        let template = template("{% if not enable_thinking %}<think></think>{% endif %}");
        for (body, on) in [
            (json!({"enable_thinking": true}), true),
            (json!({"chat_template_kwargs": {"enable_thinking": false}}), false),
            (json!({"reasoning_effort": "none"}), false),
            (json!({"reasoning": {"effort": "none", "summary": "auto"}}), false),
            (json!({"thinking": {"type": "disabled"}}), false),
            (json!({"thinking": {"type": "enabled"}}), true),
        ] {
            assert_eq!(said(&body, &template), Ok(json!({"enable_thinking": on})), "{body}");
        }
        assert_eq!(said(&json!({"reasoning_effort": "low"}), &template), Err("reasoning_effort".into()));
        assert_eq!(said(&json!({"thinking_budget": 9}), &template), Err("thinking_budget".into()));
        assert_eq!(said(&json!({}), &template), Ok(json!({})));
    }

    #[test]
    fn a_template_with_degrees_and_budgets_is_told_those() {
        let template = template("{{ reasoning_effort }}{{ thinking_budget }}<think>");
        let body = json!({"reasoning_effort": "low", "thinking": {"type": "enabled", "budget_tokens": 64}});
        let expected = json!({"reasoning_effort": "low", "thinking_budget": 64});
        assert_eq!(said(&body, &template), Ok(expected));
        let body = json!({"reasoning": {"max_tokens": 7}});
        assert_eq!(said(&body, &template), Ok(json!({"thinking_budget": 7})));
    }

    #[test]
    fn a_budget_is_a_number_of_tokens() {
        for budget in [json!("many"), json!(-1), json!(1.5), json!([])] {
            let body = json!({"thinking": {"type": "enabled", "budget_tokens": budget}});
            let error = Thinking::read(&Body::parse(body.to_string().as_bytes()).unwrap()).unwrap_err();
            assert_eq!(
                error.message,
                format!("thinking.budget_tokens is {budget}; accepted: a number of tokens")
            );
        }
    }

    /// As LFM2.5's, whose models think whatever they are told.
    #[test]
    fn a_model_that_always_thinks_is_not_told_to_stop() {
        let template = template("{% if message.thinking %}<think>{{ message.thinking }}</think>{% endif %}");
        assert_eq!(said(&json!({"enable_thinking": true}), &template), Ok(json!({})));
        assert_eq!(said(&json!({"thinking": {"type": "adaptive"}}), &template), Ok(json!({})));
        for (body, field) in [
            (json!({"enable_thinking": false}), "enable_thinking"),
            (json!({"reasoning_effort": "none"}), "reasoning_effort"),
            (json!({"thinking": {"type": "disabled"}}), "thinking"),
            (
                json!({"chat_template_kwargs": {"enable_thinking": false}}),
                "chat_template_kwargs.enable_thinking",
            ),
        ] {
            assert_eq!(said(&body, &template), Err(field.into()), "{body}");
        }
    }
}
