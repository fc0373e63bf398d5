//! What users of other servers have met: each test names its source.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, get, open, post, read_answer, request};
use crate::world::{CONTEXT, MAX_QUEUE, PARALLEL, World, chat};

const CHAT: &str = "/v1/chat/completions";

fn text(chunks: &[Value]) -> String {
    let piece = |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().unwrap_or("").to_owned();
    chunks.iter().map(piece).collect()
}

/// llama.cpp#21831: the second turn keeps the first. Its prompt begins with the first one's tokens.
#[test]
fn a_second_turn_has_the_first_in_its_prompt() {
    let world = World::scripted("ABRACADABRA");
    let first = json!({"role": "user", "content": "My word is ABRACADABRA"});
    let reply = post(world.address, CHAT, &json!({"messages": [first], "temperature": 0})).json();
    let answer = reply["choices"][0]["message"].clone();
    let messages = json!([first, answer, {"role": "user", "content": "What is my word?"}]);
    let tokens = |messages: &Value| {
        let answer = post(world.address, "/tokenize", &json!({"messages": messages})).json();
        answer["tokens"].as_array().unwrap().clone()
    };
    let (one, two) = (tokens(&json!([first])), tokens(&messages));
    assert!(two.starts_with(&one) && two.len() > one.len() + 4);
    let second = post(world.address, CHAT, &json!({"messages": messages, "temperature": 0})).json();
    assert_eq!(second["choices"][0]["message"]["content"], "ABRACADABRA");
    assert_eq!(second["usage"]["prompt_tokens"], two.len());
}

/// qwisp#134: a stream goes on past characters that tokens split.
#[test]
fn a_stream_never_stops_at_a_split_character() {
    let reply = "日本語の🙂文字👩‍👩‍👧と絵文字🇯🇵。".repeat(8);
    let world = World::scripted(&reply);
    for draft in [true, false] {
        let more = json!({"stream": true, "max_tokens": 450, "draft": draft});
        let chunks = post(world.address, CHAT, &chat("Hello", more)).chunks();
        let finish = &chunks.last().unwrap()["choices"][0]["finish_reason"];
        let found = text(&chunks);
        assert!(!found.contains('\u{fffd}') || finish == "length", "{found}");
        let whole = found.trim_end_matches('\u{fffd}');
        assert!(reply.starts_with(whole) && whole.chars().count() > 60, "{found}");
    }
}

/// SwiftLM#126, mlx-knife#68: a stop string across tokens is seen, and nothing of it is told; in a drafted window too.
#[test]
fn a_stop_string_across_tokens_is_cut_off() {
    let world = World::scripted("The quick brown fox jumps over the lazy dog.");
    for (draft, stream) in [(true, true), (true, false), (false, true), (false, false)] {
        let more = json!({"stop": ["own fox"], "draft": draft, "stream": stream, "max_tokens": 100});
        let mut body = chat("Hello", more);
        body["prompt"] = json!("Once");
        let chat = post(world.address, CHAT, &body);
        let completion = post(world.address, "/v1/completions", &body);
        if stream {
            assert_eq!(text(&chat.chunks()), "The quick br");
            let pieces = completion.chunks();
            let joined: String =
                pieces.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
            assert_eq!(joined, "The quick br");
        } else {
            assert_eq!(chat.json()["choices"][0]["message"]["content"], "The quick br");
            assert_eq!(completion.json()["choices"][0]["text"], "The quick br");
        }
    }
}

/// imp#712, llama.cpp#9195: invalid UTF-8 is a 400 in the usual envelope, on every endpoint.
#[test]
fn invalid_utf8_is_the_callers_fault_everywhere() {
    let world = World::new();
    let body = b"{\"model\":\"fake\",\"messages\":[{\"role\":\"user\",\"content\":\"\xf0\x9f\"}]}";
    for path in [
        CHAT,
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/tokenize",
        "/detokenize",
    ] {
        let answer = request(world.address, "POST", path, &[], body);
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("UTF-8"), "{path}");
    }
    assert_eq!(post(world.address, CHAT, &chat("Hello", json!({}))).status, 200);
}

/// lmstudio#2339, mlx-serve#72: a prompt over the window is refused before a stream opens, on every endpoint, and the
/// next request works.
#[test]
fn a_prompt_over_the_window_is_refused_everywhere() {
    let world = World::new();
    let long = "word ".repeat(4 * CONTEXT);
    let bodies = [
        (CHAT, chat(&long, json!({}))),
        ("/v1/completions", json!({"prompt": long})),
        ("/v1/responses", json!({"input": long})),
        ("/v1/messages", json!({"max_tokens": 5, "messages": [{"role": "user", "content": long}]})),
    ];
    for (path, mut body) in bodies {
        for stream in [false, true] {
            body["stream"] = json!(stream);
            let answer = post(world.address, path, &body);
            assert_eq!(answer.status, 400, "{path}");
            let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(&format!("context is {CONTEXT}")), "{message}");
        }
    }
    assert_eq!(post(world.address, CHAT, &chat("Hello", json!({}))).status, 200);
}

/// ray#65193: a full queue is 429 with a time to wait, never 503, and health stays well.
#[test]
fn a_full_queue_is_429_on_every_endpoint() {
    let world = World::paced(Duration::from_millis(20));
    let body = chat("Hello", json!({"max_tokens": 60, "draft": false})).to_string();
    let _held: Vec<_> =
        (0..PARALLEL + MAX_QUEUE).map(|_| open(world.address, "POST", CHAT, &[], body.as_bytes())).collect();
    world.wait(|status| status.waiting == MAX_QUEUE);
    let bodies = [
        (CHAT, chat("Hi", json!({}))),
        ("/v1/completions", json!({"prompt": "Hi"})),
        ("/v1/responses", json!({"input": "Hi"})),
        ("/v1/messages", json!({"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]})),
    ];
    for (path, body) in bodies {
        let answer: Answer = post(world.address, path, &body);
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")), "{path}");
    }
    assert_eq!(get(world.address, "/health").status, 200);
}

/// A client that does not read holds up nobody else: what it has not read waits in memory, which its token limit
/// bounds.
#[test]
fn a_client_that_does_not_read_slows_no_other() {
    let world = World::paced(Duration::from_millis(2));
    let time = || {
        let begin = Instant::now();
        let body = chat("Hello", json!({"max_tokens": 60, "draft": false}));
        assert_eq!(post(world.address, CHAT, &body).status, 200);
        begin.elapsed()
    };
    let alone = time();
    let more = json!({"stream": true, "max_tokens": 450, "draft": false});
    let body = chat("Hello", more).to_string();
    let mut idle: Vec<_> =
        (0..PARALLEL - 1).map(|_| open(world.address, "POST", CHAT, &[], body.as_bytes())).collect();
    world.wait(|status| status.running == PARALLEL - 1);
    let beside = time();
    assert!(beside < 3 * alone + Duration::from_millis(500), "{alone:?} alone, {beside:?} beside");
    // What they did not read is all there.
    assert_eq!(read_answer(&mut idle[0]).chunks().last().unwrap()["choices"][0]["finish_reason"], "length");
}

/// ATOM#1441: finished requests leave nothing behind. In a process of its own, where nothing else takes memory.
#[test]
#[cfg(target_os = "linux")]
fn a_thousand_requests_leave_memory_flat() {
    let own = std::env::current_exe().expect("the test's own path");
    let arguments = ["--ignored", "--exact", "robust::memory_of_a_thousand_requests"];
    let output = std::process::Command::new(own).args(arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the test above"]
#[cfg(target_os = "linux")]
fn memory_of_a_thousand_requests() {
    let world = World::new();
    let ask = |index: usize| {
        let body = chat(&format!("Hello {}", index % 50), json!({"max_tokens": 8}));
        assert_eq!(post(world.address, CHAT, &body).status, 200);
    };
    (0..1000).for_each(ask);
    let before = resident_bytes();
    (0..1000).for_each(ask);
    let grown = resident_bytes().saturating_sub(before);
    // A kilobyte a request, which is less than any reply that stays behind.
    assert!(grown < 1 << 20, "{grown} bytes more");
    world.wait(|status| status.running == 0 && status.pages_in_use == 0);
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    resident.expect("a number") * 4096
}
