//! A server that is told to stop finishes what runs and takes nothing new.

use std::time::Duration;

use serde_json::json;

use crate::client::{get, open, post, read_answer};
use crate::world::{World, chat};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn running_replies_finish_and_new_ones_are_refused() {
    let mut world = World::paced(Duration::from_millis(20));
    let body = |stream: bool| chat("Hello", json!({"max_tokens": 60, "draft": false, "stream": stream}));
    let mut running = [false, true]
        .map(|stream| open(world.address, "POST", CHAT, &[], body(stream).to_string().as_bytes()));
    world.wait(|status| status.running == 2);
    world.stop();
    std::thread::sleep(Duration::from_millis(100));
    let health = get(world.address, "/health");
    assert_eq!((health.status, &health.json()["status"]), (503, &json!("draining")));
    let refused = post(world.address, CHAT, &body(false));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("stopping")));
    let [whole, streamed] = running.each_mut().map(read_answer);
    assert_eq!(whole.json()["choices"][0]["finish_reason"], "length");
    assert_eq!(streamed.chunks().last().unwrap()["choices"][0]["finish_reason"], "length");
    world.join().expect("a clean end");
}

#[test]
fn an_idle_server_stops_at_once() {
    let mut world = World::new();
    assert_eq!(get(world.address, "/health").status, 200);
    world.stop();
    let begin = std::time::Instant::now();
    world.join().expect("a clean end");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}
