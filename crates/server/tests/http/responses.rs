//! OpenAI's responses, whole and streamed, and conversations that go on from one.

use serde_json::{Value, json};

use crate::client::{get, post, request};
use crate::events::events;
use crate::world::World;

const RESPONSES: &str = "/v1/responses";

const CALLING: &str =
    "<think>Hm.</think>I look.<|tool_call_start|>[weather(city='Rome'), now()]<|tool_call_end|>";

fn ask(world: &World, more: Value) -> Value {
    let mut body = json!({
        "model": "fake", "max_output_tokens": 200, "temperature": 0, "input": "Hello",
        "tools": [{"type": "function", "name": "weather", "parameters": {"type": "object"}}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = post(world.address, RESPONSES, &body);
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    if body["stream"] == true { Value::Array(events(&answer)) } else { answer.json() }
}

/// An item without the ids, which differ from reply to reply.
fn without_ids(items: &Value) -> Vec<Value> {
    let mut items = items.as_array().expect("items").clone();
    for item in &mut items {
        item.as_object_mut().unwrap().retain(|name, _| name != "id" && name != "call_id");
    }
    items
}

#[test]
fn a_response_has_its_items_whole_and_streamed() {
    let world = World::scripted(CALLING);
    let whole = ask(&world, json!({"metadata": {"a": "b"}}));
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("completed")));
    assert_eq!((&whole["metadata"], &whole["error"]), (&json!({"a": "b"}), &Value::Null));
    let kinds: Vec<_> = whole["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(json!(kinds), json!(["reasoning", "message", "function_call", "function_call"]));
    assert_eq!(whole["output"][1]["content"][0]["text"], "I look.");
    assert_eq!(whole["output"][2]["arguments"], r#"{"city":"Rome"}"#);
    let events = ask(&world, json!({"stream": true}));
    let events = events.as_array().unwrap();
    assert_eq!(
        (&events[0]["type"], &events[1]["type"]),
        (&json!("response.created"), &json!("response.in_progress"))
    );
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(without_ids(&last["response"]["output"]), without_ids(&whole["output"]));
    assert!(events.iter().enumerate().all(|(index, event)| event["sequence_number"] == index));
    let joined = |kind: &str| -> String {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .map(|event| event["delta"].as_str().unwrap())
            .collect()
    };
    assert_eq!(joined("response.output_text.delta"), "I look.");
    assert_eq!(joined("response.reasoning_text.delta"), "Hm.");
    assert_eq!(joined("response.function_call_arguments.delta"), r#"{"city":"Rome"}{}"#);
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let done: Vec<_> = done.map(|event| event["item"].clone()).collect();
    assert_eq!(Value::Array(done), last["response"]["output"]);
}

#[test]
fn a_response_cut_by_its_limit_is_incomplete() {
    let world = World::scripted("One two three four five six seven eight nine ten.");
    let whole = ask(&world, json!({"max_output_tokens": 3}));
    assert_eq!(
        (&whole["status"], &whole["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    assert_eq!((&whole["max_output_tokens"], &whole["usage"]["output_tokens"]), (&json!(3), &json!(3)));
}

/// The conversation that goes on has the tokens that it would have if it were sent whole, and the same reply.
#[test]
fn a_response_goes_on_from_an_earlier_one() {
    let world = World::new();
    for stream in [false, true] {
        let plain = json!({"tools": [], "max_output_tokens": 12, "seed": 7});
        let with = |more: Value| {
            let mut body = plain.clone();
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let first = ask(&world, with(json!({"stream": stream})));
        let first =
            if stream { first.as_array().unwrap().last().unwrap()["response"].clone() } else { first };
        let second = ask(&world, with(json!({"input": "And then?", "previous_response_id": first["id"]})));
        let text = &first["output"][0]["content"][0]["text"];
        let input = json!([
            {"role": "user", "content": "Hello"}, {"role": "assistant", "content": text},
            {"role": "user", "content": "And then?"},
        ]);
        let whole = ask(&world, with(json!({"input": input})));
        assert_eq!(second["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
        assert_eq!(second["output"][0]["content"], whole["output"][0]["content"]);
        assert_eq!(second["previous_response_id"], first["id"]);
    }
}

#[test]
fn kept_responses_can_be_read_and_forgotten() {
    let world = World::scripted("Hi.");
    let kept = ask(&world, json!({}));
    let path = format!("{RESPONSES}/{}", kept["id"].as_str().unwrap());
    assert_eq!(get(world.address, &path).json(), kept);
    assert_eq!(request(world.address, "DELETE", &path, &[], &[]).json()["deleted"], true);
    assert_eq!(get(world.address, &path).status, 404);
    let gone = json!({"input": "x", "previous_response_id": kept["id"]});
    let answer = post(world.address, RESPONSES, &gone);
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (404, &json!("previous_response_id")));
    let not_kept = ask(&world, json!({"store": false}));
    assert_eq!(get(world.address, &format!("{RESPONSES}/{}", not_kept["id"].as_str().unwrap())).status, 404);
}
