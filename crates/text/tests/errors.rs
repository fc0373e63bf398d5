//! A wrong file or request is told by name, and whose fault it is.

mod support;

use forerunner_text::{ChatTemplate, TextError, Tokenizer};
use serde_json::{Map, Value, json};
use support::{Folder, demo};

#[track_caller]
fn check_message(error: &TextError, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn render(name: &str, template: &str, messages: &[Value]) -> Result<String, TextError> {
    let folder = Folder::new(name, &[("chat_template.jinja", template)]);
    ChatTemplate::open(&folder.0)?.render(messages, None, true, &Map::new())
}

#[test]
fn a_missing_tokenizer_is_named() {
    let folder = Folder::new("missing", &[]);
    let error = Tokenizer::open(&folder.0).unwrap_err();
    assert!(matches!(error, TextError::Read { .. }) && !error.is_callers_fault());
    check_message(&error, &["tokenizer.json"]);
}

#[test]
fn a_garbled_tokenizer_is_named() {
    for (name, text) in [("empty", ""), ("cut", "{\"model\": {\"type\": \"BPE\""), ("list", "[]")] {
        let folder = Folder::new(name, &[("tokenizer.json", text)]);
        let error = Tokenizer::open(&folder.0).unwrap_err();
        assert!(matches!(error, TextError::Tokenizer { .. }), "{error}");
        check_message(&error, &["tokenizer.json", "not a tokenizer"]);
    }
}

/// Found by `crates/fuzz`: the library panics on a slip within a decoder.
#[test]
fn a_slip_within_a_decoder_is_named() {
    let whole = std::fs::read_to_string(demo("target/tokenizer.json")).unwrap();
    let slip = whole.replacen("\"decoder\":", "\"decoder\": {\"type: 1}, \"was\":", 1);
    assert_ne!(slip, whole);
    let folder = Folder::new("slip", &[("tokenizer.json", &slip)]);
    check_message(&Tokenizer::open(&folder.0).unwrap_err(), &["tokenizer.json", "not a tokenizer"]);
}

#[test]
fn a_tokenizer_that_is_not_byte_level_is_refused() {
    let model = r#"{"type": "BPE", "vocab": {"a": 0}, "merges": []}"#;
    let text = format!(
        r#"{{"version": "1.0", "added_tokens": [], "decoder": {{"type": "Fuse"}}, "model": {model}}}"#
    );
    let folder = Folder::new("fuse", &[("tokenizer.json", &text)]);
    check_message(&Tokenizer::open(&folder.0).unwrap_err(), &["decoder", "Fuse", "accepted is a ByteLevel"]);
}

#[test]
fn a_special_token_that_does_not_exist_is_named() {
    let tokenizer = std::fs::read_to_string(demo("target/tokenizer.json")).unwrap();
    let config = r#"{"eos_token": {"content": "<|nope|>"}}"#;
    let folder = Folder::new("special", &[("tokenizer.json", &tokenizer), ("tokenizer_config.json", config)]);
    check_message(
        &Tokenizer::open(&folder.0).unwrap_err(),
        &["tokenizer_config.json", "eos_token", "<|nope|>"],
    );
    let folder = Folder::new(
        "number",
        &[("tokenizer.json", &tokenizer), ("tokenizer_config.json", r#"{"bos_token": 1}"#)],
    );
    check_message(&Tokenizer::open(&folder.0).unwrap_err(), &["bos_token", "a number", "accepted is a text"]);
}

#[test]
fn special_tokens_may_be_objects_and_prompts_are_never_cut_or_padded() {
    let mut tokenizer: Value =
        serde_json::from_str(&std::fs::read_to_string(demo("target/tokenizer.json")).unwrap()).unwrap();
    tokenizer["truncation"] =
        json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    tokenizer["padding"] = json!({"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<|pad|>"});
    let config = r#"{"bos_token": {"content": "<|startoftext|>", "lstrip": false}, "eos_token": null}"#;
    let folder = Folder::new(
        "objects",
        &[("tokenizer.json", &tokenizer.to_string()), ("tokenizer_config.json", config)],
    );
    let tokenizer = Tokenizer::open(&folder.0).unwrap();
    assert_eq!((tokenizer.special_tokens().bos, tokenizer.special_tokens().eos), (Some(1), None));
    let text = "one two three four five";
    assert_eq!(tokenizer.decode(&tokenizer.encode(text, true).unwrap(), false), text);
}

#[test]
fn a_garbled_config_is_named_with_its_line() {
    let folder = Folder::new("config", &[("tokenizer_config.json", "{\n\"a\": }")]);
    check_message(&ChatTemplate::open(&folder.0).unwrap_err(), &["tokenizer_config.json", "line 2"]);
    let folder = Folder::new("config-list", &[("tokenizer_config.json", "[]")]);
    check_message(&ChatTemplate::open(&folder.0).unwrap_err(), &["a list", "an object"]);
    let folder = Folder::new("config-template", &[("tokenizer_config.json", r#"{"chat_template": 3}"#)]);
    check_message(&ChatTemplate::open(&folder.0).unwrap_err(), &["chat_template", "a number"]);
}

#[test]
fn a_missing_template_is_told() {
    let folder = Folder::new("no-template", &[("tokenizer_config.json", "{}")]);
    check_message(&ChatTemplate::open(&folder.0).unwrap_err(), &["no chat template", "chat_template.jinja"]);
}

#[test]
fn named_templates_are_found_and_tools_pick_theirs() {
    let config = json!({"bos_token": "<s>", "chat_template": [
        {"name": "default", "template": "{{ bos_token }}plain"}, {"name": "tool_use", "template": "tools"}]});
    let folder = Folder::new("named", &[("tokenizer_config.json", &config.to_string())]);
    let template = ChatTemplate::open(&folder.0).unwrap();
    let messages = [json!({"role": "user", "content": "x"})];
    assert_eq!(template.render(&messages, None, true, &Map::new()).unwrap(), "<s>plain");
    assert_eq!(template.render(&messages, Some(&json!([])), true, &Map::new()).unwrap(), "<s>plain");
    assert_eq!(template.render(&messages, Some(&json!([{}])), true, &Map::new()).unwrap(), "tools");
}

#[test]
fn a_syntax_error_has_its_line() {
    let error = render("syntax", "a\nb\n{% if %}\n", &[]).unwrap_err();
    assert!(matches!(error, TextError::Template { line: 3, .. }), "{error}");
    check_message(&error, &["chat_template.jinja, line 3: syntax error"]);
}

#[test]
fn an_unknown_filter_is_the_templates_fault() {
    let error = render("filter", "{{ messages | nonsense }}", &[]).unwrap_err();
    assert!(matches!(error, TextError::Template { line: 1, .. }) && !error.is_callers_fault(), "{error}");
    check_message(&error, &["nonsense"]);
}

/// Found by `crates/fuzz`: such a width took all memory, or more than there can be.
#[test]
fn an_indentation_without_measure_is_the_templates_fault() {
    for width in ["65", "4000000000", "9223372036854775808", "-1"] {
        let template = format!("{{{{ {{'a': 1}} | tojson(indent={width}) }}}}");
        let error = render("indent", &template, &[]).unwrap_err();
        check_message(&error, &["tojson's indent is", "accepted: a text, or a number of 0 to 64"]);
    }
}

/// Found by `crates/fuzz`: the library panics on it in builds that check overflows.
#[test]
fn a_slice_in_steps_of_the_smallest_number_is_no_panic() {
    let template = "{% for m in messages[::-9223372036854775808] %}{{ m.role }}{% endfor %}";
    let messages = [json!({"role": "user", "content": "Hi"})];
    if let Err(error) = render("slice", template, &messages) {
        check_message(&error, &["chat_template.jinja", "a number that is too large"]);
    }
}

#[test]
fn a_refusal_by_the_template_is_the_callers_fault() {
    let source = "{% if not messages %}{{ raise_exception('Say ' ~ 1 ~ ' word at least') }}{% endif %}";
    let error = render("refusal", source, &[]).unwrap_err();
    assert!(matches!(error, TextError::Refused { .. }) && error.is_callers_fault());
    check_message(&error, &["Say 1 word at least"]);
}

#[test]
fn messages_that_a_template_cannot_add_are_the_callers_fault() {
    let messages = [json!({"role": "user", "content": 5})];
    let error = render("add", "\n{{ 'a' + messages[0].content }}", &messages).unwrap_err();
    assert!(matches!(error, TextError::Render { line: 2, .. }) && error.is_callers_fault(), "{error}");
}

#[test]
fn misshapen_messages_are_told_by_index_and_field() {
    let good = json!({"role": "user", "content": "x"});
    let call = |arguments: &str| json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]});
    let cases = [
        (json!("text"), "messages[1] is a text, accepted is an object"),
        (json!({"content": "x"}), "messages[1].role is null"),
        (json!({"role": 1}), "messages[1].role is a number"),
        (json!({"role": "assistant", "tool_calls": {}}), "messages[1].tool_calls is an object"),
        (call("{\"a\": "), "messages[1].tool_calls[0].function.arguments is \"{"),
        (call("[1]"), "accepted is an object"),
    ];
    for (message, expected) in cases {
        let error = render("messages", "", &[good.clone(), message]).unwrap_err();
        assert!(error.is_callers_fault());
        check_message(&error, &[expected]);
    }
    assert_eq!(render("messages", "ok", &[good, call("")]).unwrap(), "ok");
}
