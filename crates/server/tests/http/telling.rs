//! What is told of single tokens: log-probabilities and origins, in step with the text, and the same with drafts and
//! without.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::post;
use crate::events::events;
use crate::world::{World, chat};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const RESPONSES: &str = "/v1/responses";

/// Characters of one, two and four bytes; the last are several tokens each.
const UNICODE: &str = "Grüße, 🙂🙃! Good. STOP here.";

/// A server whose rounds take their time, so that drafting is worth it.
fn slow_world() -> World {
    World::paced(Duration::from_millis(2))
}

/// The arrays at `pointer` in each of the values, as one.
fn joined(values: &[Value], pointer: &str) -> Vec<Value> {
    values.iter().filter_map(|value| value.pointer(pointer)?.as_array().cloned()).flatten().collect()
}

fn texts(entries: &[Value], field: &str) -> String {
    entries.iter().map(|entry| entry[field].as_str().expect("a text")).collect()
}

fn bytes(entries: &[Value]) -> Vec<u8> {
    let of = |entry: &Value| serde_json::from_value::<Vec<u8>>(entry["bytes"].clone()).expect("bytes");
    entries.iter().flat_map(of).collect()
}

/// With drafts every log-probability was 0.0, llama.cpp#27972; `top_logprobs: 0` was a 500, vllm#30059.
#[test]
fn log_probabilities_do_not_depend_on_drafts() {
    let world = slow_world();
    for (top, count) in [(json!(0), 0), (json!(3), 3), (json!(20), 20), (json!(null), 0)] {
        for temperature in [0.0, 0.8] {
            let ask = |draft: bool| {
                let more = json!({
                    "logprobs": true, "top_logprobs": top, "draft": draft, "temperature": temperature, "seed": 3,
                    "max_tokens": 100,
                });
                let answer = post(world.address, CHAT, &chat("Hello", more));
                assert_eq!(answer.status, 200, "{top}");
                answer.json()
            };
            let (drafted, plain) = (ask(true), ask(false));
            assert_eq!(drafted["choices"], plain["choices"], "top_logprobs {top}, temperature {temperature}");
            assert!(drafted["forerunner"]["draft_n_accepted"].as_u64() > Some(0), "{drafted}");
            let entries = drafted["choices"][0]["logprobs"]["content"].as_array().expect("entries");
            assert_eq!(entries.len(), 100);
            let is_whole = |entry: &Value| {
                entry["logprob"].as_f64() < Some(0.0)
                    && entry["top_logprobs"].as_array().map(Vec::len) == Some(count)
            };
            assert!(entries.iter().all(is_whole), "{entries:?}");
        }
    }
}

#[test]
fn streamed_tokens_are_told_as_in_the_whole_reply() {
    let world = slow_world();
    let more = json!({"logprobs": true, "top_logprobs": 2, "token_origins": true, "max_tokens": 60});
    let whole = post(world.address, CHAT, &chat("Hello", more.clone())).json();
    let mut streamed = chat("Hello", more);
    streamed["stream"] = json!(true);
    let chunks = post(world.address, CHAT, &streamed).chunks();
    let choice = &whole["choices"][0];
    assert_eq!(json!(joined(&chunks, "/choices/0/logprobs/content")), choice["logprobs"]["content"]);
    let origins = joined(&chunks, "/choices/0/token_origins");
    assert_eq!(texts(&origins, "text"), choice["message"]["content"].as_str().unwrap());
}

#[test]
fn bytes_joined_are_the_text_however_characters_are_cut() {
    let world = World::scripted(UNICODE);
    let more = json!({"logprobs": true, "top_logprobs": 1, "token_origins": true, "max_tokens": 60});
    let choice = post(world.address, CHAT, &chat("Hello", more)).json()["choices"][0].clone();
    assert_eq!(choice["message"]["content"], UNICODE);
    let entries = choice["logprobs"]["content"].as_array().unwrap();
    assert_eq!(bytes(entries), UNICODE.as_bytes());
    assert!(entries.iter().any(|entry| entry["token"] == "\u{fffd}"), "a part of a character: {entries:?}");
    let origins = choice["token_origins"].as_array().unwrap();
    assert_eq!((origins.len(), texts(origins, "text")), (entries.len(), UNICODE.to_owned()));
}

#[test]
fn what_a_stop_string_takes_away_is_not_told() {
    let world = World::scripted(UNICODE);
    for (stop, expected) in
        [("STOP", "Grüße, 🙂🙃! Good. "), ("🙃", "Grüße, 🙂"), ("Gr", ""), ("d. S", "Grüße, 🙂🙃! Goo")]
    {
        for stream in [false, true] {
            let more = json!({
                "logprobs": true, "token_origins": true, "stop": stop, "stream": stream, "max_tokens": 60,
            });
            let answer = post(world.address, CHAT, &chat("Hello", more));
            let values = if stream { answer.chunks() } else { vec![answer.json()] };
            let entries = joined(&values, "/choices/0/logprobs/content");
            let told = bytes(&entries);
            assert!(told.starts_with(expected.as_bytes()), "{stop}: {entries:?}");
            let before_last = entries.len().saturating_sub(1);
            assert!(bytes(&entries[..before_last]).len() <= expected.len(), "{stop}: {entries:?}");
            assert_eq!(texts(&joined(&values, "/choices/0/token_origins"), "text"), expected, "{stop}");
        }
    }
}

#[test]
fn completions_have_columns() {
    let world = World::scripted(UNICODE);
    let body = json!({"prompt": "Hi", "max_tokens": 60, "logprobs": 2});
    let choice = post(world.address, COMPLETIONS, &body).json()["choices"][0].clone();
    let columns = &choice["logprobs"];
    let of = |name: &str| columns[name].as_array().unwrap_or_else(|| panic!("{name}: {columns}")).clone();
    let count = of("tokens").len();
    assert!(["token_logprobs", "top_logprobs", "text_offset"].iter().all(|name| of(name).len() == count));
    assert!(of("tokens").iter().any(|token| token.as_str().unwrap().starts_with("bytes:\\x")), "{columns}");
    for (index, top) in of("top_logprobs").iter().enumerate() {
        assert_eq!(top[of("tokens")[index].as_str().unwrap()], of("token_logprobs")[index]);
    }
    let good = of("tokens").iter().position(|token| token == " Good").expect("a token of one word");
    let text: Vec<char> = choice["text"].as_str().unwrap().chars().collect();
    let offset = of("text_offset")[good].as_u64().unwrap() as usize;
    assert_eq!(text[offset..][..5].iter().collect::<String>(), " Good");
    for (logprobs, top) in [(json!(0), json!(null)), (json!(1), json!(count))] {
        let body = json!({"prompt": "Hi", "max_tokens": 60, "logprobs": logprobs});
        let columns = post(world.address, COMPLETIONS, &body).json()["choices"][0]["logprobs"].clone();
        assert_eq!(json!(columns["top_logprobs"].as_array().map(Vec::len)), top);
    }
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let chunks = post(world.address, COMPLETIONS, &streamed).chunks();
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(joined(&chunks, &format!("/choices/0/logprobs/{name}")), of(name), "{name}");
    }
}

#[test]
fn responses_have_log_probabilities_where_they_are_included() {
    let world = World::scripted(UNICODE);
    let body = json!({
        "input": "Hi", "include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2,
        "token_origins": true,
    });
    let response = post(world.address, RESPONSES, &body).json();
    let entries = response["output"][0]["content"][0]["logprobs"].as_array().expect("entries").clone();
    assert_eq!(bytes(&entries), UNICODE.as_bytes());
    assert_eq!(entries[0]["top_logprobs"].as_array().map(Vec::len), Some(2));
    assert_eq!(response["top_logprobs"], 2);
    assert_eq!(texts(response["token_origins"].as_array().unwrap(), "text"), UNICODE);
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = events(&post(world.address, RESPONSES, &streamed));
    let of_kind =
        |kind: &str| events.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!(joined(&of_kind("response.output_text.delta"), "/logprobs"), entries);
    assert_eq!(joined(&of_kind("response.output_text.done"), "/logprobs"), entries);
    let last = &of_kind("response.completed")[0]["response"];
    assert_eq!(last["output"][0]["content"][0]["logprobs"], json!(entries));
    let plain = post(world.address, RESPONSES, &json!({"input": "Hi"})).json();
    assert_eq!(plain["output"][0]["content"][0]["logprobs"], json!([]));
}

#[test]
fn origins_say_what_drafting_did() {
    let world = slow_world();
    let ask = |more: Value| {
        let reply = post(world.address, CHAT, &chat("Hello", more)).json();
        let choice = &reply["choices"][0];
        let origins = choice["token_origins"].as_array().cloned().unwrap_or_default();
        assert_eq!(texts(&origins, "text"), choice["message"]["content"].as_str().unwrap());
        (origins, reply["forerunner"].clone())
    };
    let count =
        |origins: &[Value], name: &str| origins.iter().filter(|entry| entry["origin"] == name).count() as u64;
    let (drafted, block) = ask(json!({"token_origins": true, "max_tokens": 200}));
    let accepted = block["draft_n_accepted"].as_u64().unwrap();
    let told = count(&drafted, "draft") + count(&drafted, "copy");
    assert!(told > 0 && told <= accepted, "{told} of {block}");
    assert!(count(&drafted, "bonus") > 0 && count(&drafted, "plain") > 0, "{drafted:?}");
    assert!(count(&drafted, "bonus") + count(&drafted, "plain") <= block["rounds"].as_u64().unwrap());
    let (plain, _) = ask(json!({"token_origins": true, "max_tokens": 50, "draft": false}));
    assert_eq!(count(&plain, "plain"), 50);
}

#[test]
fn messages_tell_origins_at_their_end() {
    let world = World::scripted("Good.");
    let body = json!({
        "max_tokens": 60, "token_origins": true, "messages": [{"role": "user", "content": "Hi"}],
    });
    let whole = post(world.address, "/v1/messages", &body).json();
    assert_eq!(texts(whole["token_origins"].as_array().unwrap(), "text"), "Good.");
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = events(&post(world.address, "/v1/messages", &streamed));
    let last = events.iter().find(|event| event["type"] == "message_delta").expect("a last event");
    assert_eq!(texts(last["token_origins"].as_array().unwrap(), "text"), "Good.");
}

#[test]
fn clients_that_ask_for_nothing_see_nothing() {
    let world = World::scripted("Good.");
    for stream in [false, true] {
        let body =
            json!({"messages": [{"role": "user", "content": "Hi"}], "stream": stream, "logprobs": false});
        let answer = post(world.address, CHAT, &body);
        let values = if stream { answer.chunks() } else { vec![answer.json()] };
        for value in values {
            let choice = &value["choices"][0];
            assert_eq!(choice["logprobs"], json!(null));
            assert!(choice.get("token_origins").is_none(), "{choice}");
        }
    }
}

#[test]
fn what_is_not_told_is_refused_by_name() {
    let world = World::scripted("Good.");
    let refused = |path: &str, more: Value, param: &str, fragment: &str| {
        let mut body = chat("Hello", more);
        body["prompt"] = json!("Hi");
        body["input"] = json!("Hi");
        let answer = post(world.address, path, &body);
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(fragment), "{error}");
    };
    refused(CHAT, json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs", "0 to 20");
    refused(CHAT, json!({"top_logprobs": 2}), "top_logprobs", "0 without logprobs");
    refused(CHAT, json!({"logprobs": true, "top_logprobs": -1}), "top_logprobs", "top_logprobs:");
    refused(CHAT, json!({"logprobs": 5}), "logprobs", "boolean");
    refused(COMPLETIONS, json!({"logprobs": 6}), "logprobs", "0 to 5");
    refused(COMPLETIONS, json!({"logprobs": 1, "echo": true}), "echo", "accepted: false");
    let include = json!(["message.output_text.logprobs"]);
    refused(RESPONSES, json!({"include": include, "top_logprobs": 30}), "top_logprobs", "0 to 20");
    refused(RESPONSES, json!({"top_logprobs": 3}), "top_logprobs", "message.output_text.logprobs");
}
