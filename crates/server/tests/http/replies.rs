//! What a reply looks like, whole and streamed, and that it is the target's own.

use forerunner_lanes::SamplingRule;
use serde_json::{Value, json};

use crate::client::{get, post};
use crate::world::{CONTEXT, World, chat};

const CHAT: &str = "/v1/chat/completions";

fn token_ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value["choices"][0]["token_ids"].clone()).expect("token ids")
}

/// A streamed reply put together again: its text and its tokens.
fn joined(chunks: &[Value]) -> (String, Vec<u32>) {
    let (mut text, mut tokens) = (String::new(), Vec::new());
    for chunk in chunks {
        let choice = &chunk["choices"][0];
        text.push_str(choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or(""));
        tokens.extend(
            choice["token_ids"].as_array().into_iter().flatten().map(|id| id.as_u64().unwrap() as u32),
        );
    }
    (text, tokens)
}

#[test]
fn a_whole_chat_reply_has_every_field_that_clients_read() {
    let world = World::new();
    let answer = post(world.address, CHAT, &chat("Hello", json!({"seed": 5})));
    assert_eq!(answer.status, 200);
    let reply = answer.json();
    assert!(reply["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(reply["object"], "chat.completion");
    assert_eq!(reply["model"], "fake");
    assert_eq!(reply["seed"], 5);
    assert!(reply["created"].as_u64().unwrap() > 1_700_000_000);
    let choice = &reply["choices"][0];
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("length")));
    assert_eq!(choice["message"]["role"], "assistant");
    let prompt = world.chat_prompt("Hello");
    let usage = json!({
        "prompt_tokens": prompt.len(), "completion_tokens": 24, "total_tokens": prompt.len() + 24,
        "prompt_tokens_details": {"cached_tokens": 0},
    });
    assert_eq!(reply["usage"], usage);
    let rule = SamplingRule { seed: 5, ..SamplingRule::default() };
    assert_eq!(token_ids(&reply), world.expected(&prompt, &rule, 24));
}

#[test]
fn statistics_say_how_it_was_drafted() {
    // Rounds take their time, so that drafting is worth it.
    let world = World::paced(std::time::Duration::from_millis(2));
    let reply = post(world.address, CHAT, &chat("Hello", json!({"max_tokens": 200}))).json();
    let block = &reply["forerunner"];
    assert!(block["draft_n"].as_u64().unwrap() > 0, "{block}");
    assert!(block["draft_n_accepted"].as_u64() <= block["draft_n"].as_u64(), "{block}");
    assert!(block["draft_rounds"].as_u64() <= block["rounds"].as_u64(), "{block}");
    assert!(block["tokens_per_round"].as_f64().unwrap() > 1.0, "{block}");
    assert_eq!(block["draft_off_reason"], Value::Null);
    assert!(block["prompt_ms"].as_f64().is_some() && block["decode_ms"].as_f64().is_some());
}

#[test]
fn an_undrafted_reply_has_the_same_tokens_and_says_why_it_was_not() {
    let world = World::new();
    for temperature in [0.0, 0.8] {
        let ask = |draft: bool| {
            let more = json!({"draft": draft, "temperature": temperature, "seed": 1, "max_tokens": 100});
            post(world.address, CHAT, &chat("Hello", more)).json()
        };
        let (drafted, plain) = (ask(true), ask(false));
        assert_eq!(token_ids(&drafted), token_ids(&plain));
        assert_eq!(drafted["choices"], plain["choices"]);
        assert_eq!(plain["forerunner"]["draft_n"], 0);
        assert!(plain["forerunner"]["draft_off_reason"].is_string(), "{plain}");
    }
}

#[test]
fn a_streamed_chat_reply_is_the_whole_one_in_pieces() {
    let world = World::new();
    let whole = post(world.address, CHAT, &chat("Hello", json!({}))).json();
    let answer = post(world.address, CHAT, &chat("Hello", json!({"stream": true})));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let chunks = answer.chunks();
    let (text, tokens) = joined(&chunks);
    assert_eq!(json!(text), whole["choices"][0]["message"]["content"]);
    assert_eq!(tokens, token_ids(&whole));
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!(last["choices"][0]["delta"], json!({}));
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    assert!(last["forerunner"]["rounds"].is_u64() && last["seed"].is_u64(), "{last}");
    assert!(others.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    let same = |field: &str| chunks.iter().all(|chunk| chunk[field] == chunks[0][field]);
    assert!(same("id") && same("created") && same("model"));
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    assert!(chunks.iter().all(|chunk| !chunk["choices"].as_array().unwrap().is_empty()));
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
}

/// apfel#100, ATOM#1711.
#[test]
fn usage_is_one_last_chunk_without_choices_and_only_when_asked_for() {
    let world = World::new();
    for path in [CHAT, "/v1/completions"] {
        let more = json!({"stream": true, "stream_options": {"include_usage": true}, "prompt": "Once"});
        let chunks = post(world.address, path, &chat("Hello", more)).chunks();
        let (last, others) = chunks.split_last().unwrap();
        assert_eq!(last["choices"], json!([]));
        assert_eq!(last["usage"]["completion_tokens"], 24);
        assert!(others.iter().all(|chunk| chunk.get("usage").is_none_or(Value::is_null)));
        assert!(others.iter().all(|chunk| chunk["choices"].as_array().unwrap().len() == 1));
    }
}

#[test]
fn a_completion_continues_text_or_tokens() {
    let world = World::new();
    let prompt = world.text.tokenizer.encode_prompt("Once upon").unwrap();
    let expected = world.expected(&prompt, &SamplingRule::default(), 16);
    for given in [json!("Once upon"), json!(prompt), json!([prompt])] {
        let mut body = json!({"prompt": given, "temperature": 0, "seed": 0, "return_token_ids": true});
        let reply = post(world.address, "/v1/completions", &body).json();
        assert_eq!(reply["object"], "text_completion");
        assert_eq!(token_ids(&reply), expected);
        body["stream"] = json!(true);
        let (text, tokens) = joined(&post(world.address, "/v1/completions", &body).chunks());
        assert_eq!(tokens, expected);
        assert_eq!(json!(text), reply["choices"][0]["text"]);
    }
}

#[test]
fn a_stop_string_ends_the_text_before_itself() {
    let world = World::new();
    let whole = post(world.address, CHAT, &chat("Hello", json!({}))).json();
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let characters: Vec<char> = text.chars().collect();
    let stop: String = characters[characters.len() / 2..][..3].iter().collect();
    let expected = &text[..text.find(&stop).unwrap()];
    for stream in [false, true] {
        let more = json!({"stop": ["not in there at all", stop], "stream": stream});
        let answer = post(world.address, CHAT, &chat("Hello", more));
        let (found, reason) = if stream {
            let chunks = answer.chunks();
            (joined(&chunks).0, chunks.last().unwrap()["choices"][0]["finish_reason"].clone())
        } else {
            let choice = answer.json()["choices"][0].clone();
            (choice["message"]["content"].as_str().unwrap().to_owned(), choice["finish_reason"].clone())
        };
        assert_eq!((found.as_str(), reason), (expected, json!("stop")));
    }
}

#[test]
fn a_seed_that_was_not_given_is_returned_and_draws_the_same_reply_again() {
    let world = World::new();
    let ask = |more: Value| post(world.address, CHAT, &chat("Hello", more)).json();
    let first = ask(json!({"temperature": 1}));
    let other = ask(json!({"temperature": 1}));
    assert_ne!(token_ids(&first), token_ids(&other));
    let again = ask(json!({"temperature": 1, "seed": first["seed"]}));
    assert_eq!(token_ids(&first), token_ids(&again));
}

#[test]
fn parallel_requests_equal_each_alone() {
    let world = World::new();
    let ask = |index: usize| {
        let more =
            json!({"temperature": 0.8, "seed": index, "max_tokens": 60, "draft": !index.is_multiple_of(3)});
        token_ids(&post(world.address, CHAT, &chat(&format!("Question {}", index % 5), more)).json())
    };
    let alone: Vec<_> = (0..8).map(ask).collect();
    let together: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|index| scope.spawn(move || ask(index))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn health_and_models_say_what_is_served() {
    let world = World::new();
    let health = get(world.address, "/health");
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")));
    let models = get(world.address, "/v1/models").json();
    assert_eq!(models["object"], "list");
    let model = &models["data"][0];
    assert_eq!((&model["id"], &model["object"]), (&json!("fake"), &json!("model")));
    assert_eq!((&model["owned_by"], &model["max_model_len"]), (&json!("forerunner"), &json!(CONTEXT)));
    assert!(model["created"].as_u64().unwrap() > 1_700_000_000);
}
