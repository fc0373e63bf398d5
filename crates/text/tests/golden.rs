//! The demo model's prompts: rendered and encoded as in its golden vectors.

mod support;

use forerunner_text::{Moment, TextModel};
use serde_json::{Map, Value, json};
use support::demo;

fn golden() -> Value {
    let text = std::fs::read_to_string(demo("golden/target.json")).expect("the golden vectors are committed");
    serde_json::from_str(&text).expect("the golden vectors are JSON")
}

fn model() -> TextModel {
    let mut model = TextModel::open(&demo("target")).expect("the demo target has a tokenizer and a template");
    model.template = model.template.at(may_the_fourth());
    model
}

/// The day on which the golden vectors were made.
fn may_the_fourth() -> Moment {
    Moment::from_unix_seconds(1_777_852_800)
}

#[test]
fn golden_texts_encode_to_golden_ids() {
    let model = model();
    for (name, case) in golden().as_object().unwrap() {
        let ids: Vec<u32> = serde_json::from_value(case["prompt_ids"].clone()).unwrap();
        let text = case["text"].as_str().unwrap();
        assert_eq!(model.tokenizer.encode(text, false).unwrap(), ids, "{name}");
        assert_eq!(model.tokenizer.encode_prompt(text).unwrap(), ids, "{name}: no second bos");
        let without_bos = text.strip_prefix("<|startoftext|>").unwrap();
        assert_eq!(model.tokenizer.encode_prompt(without_bos).unwrap(), ids, "{name}: a bos is put in front");
    }
}

#[test]
fn golden_replies_decode_to_golden_texts() {
    let model = model();
    for (name, case) in golden().as_object().unwrap() {
        let ids: Vec<u32> = serde_json::from_value(case["greedy_ids"].clone()).unwrap();
        assert_eq!(model.tokenizer.decode(&ids, false), case["greedy_text"], "{name}");
    }
}

/// Takes a golden chat prompt apart and has the template write it again.
#[test]
fn golden_chats_render_to_golden_texts() {
    let model = model();
    let mut rendered = 0;
    for (name, case) in golden().as_object().unwrap() {
        let text = case["text"].as_str().unwrap();
        let Some((before, question)) = text.split_once("<|im_start|>user\n") else { continue };
        let question = question.strip_suffix("<|im_end|>\n<|im_start|>assistant\n").unwrap();
        let tools = before.split_once("List of tools: ").map(|(_, tools)| {
            serde_json::from_str::<Value>(tools.strip_suffix("<|im_end|>\n").unwrap()).unwrap()
        });
        let messages = [json!({"role": "user", "content": question})];
        assert_eq!(
            model.template.render(&messages, tools.as_ref(), true, &Map::new()).unwrap(),
            text,
            "{name}"
        );
        let ids: Vec<u32> = serde_json::from_value(case["prompt_ids"].clone()).unwrap();
        assert_eq!(model.chat_prompt(&messages, tools.as_ref(), &Map::new()).unwrap(), ids, "{name}");
        rendered += 1;
    }
    assert_eq!(rendered, 8, "chats among the golden prompts");
}

#[test]
fn demo_prompts_render() {
    let model = model();
    let lines = std::fs::read_to_string(demo("prompts.jsonl")).unwrap();
    let mut with_tools = 0;
    for line in lines.lines() {
        let prompt: Value = serde_json::from_str(line).unwrap();
        let messages = prompt["messages"].as_array().unwrap();
        let text = model.template.render(messages, prompt.get("tools"), true, &Map::new()).unwrap();
        assert!(text.starts_with("<|startoftext|><|im_start|>") && text.ends_with("<|im_start|>assistant\n"));
        if let Some(tools) = line.split_once("\"tools\": ") {
            let tools = tools.1.strip_suffix('}').unwrap();
            assert!(
                text.contains(&format!("date: 2026-05-04\n\nList of tools: {tools}<|im_end|>")),
                "{text}"
            );
            with_tools += 1;
        }
        let tokens = model.tokenizer.encode(&text, false).unwrap();
        assert_eq!(tokens.iter().filter(|&&token| token == 1).count(), 1, "one bos");
    }
    assert_eq!((lines.lines().count(), with_tools), (96, 43));
}

#[test]
fn a_whole_conversation_with_tool_calls_renders() {
    let call = |arguments: Value| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]})
    };
    let arguments =
        json!({"city": "Oslo", "days": 3, "metric": true, "note": null, "where": {"b": 1.0, "a": "é"}});
    let expected = "<|startoftext|><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<|tool_call_start|>\
        [f(city='Oslo', days=3, metric=True, note=None, where={\"b\": 1.0, \"a\": \"é\"})]<|tool_call_end|><|im_end|>\n\
        <|im_start|>tool\n12<|im_end|>\n";
    for arguments in [arguments.clone(), Value::from(arguments.to_string())] {
        let messages = [
            json!({"role": "user", "content": [{"type": "text", "text": "Hi"}]}),
            call(arguments),
            json!({"role": "tool", "content": "12", "tool_call_id": "1"}),
        ];
        assert_eq!(model().template.render(&messages, None, false, &Map::new()).unwrap(), expected);
    }
}

#[test]
fn the_vocabulary_and_its_marks_are_known() {
    let tokenizer = model().tokenizer;
    assert_eq!(tokenizer.vocabulary_size(), 8192);
    assert_eq!(tokenizer.token_to_id("<|tool_call_start|>"), Some(10));
    assert_eq!(tokenizer.id_to_token(7).as_deref(), Some("<|im_end|>"));
    let special = tokenizer.special_tokens();
    assert_eq!((special.bos, special.eos, special.pad), (Some(1), Some(7), Some(0)));
    assert!(tokenizer.is_special(7) && !tokenizer.is_special(100));
}
