//! Inputs that users of other servers have reported, as the scripted model's replies: each test names its source.

use serde_json::{Value, json};

use crate::client::{get, open, post, read_answer, request};
use crate::world::{World, chat};

const CHAT: &str = "/v1/chat/completions";

/// Any name is a tool here.
fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "run", "parameters": {}}}])
}

/// A reply's message and finish reason, whole.
fn whole(world: &World, more: Value) -> (Value, Value) {
    let answer = post(world.address, CHAT, &chat("Hello", more));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let choice = answer.json()["choices"][0].clone();
    (choice["message"].clone(), choice["finish_reason"].clone())
}

/// The same as a stream: content, calls as names and arguments, finish reason.
fn streamed(world: &World, mut more: Value) -> (String, Vec<(String, String)>, Value) {
    more["stream"] = json!(true);
    let (mut content, mut calls, mut finish) = (String::new(), Vec::<(String, String)>::new(), Value::Null);
    for chunk in post(world.address, CHAT, &chat("Hello", more)).chunks() {
        let (delta, reason) = (&chunk["choices"][0]["delta"], &chunk["choices"][0]["finish_reason"]);
        content += delta["content"].as_str().unwrap_or("");
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            if let Some(name) = call["function"]["name"].as_str() {
                calls.push((name.to_owned(), String::new()));
            }
            calls.last_mut().expect("a name first").1 +=
                call["function"]["arguments"].as_str().expect("a piece");
        }
        if !reason.is_null() {
            finish = reason.clone();
        }
    }
    (content, calls, finish)
}

/// vllm#48171, mlxcel#1306, cookbook#72: what models write as calls arrives as calls, with the values that were meant.
/// The parser's own tests have the same texts at every cut.
#[test]
fn reported_calls_arrive_as_they_were_meant() {
    let marked = |list: &str| format!("<|tool_call_start|>{list}<|tool_call_end|>");
    let reports = [
        (marked(r#" [run(cmd='grep -F "]" a.log')]"#), json!({"cmd": "grep -F \"]\" a.log"})),
        (marked("[run(lon=-74.004)]"), json!({"lon": -74.004})),
        (marked("[run(wh=(800, 600))]"), json!({"wh": [800, 600]})),
        (marked("[run(from=1)]"), json!({"from": 1})),
        (marked(r"[run(p='C:\\dir\\')]"), json!({"p": r"C:\dir\"})),
        (marked("[run(t='a\nb')]"), json!({"t": "a\nb"})),
        (
            marked("[run(a='Rome', b=True, c=None, d=['x','y'])]"),
            json!({"a": "Rome", "b": true, "c": null, "d": ["x", "y"]}),
        ),
        (marked(r#"[{"name":"run","arguments":{"a":1}}]"#), json!({"a": 1})),
        (r#"<tool_call>{"name": "run", "arguments": {"a": 1}}</tool_call>"#.to_owned(), json!({"a": 1})),
    ];
    for (reply, arguments) in reports {
        let world = World::scripted(&reply);
        for draft in [true, false] {
            let more = json!({"tools": tools(), "max_tokens": 200, "draft": draft});
            let (message, finish) = whole(&world, more.clone());
            let function = &message["tool_calls"][0]["function"];
            let found: Value =
                serde_json::from_str(function["arguments"].as_str().expect("a call")).expect("JSON");
            assert_eq!(
                (&function["name"], &found, &finish),
                (&json!("run"), &arguments, &json!("tool_calls"))
            );
            let (content, calls, finish) = streamed(&world, more);
            assert_eq!((content.as_str(), calls.len(), finish), ("", 1, json!("tool_calls")), "{reply}");
            assert_eq!(json!(calls[0].1), function["arguments"]);
        }
    }
}

/// llama.cpp#23852: a thought is no content, however the model begins it.
#[test]
fn a_thought_is_told_apart_from_the_answer() {
    for reply in ["<think>Two and two.</think>Four.", "\n<think>\nTwo and two.\n</think>\n\nFour."] {
        let world = World::scripted(reply);
        for more in [json!({"max_tokens": 100}), json!({"max_tokens": 100, "tools": tools()})] {
            let (message, finish) = whole(&world, more);
            assert_eq!((&message["content"], &finish), (&json!("Four."), &json!("stop")));
            let thought = message["reasoning_content"].as_str().expect("a thought");
            assert_eq!(thought.trim(), "Two and two.");
        }
    }
}

/// BigMoeOnEdge#82: a switch that the template does not have is refused and not believed.
#[test]
fn a_switch_that_the_template_does_not_have_is_refused() {
    let world = World::new();
    for name in ["enable_thinking", "messages"] {
        let answer =
            post(world.address, CHAT, &chat("Hello", json!({"chat_template_kwargs": {name: false}})));
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["param"]), (400, &json!(format!("chat_template_kwargs.{name}"))));
    }
    let none = chat("Hello", json!({"chat_template_kwargs": {}}));
    assert_eq!(post(world.address, CHAT, &none).status, 200);
}

/// llama.cpp#14937: a token limit inside a character ends the reply there, with tools too.
#[test]
fn a_limit_inside_a_character_is_a_limit() {
    let reply = "日本🙂👩‍👩‍👧";
    let world = World::scripted(reply);
    let tokens = world.text.tokenizer.encode(reply, false).expect("tokens").len();
    for (limit, tools) in (1..tokens).flat_map(|limit| [(limit, json!([])), (limit, tools())]) {
        let more = json!({"max_tokens": limit, "tools": tools});
        let (message, finish) = whole(&world, more.clone());
        let content = message["content"].as_str().expect("content");
        assert_eq!(finish, "length");
        assert!(reply.starts_with(content.trim_end_matches('\u{fffd}')), "{limit}: {content}");
        assert_eq!(streamed(&world, more).0, content);
    }
}

/// mistral.rs#1057: a long query string is answered like any other.
#[test]
fn a_long_query_is_no_fault() {
    let world = World::new();
    let path = format!("/health?{}", "q".repeat(38 << 10));
    assert!([200, 414, 431].contains(&get(world.address, &path).status));
    let long = "x".repeat(38 << 10);
    assert_eq!(post(world.address, CHAT, &chat(&long, json!({}))).status, 400);
    assert_eq!(get(world.address, "/health").status, 200);
}

/// A path that is no text is the caller's fault, in the usual envelope.
#[test]
fn a_path_that_is_no_text_is_refused() {
    let world = World::new();
    for method in ["GET", "DELETE"] {
        let answer = request(world.address, method, "/v1/responses/%ff", &[], &[]);
        assert_eq!((answer.status, &answer.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    }
}

/// ninfer#111, am17an/llama.cpp#20: clients that leave in the queue, during a prompt or in the middle of a reply, streamed or
/// not, leave nothing behind: the gauges are at zero, and the next reply is as if they had never been.
#[test]
fn two_hundred_that_leave_at_random_leave_nothing_behind() {
    use std::io::Read;
    use std::time::Duration;
    let world = World::paced(Duration::from_millis(1));
    let ask = |draft: bool| {
        let body = chat("Hello", json!({"seed": 3, "draft": draft}));
        post(world.address, CHAT, &body).json()["choices"].clone()
    };
    let alone = [ask(true), ask(false)];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    let mut held = Vec::new();
    for index in 0..200 {
        let stream = below(2) == 0;
        let content = "word ".repeat(1 + below(90) as usize);
        let more =
            json!({"max_tokens": 20 + below(380), "stream": stream, "draft": below(3) > 0, "seed": index});
        let path = ["/v1/chat/completions", "/v1/completions"][below(2) as usize];
        let mut body = chat(&content, more);
        body["prompt"] = json!(content);
        let mut client = open(world.address, "POST", path, &[], body.to_string().as_bytes());
        // More than there are lanes, so that some leave while they wait, and some are refused.
        match below(4) {
            0 => drop(client),
            1 if stream => {
                // Whatever is there: a beginning, a refusal, or nothing yet.
                client.set_read_timeout(Some(Duration::from_millis(1 + below(30)))).expect("a timeout");
                let _ = client.read(&mut [0; 512]);
            }
            _ => held.push(client),
        }
        while held.len() as u64 > 4 + below(10) {
            held.remove(below(held.len() as u64) as usize);
        }
    }
    drop(held);
    world.wait(|status| status.running == 0 && status.waiting == 0 && status.pages_in_use == 0);
    assert_eq!([ask(true), ask(false)], alone);
    let load = get(world.address, "/v1/loads").json()["loads"][0].clone();
    assert_eq!((&load["num_total_reqs"], &load["num_used_tokens"]), (&json!(0), &json!(0)), "{load}");
    // One that stays to the end is answered to the end.
    let body = chat("Hello", json!({"max_tokens": 50})).to_string();
    assert_eq!(read_answer(&mut open(world.address, "POST", CHAT, &[], body.as_bytes())).status, 200);
}
