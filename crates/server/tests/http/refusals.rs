//! Every way to be refused: its status, and what the message says.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Answer, get, open, post, read_answer, request};
use crate::world::{CONTEXT, MAX_QUEUE, PARALLEL, World, chat};

const CHAT: &str = "/v1/chat/completions";

#[track_caller]
fn check(answer: &Answer, status: u16, fragment: &str) {
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{body}");
    let error = answer.json()["error"].clone();
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(fragment), "{fragment:?} is not in {message:?}");
    let keys: Vec<_> = error.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(["message", "type", "param", "code"].iter().all(|key| keys.contains(key)), "{keys:?}");
}

#[test]
fn a_wrong_body_is_the_callers_fault_and_the_field_is_named() {
    let world = World::new();
    let bodies: [(&[u8], &str); 6] = [
        (b"", "not JSON"),
        (b"{\"messages\": [", "not JSON"),
        (b"null", "not an object"),
        (b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xf0\x9f\"}]}", "not UTF-8"),
        (b"{\"messages\": \"hi\"}", "messages"),
        (b"{}", "messages is missing"),
    ];
    for (body, fragment) in bodies {
        check(&request(world.address, "POST", CHAT, &[], body), 400, fragment);
    }
}

#[test]
fn a_wrong_field_is_refused_before_a_stream_opens() {
    let world = World::new();
    let fields = [
        (json!({"messages": [3]}), "messages[0]"),
        (json!({"messages": [{"content": "hi"}]}), "messages[0].role"),
        (json!({"tools": "add"}), "tools"),
        (json!({"temperature": "warm"}), "temperature"),
        (json!({"temperature": -1}), "temperature is -1"),
        (json!({"top_p": 0}), "top_p is 0"),
        (json!({"min_p": 2}), "min_p is 2"),
        (json!({"top_k": -5}), "top_k is -5"),
        (json!({"repetition_penalty": 0}), "repetition_penalty is 0"),
        (json!({"presence_penalty": 3}), "presence_penalty is 3"),
        (json!({"frequency_penalty": -3}), "frequency_penalty is -3"),
        (json!({"logit_bias": {"99999": 1}}), "logit_bias is token 99999"),
        (json!({"logit_bias": {"1": 101}}), "logit_bias is 101"),
        (json!({"max_tokens": 0}), "max_tokens is 0"),
        (json!({"max_tokens": "many"}), "max_tokens"),
        (json!({"seed": 0.5}), "seed is 0.5"),
        (json!({"stop": [""]}), "stop"),
        (json!({"stop": vec!["x"; 17]}), "stop has 17 strings"),
        (json!({"n": PARALLEL + 1}), "n is 9; accepted: 1 to 8"),
        (json!({"top_logprobs": 2}), "top_logprobs is 2"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (json!({"stream": "yes"}), "stream"),
    ];
    for (more, fragment) in fields {
        for stream in [false, true] {
            let mut body = chat("Hello", json!({"stream": stream}));
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            check(&post(world.address, CHAT, &body), 400, fragment);
        }
    }
    check(&post(world.address, "/v1/completions", &json!({"prompt": [1, 99999]})), 400, "token 99999");
    check(&post(world.address, "/v1/completions", &json!({"prompt": []})), 400, "prompt is empty");
    check(&post(world.address, "/v1/completions", &json!({})), 400, "prompt is null");
}

#[test]
fn an_endpoint_of_one_reply_refuses_more() {
    let world = World::new();
    let body = |n: Value| json!({"n": n, "input": "Hi", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]});
    for path in ["/v1/responses", "/v1/messages", "/v1/messages/count_tokens"] {
        let answer = post(world.address, path, &body(json!(2)));
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer.status, 400, "{path}");
        assert!(message.starts_with("n is 2; accepted: 1, as"), "{message}");
        assert_eq!(post(world.address, path, &body(json!(1))).status, 200, "{path}");
    }
}

#[test]
fn a_prompt_over_the_context_is_refused_with_both_numbers() {
    let world = World::new();
    for stream in [false, true] {
        let body = json!({"prompt": vec![5; CONTEXT + 1], "stream": stream, "max_tokens": 1});
        let answer = post(world.address, "/v1/completions", &body);
        check(&answer, 400, &CONTEXT.to_string());
        check(&answer, 400, &(CONTEXT + 1).to_string());
        assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
    }
    let last = json!({"prompt": vec![5; CONTEXT - 1], "max_tokens": 1});
    assert_eq!(post(world.address, "/v1/completions", &last).status, 200);
}

#[test]
fn unknown_things_are_not_found() {
    let world = World::new();
    check(&get(world.address, "/v1/unknown"), 404, "/v1/unknown");
    check(&post(world.address, CHAT, &chat("Hello", json!({"model": "gpt"}))), 404, "\"gpt\"");
    let answer = get(world.address, CHAT);
    check(&answer, 405, "does not take GET");
    assert_eq!(answer.header("allow"), Some("POST"));
    check(&post(world.address, "/health", &json!({})), 405, "does not take POST");
}

#[test]
fn a_body_over_the_limit_is_too_large() {
    let world = World::new();
    let body = vec![b' '; (8 << 20) + 1];
    check(&request(world.address, "POST", CHAT, &[], &body), 413, "8388608 bytes");
    assert_eq!(post(world.address, CHAT, &chat("Hello", json!({}))).status, 200);
}

#[test]
fn a_body_that_says_to_be_something_else_is_refused() {
    let world = World::new();
    let body = chat("Hello", json!({"max_tokens": 2})).to_string();
    let ask = |kind: &str| request(world.address, "POST", CHAT, &[("Content-Type", kind)], body.as_bytes());
    for accepted in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"] {
        assert_eq!(ask(accepted).status, 200, "{accepted}");
    }
    for refused in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", ""]
    {
        check(&ask(refused), 415, "accepted: application/json");
    }
}

#[test]
fn a_full_queue_is_429_with_a_time_to_wait_and_drains() {
    let world = World::paced(Duration::from_millis(20));
    let body = chat("Hello", json!({"max_tokens": 40, "draft": false}));
    let mut held: Vec<_> = (0..PARALLEL + MAX_QUEUE)
        .map(|_| open(world.address, "POST", CHAT, &[], body.to_string().as_bytes()))
        .collect();
    world.wait(|status| status.running == PARALLEL && status.waiting == MAX_QUEUE);
    let refused = post(world.address, CHAT, &body);
    check(&refused, 429, "waiting");
    assert_eq!(refused.header("retry-after"), Some("1"));
    for stream in &mut held {
        assert_eq!(read_answer(stream).status, 200);
    }
    assert_eq!(post(world.address, CHAT, &body).status, 200);
}

#[test]
fn a_request_id_comes_back_and_is_made_up_when_missing() {
    let world = World::new();
    let answer = request(world.address, "GET", "/health", &[("x-request-id", "abc-1")], &[]);
    assert_eq!(answer.header("x-request-id"), Some("abc-1"));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = request(world.address, "GET", "/health", &[("traceparent", trace)], &[]);
    assert_eq!(traced.header("traceparent"), Some(trace));
    let refused = post(world.address, CHAT, &Value::Null);
    assert!(refused.header("x-request-id").is_some_and(|id| id.starts_with("req-")));
}
