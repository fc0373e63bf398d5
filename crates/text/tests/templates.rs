//! Templates render what Jinja2 renders, set up as transformers sets it up; `templates/make.py` wrote the cases.

mod support;

use forerunner_text::{ChatTemplate, Moment, TextError};
use serde_json::{Value, json};
use support::Folder;

/// The moment that the cases were rendered at.
const MAY_THE_FOURTH: u64 = 1_777_852_800;

fn render(case: &Value) -> Result<String, TextError> {
    let config = json!({"bos_token": "<|startoftext|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>",
        "chat_template": case["template"]});
    let folder = Folder::new("templates", &[("tokenizer_config.json", &config.to_string())]);
    let template = ChatTemplate::open(&folder.0)?.at(Moment::from_unix_seconds(MAY_THE_FOURTH));
    let messages = case["messages"].as_array().expect("a case has messages");
    let tools = Some(&case["tools"]).filter(|tools| !tools.is_null());
    template.render(messages, tools, true, case["extra"].as_object().expect("a case has extra variables"))
}

#[test]
fn templates_render_as_in_jinja2() {
    let cases: Value =
        serde_json::from_str(include_str!("templates/cases.json")).expect("the cases are JSON");
    let mut failures = Vec::new();
    for case in cases.as_array().expect("the cases are a list") {
        let found = match render(case) {
            Ok(text) => json!({"text": text}),
            Err(TextError::Refused { message }) => json!({"refusal": message}),
            Err(error) => json!({"error": error.to_string()}),
        };
        let wanted = match case.get("refusal") {
            Some(message) => json!({"refusal": message}),
            None => json!({"text": case["text"]}),
        };
        if found != wanted {
            failures.push(format!("{}\n  wanted {wanted}\n  found  {found}", case["name"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// BigMoeOnEdge#82: a switch that a template does not have is known to do nothing.
#[test]
fn a_template_says_which_variables_it_reads() {
    let source = "{% if enable_thinking is defined and not enable_thinking %}/no{% endif %}{{ bos_token }}\
        {% for message in messages %}{{ message.content }}{{ range(1) }}{{ strftime_now('%Y') }}{% endfor %}";
    let config = json!({"bos_token": "<s>", "chat_template": source});
    let folder = Folder::new("variables", &[("tokenizer_config.json", &config.to_string())]);
    let template = ChatTemplate::open(&folder.0).expect("a template");
    assert!(template.reads("enable_thinking"));
    for name in ["thinking", "messages", "message", "bos_token", "range", "strftime_now", "tools", ""] {
        assert!(!template.reads(name), "{name}");
    }
}

#[test]
fn a_template_says_which_variables_it_reads_and_whether_it_knows_of_thoughts() {
    let check = |template: &str, reads: &[&str], marks_thoughts: bool| {
        let config = json!({"chat_template": template});
        let folder = Folder::new("variables", &[("tokenizer_config.json", &config.to_string())]);
        let template = ChatTemplate::open(&folder.0).unwrap();
        for name in ["enable_thinking", "reasoning_effort", "keep_past_thinking"] {
            assert_eq!(template.reads(name), reads.contains(&name), "{name}");
        }
        assert_eq!(template.marks_thoughts(), marks_thoughts);
    };
    check("{{ messages[0].content }}", &[], false);
    check(
        "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}",
        &["enable_thinking"],
        true,
    );
    check(
        "{%- set keep_past_thinking = keep_past_thinking | default(false) -%}",
        &["keep_past_thinking"],
        false,
    );
    check("{% set reasoning_effort = 1 %}{{ reasoning_effort }}", &[], false);
}
