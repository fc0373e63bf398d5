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

/// What must not depend on drafts, and how many were verified.
#[derive(Debug)]
struct Asked {
    token_ids: Value,
    /// With three alternatives a token, as they are written.
    logprobs: Value,
    drafts: u64,
}

fn ask(address: SocketAddr, body: &Value) -> Asked {
    let answer = post(address, CHAT, body).json();
    let token_ids = answer["choices"][0]["token_ids"].clone();
    assert!(token_ids.is_array(), "{answer}");
    let logprobs = answer["choices"][0]["logprobs"]["content"].clone();
    Asked { token_ids, logprobs, drafts: answer["forerunner"]["draft_n"].as_u64().expect("a count") }
}

/// Asks all of `bodies`, [`CLIENTS`] at a time, and returns their replies in order.
fn ask_together(address: SocketAddr, bodies: &[Value]) -> Vec<Asked> {
    let next = AtomicUsize::new(0);
    let client = || {
        let indices = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::SeqCst)));
        let own = indices.take_while(|index| *index < bodies.len());
        own.map(|index| (index, ask(address, &bodies[index]))).collect::<Vec<_>>()
    };
    let mut replies: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    replies.sort_by_key(|(index, _)| *index);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

#[test]
fn a_tool_call_streams() {
    let server = Serving::start(&["--parallel", "1"]);
    let prompts = demo_prompts();
    let prompt = prompts.iter().find(|prompt| prompt["id"] == "demo-4").expect("a prompt with tools");
    let answer = post(server.address, CHAT, &body(prompt, json!({"stream": true})));
    assert_eq!(answer.status, 200);
    let chunks = answer.chunks();
    let calls =
        || chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].as_object());
    let first = calls().next().expect("a tool call");
    assert_eq!((&first["index"], &first["function"]["name"]), (&json!(0), &json!("multiply")));
    let arguments: String = calls().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    let arguments: Value = serde_json::from_str(&arguments).expect("the arguments are JSON");
    assert_eq!(arguments, json!({"a": 83, "b": 84}));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

/// mlx-lm#1423, llamadart#344, mistral.rs#2306, 1Cat-vLLM#656.
#[test]
fn drafted_replies_equal_undrafted_ones_alone_and_together() {
    let server = Serving::start(&["--parallel", "8", "--force-drafts"]);
    let prompts = demo_prompts();
    for temperature in [0.0, 0.8] {
        let bodies = |draft: bool| -> Vec<_> {
            let more =
                json!({"draft": draft, "temperature": temperature, "logprobs": true, "top_logprobs": 3});
            prompts.iter().map(|prompt| body(prompt, more.clone())).collect()
        };
        let drafted = ask_together(server.address, &bodies(true));
        let plain = ask_together(server.address, &bodies(false));
        // A reply that ends with its first token has no window to draft.
        let is_drafted =
            |reply: &Asked| reply.drafts > 0 || reply.token_ids.as_array().is_some_and(|ids| ids.len() < 2);
        assert!(drafted.iter().all(is_drafted) && plain.iter().all(|reply| reply.drafts == 0));
        for (index, prompt) in prompts.iter().enumerate() {
            let (drafted, plain) = (&drafted[index], &plain[index]);
            let label = format!("{} at temperature {temperature}", prompt["id"]);
            assert_eq!(drafted.token_ids, plain.token_ids, "{label}");
            assert_eq!(drafted.logprobs, plain.logprobs, "{label}");
            assert!(plain.logprobs.is_array(), "{label}");
        }
        for (index, body) in bodies(true).iter().enumerate().step_by(6) {
            let alone = ask(server.address, body);
            assert_eq!(alone.token_ids, plain[index].token_ids, "{} alone", prompts[index]["id"]);
            assert_eq!(alone.logprobs, plain[index].logprobs, "{} alone", prompts[index]["id"]);
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
