//! The served demo model: tool calls as a stream, and drafted replies equal to undrafted ones.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::binary::{Serving, demo_prompts};
use crate::client::{get, post};

const CHAT: &str = "/v1/chat/completions";

/// Clients at once.
const CLIENTS: usize = 8;

fn body(prompt: &Value, more: Value) -> Value {
    let mut body = json!({"temperature": 0, "seed": 11, "max_tokens": 64, "return_token_ids": true});
    for source in [prompt, &more] {
        body.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    }
    body
}

fn token_ids(address: SocketAddr, body: &Value) -> Value {
    let answer = post(address, CHAT, body).json();
    assert!(answer["choices"][0]["token_ids"].is_array(), "{answer}");
    answer["choices"][0]["token_ids"].clone()
}

/// Asks all of `bodies`, [`CLIENTS`] at a time, and returns their token ids in order.
fn ask_together(address: SocketAddr, bodies: &[Value]) -> Vec<Value> {
    let next = AtomicUsize::new(0);
    let ask = || {
        let mut replies = Vec::new();
        while let Some((index, body)) = Some(next.fetch_add(1, Ordering::SeqCst))
            .and_then(|index| bodies.get(index).map(|body| (index, body)))
        {
            replies.push((index, token_ids(address, body)));
        }
        replies
    };
    let mut replies: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    replies.sort_by_key(|(index, _)| *index);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

#[test]
fn a_tool_call_streams_with_its_marks() {
    let server = Serving::start(&["--parallel", "1"]);
    let prompts = demo_prompts();
    let prompt = prompts.iter().find(|prompt| prompt["id"] == "demo-4").expect("a prompt with tools");
    let answer = post(server.address, CHAT, &body(prompt, json!({"stream": true})));
    assert_eq!(answer.status, 200);
    let chunks = answer.chunks();
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert!(text.starts_with("<|tool_call_start|>[multiply("), "{text}");
    assert!(text.ends_with(")]<|tool_call_end|>"), "{text}");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[test]
fn drafted_replies_equal_undrafted_ones_alone_and_together() {
    let server = Serving::start(&["--parallel", "8"]);
    let prompts = demo_prompts();
    for temperature in [0.0, 0.8] {
        let bodies = |draft: bool| -> Vec<_> {
            let more = json!({"draft": draft, "temperature": temperature});
            prompts.iter().map(|prompt| body(prompt, more.clone())).collect()
        };
        let drafted = ask_together(server.address, &bodies(true));
        let plain = ask_together(server.address, &bodies(false));
        for (index, prompt) in prompts.iter().enumerate() {
            assert_eq!(drafted[index], plain[index], "{} at temperature {temperature}", prompt["id"]);
        }
        for (index, body) in bodies(true).iter().enumerate().step_by(6) {
            assert_eq!(token_ids(server.address, body), plain[index], "{} alone", prompts[index]["id"]);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_terminated_server_ends_cleanly() {
    let server = Serving::start(&["--parallel", "1", "--context", "512"]);
    let models = get(server.address, "/v1/models").json();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["max_model_len"]),
        (&json!("demo"), &json!(512))
    );
    assert!(server.terminate().success());
}
