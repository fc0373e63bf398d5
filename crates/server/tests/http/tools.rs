//! Tool calls and thoughts of a scripted model, whole and streamed.

use serde_json::{Value, json};

use crate::client::post;
use crate::world::{World, chat};

const CHAT: &str = "/v1/chat/completions";

const CALLING: &str = "<think>The user wants two cities.</think>I look.\
    <|tool_call_start|>[weather(city='Rome', days=[1, -2], raw=None), time.now(zone=\"Asia/Tokyo\")]<|tool_call_end|>";

fn tools() -> Value {
    let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {}}});
    json!([function("weather"), function("time.now")])
}

fn ask(world: &World, more: Value) -> Value {
    let mut body = chat("Hello", json!({"max_tokens": 300, "return_token_ids": false}));
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = post(world.address, CHAT, &body);
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    if body["stream"] == true { Value::Array(answer.chunks()) } else { answer.json() }
}

/// The deltas of a streamed reply put together as an OpenAI client does, by index.
fn assembled(chunks: &Value) -> (Value, Value) {
    let (mut message, mut finish) = (json!({"content": "", "reasoning_content": ""}), Value::Null);
    let mut calls: Vec<Value> = Vec::new();
    for chunk in chunks.as_array().unwrap() {
        let Some(choice) = chunk["choices"].get(0) else { continue };
        for field in ["content", "reasoning_content"] {
            let text = choice["delta"][field].as_str().unwrap_or("");
            assert!(!text.contains("<|tool") && !text.contains("think>"), "a mark leaks: {text}");
            message[field] = json!(message[field].as_str().unwrap().to_owned() + text);
        }
        for delta in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = delta["index"].as_u64().unwrap() as usize;
            let arguments = delta["function"]["arguments"].as_str().expect("arguments, if only empty ones");
            if index == calls.len() {
                assert!(delta["id"].is_string() && delta["type"] == "function", "{delta}");
                let name = &delta["function"]["name"];
                calls.push(json!({"name": name, "arguments": ""}));
            } else {
                assert!(delta.get("id").is_none() && delta["function"].get("name").is_none(), "{delta}");
            }
            let call = &mut calls[index];
            call["arguments"] = json!(call["arguments"].as_str().unwrap().to_owned() + arguments);
        }
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
        }
    }
    message["calls"] = Value::Array(calls);
    (message, finish)
}

/// A streaming tool call ends with the same finish reason as a whole one, python-genai#2868; the first delta of a call
/// has its id, continue#13225; no mark leaks, mlx-vlm#1792.
#[test]
fn calls_are_the_same_whole_and_streamed() {
    let world = World::scripted(CALLING);
    for draft in [true, false] {
        let whole = ask(&world, json!({"tools": tools(), "draft": draft}));
        let choice = &whole["choices"][0];
        let message = &choice["message"];
        assert_eq!(choice["finish_reason"], "tool_calls", "{whole}");
        assert_eq!(message["content"], "I look.");
        assert_eq!(message["reasoning_content"], "The user wants two cities.");
        let call = &message["tool_calls"][0];
        assert_eq!(
            (&call["type"], call["id"].as_str().map(|id| &id[..5])),
            (&json!("function"), Some("call_"))
        );
        let told: Vec<_> =
            message["tool_calls"].as_array().unwrap().iter().map(|call| &call["function"]).collect();
        let expected = json!([
            {"name": "weather", "arguments": r#"{"city":"Rome","days":[1,-2],"raw":null}"#},
            {"name": "time.now", "arguments": r#"{"zone":"Asia/Tokyo"}"#},
        ]);
        assert_eq!(json!(told), expected);
        let (streamed, finish) =
            assembled(&ask(&world, json!({"tools": tools(), "draft": draft, "stream": true})));
        assert_eq!((&streamed["calls"], finish), (&expected, json!("tool_calls")));
        assert_eq!(streamed["content"], message["content"]);
        assert_eq!(streamed["reasoning_content"], message["reasoning_content"]);
    }
}

#[test]
fn nothing_is_a_call_without_tools() {
    let world = World::scripted(CALLING);
    for more in [json!({}), json!({"tools": []}), json!({"tools": tools(), "tool_choice": "none"})] {
        let choice = ask(&world, more)["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "stop");
        assert!(choice["message"].get("tool_calls").is_none());
        let content = choice["message"]["content"].as_str().unwrap();
        assert!(content.starts_with("I look.<|tool_call_start|>[weather("), "{content}");
    }
    let body = json!({"prompt": "x", "max_tokens": 300, "temperature": 0});
    let raw = post(world.address, "/v1/completions", &body).json();
    assert_eq!(raw["choices"][0]["text"], CALLING);
}

#[test]
fn a_reply_of_calls_alone_has_null_content_and_one_call_if_one_is_wanted() {
    let world = World::scripted("<|tool_call_start|>[a(x=1), b()]<|tool_call_end|>");
    let message = |more: Value| ask(&world, more)["choices"][0]["message"].clone();
    let all = message(json!({"tools": tools()}));
    assert_eq!((&all["content"], all["tool_calls"].as_array().unwrap().len()), (&Value::Null, 2));
    let one = message(json!({"tools": tools(), "parallel_tool_calls": false}));
    assert_eq!(one["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(one["tool_calls"][0]["function"]["name"], "a");
}

/// JSON in place of a call list, cookbook#72: parsed, never lost.
#[test]
fn json_calls_are_calls() {
    let world =
        World::scripted("<|tool_call_start|>[{\"name\":\"f\",\"arguments\":{\"a\":1}}]<|tool_call_end|>");
    let choice = ask(&world, json!({"tools": tools()}))["choices"][0].clone();
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"],
        json!({"name": "f", "arguments": r#"{"a":1}"#})
    );
}

#[test]
fn a_call_that_the_limit_cuts_is_content_and_ends_for_length() {
    let world = World::scripted(CALLING);
    let choice = ask(&world, json!({"tools": tools(), "max_tokens": 30}))["choices"][0].clone();
    assert_eq!(choice["finish_reason"], "length");
    assert!(choice["message"].get("tool_calls").is_none(), "{choice}");
}

/// A tool loop: what was called and what came of it goes back into the prompt.
#[test]
fn calls_and_their_results_go_back_into_a_prompt() {
    let world = World::scripted("It is warm.");
    let call = json!({"id": "call_1", "type": "function",
        "function": {"name": "weather", "arguments": "{\"city\": \"Rome\"}"}});
    let messages = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "31 degrees"},
    ]);
    let reply = ask(&world, json!({"messages": messages, "tools": tools()}));
    assert_eq!(reply["choices"][0]["message"]["content"], "It is warm.");
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
}

#[test]
fn several_choices_each_have_their_index_and_their_own_draws() {
    let world = World::new();
    let more = json!({"n": 3, "temperature": 1.0, "seed": 4, "max_tokens": 20, "return_token_ids": true});
    let whole = ask(&world, more.clone());
    let tokens = |index: usize| whole["choices"][index]["token_ids"].clone();
    assert_eq!(whole["choices"].as_array().unwrap().len(), 3);
    assert!((0..3).all(|index| whole["choices"][index]["index"] == index));
    assert_eq!(whole["usage"]["completion_tokens"], 60);
    assert_ne!(tokens(0), tokens(1));
    let mut streamed = more;
    streamed["stream"] = json!(true);
    let chunks = ask(&world, streamed);
    for index in 0..3u64 {
        let own = chunks.as_array().unwrap().iter().filter(|chunk| chunk["choices"][0]["index"] == index);
        let ids: Vec<_> =
            own.flat_map(|chunk| chunk["choices"][0]["token_ids"].as_array().cloned()).flatten().collect();
        assert_eq!(Value::Array(ids), tokens(index as usize));
    }
}
