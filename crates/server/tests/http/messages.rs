//! Anthropic's messages, whole and streamed.

use serde_json::{Value, json};

use crate::client::{Answer, post};
use crate::events::events;
use crate::world::World;

const MESSAGES: &str = "/v1/messages";

const CALLING: &str =
    "<think>Hm.</think>I look.<|tool_call_start|>[weather(city='Rome'), now()]<|tool_call_end|>";

fn ask(world: &World, more: Value) -> Answer {
    let mut body = json!({
        "model": "fake", "max_tokens": 200, "temperature": 0,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(world.address, MESSAGES, &body)
}

#[test]
fn a_message_has_its_blocks_in_order() {
    let world = World::scripted(CALLING);
    let answer = ask(&world, json!({}));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let message = answer.json();
    assert_eq!((&message["type"], &message["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(message["stop_reason"], "tool_use");
    let blocks = message["content"].as_array().unwrap();
    assert_eq!(blocks[0], json!({"type": "thinking", "thinking": "Hm.", "signature": ""}));
    assert_eq!(blocks[1], json!({"type": "text", "text": "I look."}));
    assert_eq!((&blocks[2]["type"], &blocks[2]["input"]), (&json!("tool_use"), &json!({"city": "Rome"})));
    assert_eq!((&blocks[3]["name"], &blocks[3]["input"]), (&json!("now"), &json!({})));
    assert!(message["usage"]["output_tokens"].as_u64().unwrap() > 10);
    assert!(message["forerunner"]["rounds"].is_u64());
}

#[test]
fn a_stream_builds_the_same_message() {
    let world = World::scripted(CALLING);
    let whole = ask(&world, json!({})).json();
    let events = events(&ask(&world, json!({"stream": true})));
    assert_eq!(events[0]["type"], "message_start");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    let mut blocks: Vec<Value> = Vec::new();
    let mut open = None;
    for event in &events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!((open.replace(blocks.len()), &event["index"]), (None, &json!(blocks.len())));
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(event["index"], open.expect("an open block"));
                let (delta, block) = (&event["delta"], blocks.last_mut().unwrap());
                let (into, from) = match delta["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "input_json_delta" => ("json", "partial_json"),
                    other => panic!("{other}"),
                };
                let before = block[into].as_str().unwrap_or("").to_owned();
                block[into] = json!(before + delta[from].as_str().unwrap());
            }
            "content_block_stop" => assert_eq!(event["index"], open.take().expect("an open block")),
            _ => {}
        }
    }
    for block in &mut blocks {
        if let Some(input) = block.as_object_mut().unwrap().remove("json") {
            block["input"] = serde_json::from_str(input.as_str().unwrap()).unwrap();
        }
    }
    let without_ids = |blocks: &[Value]| {
        let mut blocks = blocks.to_vec();
        blocks.iter_mut().for_each(|block| drop(block.as_object_mut().unwrap().remove("id")));
        blocks
    };
    assert_eq!(without_ids(&blocks), without_ids(whole["content"].as_array().unwrap()));
    let last = &events[events.len() - 2];
    assert_eq!((&last["delta"]["stop_reason"], &last["usage"]), (&json!("tool_use"), &whole["usage"]));
}

#[test]
fn tokens_are_counted_as_the_prompt_has_them() {
    let world = World::scripted("Hi.");
    let used = ask(&world, json!({"tools": []})).json()["usage"]["input_tokens"].clone();
    let body = json!({"model": "fake", "messages": [{"role": "user", "content": "Hello"}]});
    let counted = post(world.address, "/v1/messages/count_tokens", &body).json();
    assert_eq!(counted, json!({"input_tokens": world.chat_prompt("Hello").len()}));
    assert_eq!(counted["input_tokens"], used);
}

#[test]
fn refusals_have_this_apis_envelope() {
    let world = World::new();
    let cases = [
        (json!({"max_tokens": null}), 400, "max_tokens is missing"),
        (json!({"max_tokens": 100_000}), 400, "context"),
        (json!({"messages": []}), 400, "messages"),
        (json!({"tool_choice": {"type": "tool"}}), 400, "tool_choice"),
        (json!({"model": "claude"}), 404, "claude"),
        (json!({"stop_sequences": 3}), 400, "stop"),
    ];
    for (more, status, fragment) in cases {
        let answer = ask(&world, more);
        let body = answer.json();
        assert_eq!((answer.status, &body["type"]), (status, &json!("error")), "{body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(fragment), "{body}");
    }
    let answer = crate::client::request(world.address, "POST", MESSAGES, &[], b"{");
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (400, &json!("invalid_request_error")));
}
