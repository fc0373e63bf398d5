//! What a request wants its reply held to: a format of the answer, or calls of tools.

use std::time::Duration;

use forerunner_text::{Constraint, GrammarSpec, TextError, ThoughtStart, ToolChoice, ToolGrammar};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::service::Service;
use crate::tool_use::ToolUse;

/// How long a grammar may take to compile. Ordinary schemas take milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A form of replies, not compiled yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    /// The field that asks for it, for refusals.
    field: &'static str,
    spec: GrammarSpec,
}

/// The fields that ask for a form of the answer, at most one of which may.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: the JSON is read by itself")]
pub(crate) struct FormFields {
    /// The types text, json_object and json_schema.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
    /// One of json, regex, choice, grammar (in Lark's notation) and json_object.
    #[schema(value_type = Option<Object>)]
    structured_outputs: Option<Value>,
    guided_json: Option<Value>,
    guided_regex: Option<String>,
    guided_choice: Option<Vec<String>>,
    /// In Lark's notation.
    guided_grammar: Option<String>,
    guided_json_object: Option<bool>,
}

impl Form {
    /// The form of a chat reply: of its calls where there must be some, or else of its answer.
    pub(crate) fn of_chat(
        fields: &Map<String, Value>,
        tools: Option<&[Value]>,
        tool_use: &ToolUse,
        many_calls: bool,
    ) -> Result<Option<Form>, ApiError> {
        let answer = Form::of_answer(fields)?;
        let choice = tool_use.choice();
        let Some(tools) = tools else {
            if !tool_use.needs_tools() {
                return Ok(answer);
            }
            let message = "tool_choice is about tools, and there are no tools; accepted: with tools";
            return Err(ApiError::field("tool_choice", message));
        };
        let tools = ToolGrammar {
            tools: tool_use.permitted(tools)?.into(),
            choice,
            calls_max: if many_calls { 0 } else { 1 },
        };
        let may_answer = tools.choice == ToolChoice::Auto;
        Ok(match answer {
            Some(Form { field, spec }) if may_answer => {
                let calls = ToolGrammar { choice: ToolChoice::Required, ..tools };
                Some(Form { field, spec: GrammarSpec::AnyOf(vec![GrammarSpec::Tools(calls), spec]) })
            }
            None if may_answer && !tool_use.needs_tools() => {
                tools.is_strict().then_some(Form { field: "tools", spec: GrammarSpec::Tools(tools) })
            }
            _ => Some(Form { field: "tool_choice", spec: GrammarSpec::Tools(tools) }),
        })
    }

    /// The form of an answer, by whichever field asks for one.
    pub(crate) fn of_answer(fields: &Map<String, Value>) -> Result<Option<Form>, ApiError> {
        let format = response_format(fields.get("response_format").unwrap_or(&Value::Null))?;
        let mut forms: Vec<Form> = format.into_iter().collect();
        let guided = GUIDED.iter().map(|(field, _, kind)| (*field, *kind, fields.get(*field)));
        let outputs = fields.get("structured_outputs").unwrap_or(&Value::Null);
        check_outputs(outputs)?;
        let structured = GUIDED.iter().map(|(_, key, kind)| (STRUCTURED, *kind, outputs.get(key)));
        for (field, kind, value) in guided.chain(structured) {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                forms.extend(kind.read(field, value)?.map(|spec| Form { field, spec }));
            }
        }
        if let [first, second, ..] = &forms[..] {
            let fields = format!("{} and {}", first.field, second.field);
            let message = format!("{fields} both say what the reply is held to; accepted: one of them");
            return Err(ApiError::field(second.field, message));
        }
        Ok(forms.pop())
    }

    /// Compiles it, away from the threads that serve. `start` is where a reply begins that may think first.
    pub(crate) async fn compile(
        self,
        service: &Service,
        start: Option<ThoughtStart>,
    ) -> Result<Constraint, ApiError> {
        let Form { field, spec } = self;
        let permit = timeout(TIME_LIMIT, service.compilers.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(ApiError::busy("other grammars are being compiled")) };
        let engine = service.engine.clone();
        // The permit goes along: a compiler that is given up goes on, and counts until it ends.
        let compile = move |_permit: OwnedSemaphorePermit| -> Result<Constraint, TextError> {
            let grammars = engine.grammars()?;
            match start {
                Some(start) => Constraint::after_thought(grammars, &spec, start),
                None => Constraint::new(grammars, &spec),
            }
        };
        let compiled = timeout(TIME_LIMIT, tokio::task::spawn_blocking(move || compile(permit))).await;
        match compiled {
            Ok(Ok(constraint)) => {
                constraint.map_err(|error| ApiError { param: Some(field.into()), ..ApiError::from(error) })
            }
            Ok(Err(error)) => Err(ApiError::internal(format!("compiling a grammar failed: {error}"))),
            Err(_) => {
                let seconds = TIME_LIMIT.as_secs();
                Err(ApiError::field(field, format!("{field} took more than {seconds} s to compile")))
            }
        }
    }
}

const ACCEPTED_FORMATS: &str = "the types text, json_object and json_schema";

/// OpenAI's `response_format`. A schema that is not strict is followed as far as it is understood.
fn response_format(format: &Value) -> Result<Option<Form>, ApiError> {
    let field = "response_format";
    let spec = match format["type"].as_str() {
        _ if format.is_null() => return Ok(None),
        Some("text") => return Ok(None),
        Some("json_object") => GrammarSpec::JsonObject,
        Some("json_schema") => {
            let named = &format["json_schema"];
            let schema = &named["schema"];
            if !schema.is_object() {
                return Err(ApiError::value("response_format.json_schema.schema", schema, "a JSON schema"));
            }
            match &named["strict"] {
                Value::Bool(true) => GrammarSpec::JsonSchema(schema.clone()),
                Value::Bool(false) | Value::Null => GrammarSpec::LooseJsonSchema(schema.clone()),
                other => {
                    let field = "response_format.json_schema.strict";
                    return Err(ApiError::value(field, other, "true or false"));
                }
            }
        }
        _ => return Err(ApiError::value("response_format.type", &format["type"], ACCEPTED_FORMATS)),
    };
    Ok(Some(Form { field, spec }))
}

const STRUCTURED: &str = "structured_outputs";

/// vLLM's fields, old and new, and what each holds.
const GUIDED: [(&str, &str, Guide); 5] = [
    ("guided_json", "json", Guide::Json),
    ("guided_regex", "regex", Guide::Regex),
    ("guided_choice", "choice", Guide::Choice),
    ("guided_grammar", "grammar", Guide::Grammar),
    ("guided_json_object", "json_object", Guide::JsonObject),
];

/// What a `guided_` field holds.
#[derive(Debug, Clone, Copy)]
enum Guide {
    Json,
    Regex,
    Choice,
    Grammar,
    JsonObject,
}

impl Guide {
    fn read(self, field: &'static str, value: &Value) -> Result<Option<GrammarSpec>, ApiError> {
        let refused = |accepted| ApiError::value(field, value, accepted);
        let text = |accepted| value.as_str().map(str::to_owned).ok_or_else(|| refused(accepted));
        Ok(Some(match self {
            Guide::Json => {
                let parsed = value.as_str().map(serde_json::from_str::<Value>);
                let schema = parsed.unwrap_or_else(|| Ok(value.clone())).ok().filter(Value::is_object);
                GrammarSpec::JsonSchema(schema.ok_or_else(|| refused("a JSON schema, or one as a text"))?)
            }
            Guide::Regex => GrammarSpec::Regex(text("a regular expression")?),
            Guide::Choice => {
                let choices = value.as_array().map(|list| {
                    list.iter().map(|choice| choice.as_str().map(str::to_owned)).collect::<Option<_>>()
                });
                GrammarSpec::Choice(choices.flatten().ok_or_else(|| refused("a list of texts"))?)
            }
            Guide::Grammar => {
                let accepted = "a Lark grammar with a rule start; GBNF (with ::=) is not read";
                let grammar = text(accepted)?;
                if grammar.contains("::=") {
                    return Err(refused(accepted));
                }
                GrammarSpec::Lark(grammar)
            }
            Guide::JsonObject => match value {
                Value::Bool(true) => GrammarSpec::JsonObject,
                Value::Bool(false) => return Ok(None),
                _ => return Err(refused("true or false")),
            },
        }))
    }
}

/// Options of vLLM's that change what a form means are refused by name; hints about how are not.
fn check_outputs(outputs: &Value) -> Result<(), ApiError> {
    let known = |key: &str| GUIDED.iter().any(|(_, name, _)| *name == key);
    match outputs {
        Value::Null => Ok(()),
        Value::Object(fields) => {
            let unset = |value: &Value| value.is_null() || *value == false;
            match fields.iter().find(|(key, value)| !known(key) && *key != "backend" && !unset(value)) {
                Some((key, value)) => {
                    let field = format!("{STRUCTURED}.{key}");
                    Err(ApiError::value(&field, value, "json, regex, choice, grammar or json_object"))
                }
                None => Ok(()),
            }
        }
        other => Err(ApiError::value(STRUCTURED, other, "an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(fields: Value) -> Result<Option<GrammarSpec>, ApiError> {
        Form::of_answer(fields.as_object().unwrap()).map(|form| form.map(|form| form.spec))
    }

    fn schema(schema: &Value, strict: Value) -> Value {
        json!({"response_format": {"type": "json_schema",
            "json_schema": {"name": "a", "schema": schema, "strict": strict}}})
    }

    #[test]
    fn every_way_to_ask_for_a_form_is_read() {
        let object = json!({"type": "object"});
        let cases = [
            (json!({}), None),
            (json!({"response_format": null, "structured_outputs": null, "guided_json": null}), None),
            (json!({"response_format": {"type": "text"}}), None),
            (json!({"response_format": {"type": "json_object"}}), Some(GrammarSpec::JsonObject)),
            (schema(&object, json!(true)), Some(GrammarSpec::JsonSchema(object.clone()))),
            (schema(&object, json!(false)), Some(GrammarSpec::LooseJsonSchema(object.clone()))),
            (schema(&object, json!(null)), Some(GrammarSpec::LooseJsonSchema(object.clone()))),
            (json!({"guided_json": object}), Some(GrammarSpec::JsonSchema(object.clone()))),
            (json!({"guided_json": object.to_string()}), Some(GrammarSpec::JsonSchema(object.clone()))),
            (json!({"guided_regex": "a+"}), Some(GrammarSpec::Regex("a+".into()))),
            (json!({"guided_choice": ["a", "b"]}), Some(GrammarSpec::Choice(vec!["a".into(), "b".into()]))),
            (json!({"structured_outputs": {"choice": ["a"]}}), Some(GrammarSpec::Choice(vec!["a".into()]))),
            (
                json!({"structured_outputs": {"json_object": true, "regex": null, "backend": "auto"}}),
                Some(GrammarSpec::JsonObject),
            ),
            (
                json!({"structured_outputs": {"grammar": "start: \"a\""}}),
                Some(GrammarSpec::Lark("start: \"a\"".into())),
            ),
        ];
        for (fields, expected) in cases {
            assert_eq!(answer(fields.clone()).unwrap(), expected, "{fields}");
        }
    }

    #[test]
    fn what_cannot_be_a_form_is_named() {
        let cases = [
            (json!({"response_format": {"type": "xml"}}), "response_format.type"),
            (json!({"response_format": "json_object"}), "response_format.type"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema.schema"),
            (schema(&json!("{}"), json!(true)), "response_format.json_schema.schema"),
            (schema(&json!({}), json!("yes")), "response_format.json_schema.strict"),
            (json!({"guided_json": "{"}), "guided_json"),
            (json!({"guided_json": [1]}), "guided_json"),
            (json!({"guided_regex": 1}), "guided_regex"),
            (json!({"guided_choice": ["a", 1]}), "guided_choice"),
            (json!({"guided_choice": "a"}), "guided_choice"),
            (json!({"guided_grammar": "root ::= \"a\""}), "guided_grammar"),
            (json!({"structured_outputs": "json"}), "structured_outputs"),
            (json!({"structured_outputs": {"structural_tag": "{}"}}), "structured_outputs.structural_tag"),
            (
                json!({"structured_outputs": {"whitespace_pattern": " "}}),
                "structured_outputs.whitespace_pattern",
            ),
            (json!({"guided_regex": "a", "guided_choice": ["a"]}), "guided_choice"),
            (
                json!({"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}}),
                "structured_outputs",
            ),
        ];
        for (fields, field) in cases {
            assert_eq!(answer(fields.clone()).unwrap_err().param.as_deref(), Some(field), "{fields}");
        }
    }

    #[test]
    fn calls_are_forced_where_they_are_asked_for() {
        let tool = json!({"type": "function", "function": {"name": "f"}});
        let strict = json!({"type": "function", "function": {"name": "f", "strict": true}});
        let form = |tools: Option<&[Value]>, choice: Value, fields: Value| {
            let tool_use = ToolUse::read(&choice)?;
            let form = Form::of_chat(fields.as_object().unwrap(), tools, &tool_use, true);
            form.map(|form| form.map(|form| form.spec))
        };
        let named = |name: &str| json!({"type": "function", "function": {"name": name}});
        let tools = std::slice::from_ref(&tool);
        assert_eq!(form(Some(tools), json!("auto"), json!({})).unwrap(), None);
        assert_eq!(form(None, json!("none"), json!({})).unwrap(), None);
        for (choice, expected) in [
            (json!("required"), ToolChoice::Required),
            (named("f"), ToolChoice::Named("f".into())),
            (json!({"type": "function", "name": "f"}), ToolChoice::Named("f".into())),
        ] {
            let spec =
                form(Some(tools), choice, json!({"response_format": {"type": "json_object"}})).unwrap();
            assert!(
                matches!(spec, Some(GrammarSpec::Tools(tools)) if tools.choice == expected && tools.calls_max == 0)
            );
        }
        let strict = form(Some(&[strict]), json!(null), json!({})).unwrap();
        assert!(matches!(strict, Some(GrammarSpec::Tools(tools)) if tools.choice == ToolChoice::Auto));
        let among = |mode: &str, names: &[&str]| {
            let allowed: Vec<Value> = names.iter().map(|name| named(name)).collect();
            json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}})
        };
        let other = json!({"type": "function", "function": {"name": "other"}});
        for (mode, expected) in [("auto", ToolChoice::Auto), ("required", ToolChoice::Required)] {
            let spec = form(Some(&[other.clone(), tool.clone()]), among(mode, &["f"]), json!({})).unwrap();
            let Some(GrammarSpec::Tools(held)) = spec else { panic!("{spec:?}") };
            assert_eq!((held.choice, held.tools), (expected, json!([tool])));
        }
        let either = form(Some(tools), json!("auto"), json!({"response_format": {"type": "json_object"}}));
        assert!(matches!(either.unwrap(), Some(GrammarSpec::AnyOf(forms)) if forms.len() == 2));
        for (tools, choice) in [
            (None, json!("required")),
            (None, named("f")),
            (None, among("auto", &["f"])),
            (Some(tools), among("auto", &["f", "g"])),
        ] {
            let error = form(tools, choice.clone(), json!({})).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("tool_choice"), "{choice}");
        }
    }
}
