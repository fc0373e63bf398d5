//! A client that leaves frees its lane within a second, and the next reply is as if it had never been.

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{open, post};
use crate::world::{World, chat};

const CHAT: &str = "/v1/chat/completions";

fn leaves(more: Value, reads: usize) {
    let world = World::paced(Duration::from_millis(20));
    let ask = || post(world.address, CHAT, &chat("Hello", json!({"seed": 3}))).json()["choices"].clone();
    let alone = ask();
    let mut long = chat("Something else", json!({"max_tokens": 400}));
    long.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut stream = open(world.address, "POST", CHAT, &[], long.to_string().as_bytes());
    world.wait(|status| status.running == 1);
    stream.read_exact(&mut vec![0; reads]).expect("the reply has begun");
    drop(stream);
    world.wait(|status| status.running == 0 && status.pages_in_use == 0);
    assert_eq!(ask(), alone);
}

/// am17an/llama.cpp#20.
#[test]
fn leaving_a_stream_frees_its_lane() {
    leaves(json!({"stream": true}), 300);
    leaves(json!({"stream": true, "draft": false}), 300);
}

/// ATOM#1441.
#[test]
fn leaving_while_waiting_for_a_whole_reply_frees_its_lane() {
    leaves(json!({}), 0);
    leaves(json!({"temperature": 0.8}), 0);
}
