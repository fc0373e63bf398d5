//! What users of other servers have reported, tried on the real binary with the demo model: each test names its source.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::binary::{Serving, demo_prompts};
use crate::client::{get, open, post, read_answer};

const CHAT: &str = "/v1/chat/completions";

const COMPLETIONS: &str = "/v1/completions";

/// Tokens of a page.
const PAGE: usize = 256;

/// Starts a server that drafts every round, with flags of its own.
fn drafting(arguments: &[&str]) -> Serving {
    Serving::start(&[&["--force-drafts"], arguments].concat())
}

/// So many ordinary tokens; another seed gives others.
fn tokens(count: usize, seed: u32) -> Vec<u32> {
    let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(seed), next).map(|state| 1000 + (state >> 8) % 6000).take(count).collect()
}

/// A greedy request with its token ids.
fn body(more: Value) -> Value {
    let mut body = json!({"temperature": 0, "seed": 1, "max_tokens": 48, "return_token_ids": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A reply that must come.
#[track_caller]
fn reply(address: SocketAddr, path: &str, more: Value) -> Value {
    let answer = post(address, path, &body(more));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn ids(reply: &Value) -> &Value {
    let ids = &reply["choices"][0]["token_ids"];
    assert!(ids.is_array(), "{reply}");
    ids
}

fn count(reply: &Value, field: &str) -> u64 {
    reply["forerunner"][field].as_u64().unwrap_or_else(|| panic!("no {field} in {reply}"))
}

/// Asks all at once.
fn together(address: SocketAddr, bodies: &[Value]) -> Vec<Value> {
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            bodies.iter().map(|body| scope.spawn(|| reply(address, CHAT, body.clone()))).collect();
        asked.into_iter().map(|thread| thread.join().expect("a reply")).collect()
    })
}

/// Demo prompts without tools, as requests.
fn questions(number: usize) -> Vec<Value> {
    demo_prompts().into_iter().filter(|prompt| prompt.get("tools").is_none()).take(number).collect()
}

/// The share of all their drafts that were accepted.
fn acceptance(replies: &[Value]) -> f64 {
    let sum = |field: &str| replies.iter().map(|reply| count(reply, field)).sum::<u64>();
    sum("draft_n_accepted") as f64 / sum("draft_n").max(1) as f64
}

/// llama.cpp#27117: drafts are accepted as often among 4, 8 and 16 streams as alone.
#[test]
fn acceptance_does_not_depend_on_the_number_of_streams() {
    let server = drafting(&["--parallel", "16"]);
    let bodies = questions(16);
    let alone: Vec<Value> = bodies.iter().map(|body| reply(server.address, CHAT, body.clone())).collect();
    for streams in [4, 8, 16] {
        let beside = together(server.address, &bodies[..streams]);
        let (one, many) = (acceptance(&alone[..streams]), acceptance(&beside));
        println!("{streams} streams: {one:.3} alone, {many:.3} together");
        assert!(one > 0.1 && (one - many).abs() < 0.1, "{one} alone, {many} among {streams}");
        assert!(alone.iter().zip(&beside).all(|(alone, beside)| ids(alone) == ids(beside)));
    }
}

/// AEON-7 repo #6: drafts late in a block are accepted now and then in a long context too.
#[test]
fn late_positions_are_accepted_in_long_contexts() {
    let server = drafting(&["--parallel", "1"]);
    for words in [1000, 4000] {
        let system = json!({"role": "system", "content": "goat ".repeat(words)});
        let mut accepted = [0; 6];
        for question in questions(12) {
            let asked = json!({"messages": [system, question["messages"][0]], "max_tokens": 64});
            let reply = reply(server.address, CHAT, asked);
            assert!(reply["usage"]["prompt_tokens"].as_u64() >= Some(words as u64));
            let positions = reply["forerunner"]["draft_by_position"].as_array().expect("positions");
            for (sum, position) in accepted.iter_mut().zip(positions) {
                *sum += position[1].as_u64().expect("a count");
            }
        }
        println!("{words} words: accepted by position {accepted:?}");
        assert!(accepted.iter().all(|accepted| *accepted > 0), "{words} words: {accepted:?}");
    }
}

/// Bonsai-demo#105: deep in the context a reply says that it was drafted, or why it was not.
#[test]
fn a_reply_deep_in_the_context_says_how_it_was_drafted() {
    says_how_it_was_drafted_near_the_end_of(8192);
}

/// The report's own length: minutes without optimization, so it is asked for by name.
#[test]
#[ignore = "takes minutes: cargo test --release --test cli -- --ignored"]
fn a_reply_past_32000_tokens_says_how_it_was_drafted() {
    says_how_it_was_drafted_near_the_end_of(32_768);
}

fn says_how_it_was_drafted_near_the_end_of(context: usize) {
    let server = Serving::start(&["--parallel", "1", "--context", &context.to_string()]);
    let question = body(json!({"prompt": tokens(context - 268, 3), "ignore_eos": true})).to_string();
    let mut asked = open(server.address, "POST", COMPLETIONS, &[], question.as_bytes());
    // A busy machine reads such a prompt for minutes.
    asked.set_read_timeout(Some(Duration::from_secs(900))).expect("a timeout");
    let deep = read_answer(&mut asked).json();
    let is_told = count(&deep, "draft_n") > 0 || deep["forerunner"]["draft_off_reason"].is_string();
    assert!(is_told, "{}", deep["forerunner"]);
    // Beyond the window, the numbers are told.
    let beyond = post(server.address, COMPLETIONS, &body(json!({"prompt": tokens(context + 232, 3)})));
    assert_eq!((beyond.status, &beyond.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
}

/// mlx-dspark#19: a long stream goes on to its end, and the server answers others all the while. A read that waits for
/// as long as that report's fails.
#[test]
fn a_long_stream_never_stalls() {
    let server = drafting(&["--parallel", "1", "--context", "8192"]);
    let more = json!({"prompt": "The goat", "max_tokens": 4000, "ignore_eos": true, "stream": true});
    let stream = open(server.address, "POST", COMPLETIONS, &[], body(more).to_string().as_bytes());
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let (mut chunks, mut tokens, mut asked) = (0, 0, 0);
    for line in BufReader::new(stream).lines() {
        let line = line.expect("the next piece in time");
        let Some(chunk) = line.strip_prefix("data: {") else { continue };
        let chunk: Value = serde_json::from_str(&format!("{{{chunk}")).expect("JSON");
        tokens += chunk["choices"][0]["token_ids"].as_array().map_or(0, Vec::len);
        chunks += 1;
        if chunks % 50 == 0 && tokens < 4000 {
            assert_eq!(get(server.address, "/health").status, 200);
            assert_eq!(get(server.address, "/metrics").status, 200);
            asked += 1;
        }
    }
    assert_eq!(tokens, 4000);
    assert!(asked > 3, "{asked} times among {chunks} chunks");
}

/// sglang#26450: prompts of every length around a page are answered.
#[test]
fn prompts_around_a_page_are_answered() {
    let server = drafting(&["--parallel", "1"]);
    for length in [1, 2, 29, PAGE - 1, PAGE, PAGE + 1] {
        let more = |draft: bool| json!({"prompt": tokens(length, 4), "draft": draft, "ignore_eos": true});
        let drafted = reply(server.address, COMPLETIONS, more(true));
        assert_eq!(drafted["usage"]["prompt_tokens"], length);
        assert_eq!(ids(&drafted).as_array().map(Vec::len), Some(48));
        assert_eq!(ids(&drafted), ids(&reply(server.address, COMPLETIONS, more(false))), "{length} tokens");
    }
}

/// mlx-serve#72: a prompt of 250,000 tokens is refused, and the next request is answered as before.
#[test]
fn an_oversized_prompt_is_refused_and_the_next_one_answered() {
    let server = drafting(&["--parallel", "1"]);
    let question = questions(1).remove(0);
    let before = reply(server.address, CHAT, question.clone());
    let huge = json!({"messages": [{"role": "user", "content": "goat ".repeat(250_000)}]});
    for (path, body) in [(CHAT, body(huge)), (COMPLETIONS, body(json!({"prompt": tokens(250_000, 5)})))] {
        let answer = post(server.address, path, &body);
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (400, &json!("context_length_exceeded")), "{path}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains("32768")), "{error}");
    }
    assert_eq!(ids(&reply(server.address, CHAT, question)), ids(&before));
}
