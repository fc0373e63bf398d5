//! What the server says about itself: metrics, loads, version, tokens.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{get, open, post};
use crate::world::{CONTEXT, PAGES, PARALLEL, World, chat};

const CHAT: &str = "/v1/chat/completions";

/// The samples of the metrics page: their names and labels as written, without the model's.
fn metrics(world: &World) -> HashMap<String, f64> {
    let answer = get(world.address, "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
    let text = String::from_utf8(answer.body).expect("UTF-8");
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let name = name.replace("{model_name=\"fake\"}", "").replace("model_name=\"fake\",", "");
        (name, value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

/// The metrics once so many tokens are counted: a round's counts are told right after its tokens.
fn settled_metrics(world: &World, tokens: f64) -> HashMap<String, f64> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let found = metrics(world);
        if found["vllm:generation_tokens_total"] == tokens {
            return found;
        }
        assert!(Instant::now() < until, "{} tokens are counted", found["vllm:generation_tokens_total"]);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn metrics_count_what_the_replies_say() {
    let world = World::paced(Duration::from_millis(1));
    let before = metrics(&world);
    assert_eq!(before["vllm:generation_tokens_total"], 0.0);
    let reply = post(world.address, CHAT, &chat("Hello", json!({"max_tokens": 100}))).json();
    let plain = post(world.address, CHAT, &chat("Hi", json!({"max_tokens": 10, "draft": false}))).json();
    let after = settled_metrics(&world, 110.0);
    let prompts =
        reply["usage"]["prompt_tokens"].as_f64().unwrap() + plain["usage"]["prompt_tokens"].as_f64().unwrap();
    assert_eq!(after["vllm:prompt_tokens_total"], prompts);
    let block = &reply["forerunner"];
    let drafts = after["vllm:spec_decode_num_draft_tokens_total"] + after["forerunner:copies_total"];
    assert_eq!(drafts, block["draft_n"].as_f64().unwrap());
    assert_eq!(after["forerunner:rounds_total{kind=\"drafted\"}"], block["draft_rounds"].as_f64().unwrap());
    let by_position =
        |position| format!("vllm:spec_decode_num_accepted_tokens_per_pos_total{{position=\"{position}\"}}");
    let sum: f64 = (0..6).filter_map(|position| after.get(&by_position(position))).sum();
    assert_eq!(sum, after["vllm:spec_decode_num_accepted_tokens_total"]);
    assert!(after["forerunner:copied_rounds_total"] <= block["draft_rounds"].as_f64().unwrap());
    assert_eq!(block["copy_n"].as_f64().unwrap(), after["forerunner:copies_total"]);
    let accepted: u64 =
        block["draft_by_position"].as_array().unwrap().iter().filter_map(|at| at[1].as_u64()).sum();
    assert_eq!(accepted as f64, sum);
    let asked_off = "forerunner:draft_off_total{reason=\"drafting was turned off for this request\"}";
    assert_eq!(after[asked_off], 1.0);
    assert_eq!(after["vllm:request_success_total{finished_reason=\"length\"}"], 2.0);
    assert_eq!(after["vllm:time_to_first_token_seconds_count"], 2.0);
    assert_eq!(after["vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"}"], 2.0);
    assert_eq!(after["vllm:num_requests_running"], 0.0);
    assert!(after["forerunner:round_gaps_total"] > 0.0 && after["forerunner:round_gap_seconds_total"] > 0.0);
    assert!(after.keys().any(|name| name.starts_with("forerunner:guard_drafts{")), "{after:?}");
}

/// `draft: false` leaves the drafted counters as they are, imp#1639.
#[test]
fn an_undrafted_request_moves_no_draft_counter() {
    let world = World::new();
    let body = chat("Hello", json!({"max_tokens": 100, "draft": false}));
    assert_eq!(post(world.address, CHAT, &body).status, 200);
    let after = metrics(&world);
    for name in [
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "forerunner:copies_total",
    ] {
        assert_eq!(after[name], 0.0, "{name}");
    }
}

#[test]
fn loads_and_gauges_follow_what_runs() {
    let world = World::paced(Duration::from_millis(5));
    let body = chat("Hello", json!({"max_tokens": 400, "draft": false})).to_string();
    let held: Vec<_> =
        (0..PARALLEL + 1).map(|_| open(world.address, "POST", CHAT, &[], body.as_bytes())).collect();
    world.wait(|status| status.running == PARALLEL && status.waiting == 1);
    std::thread::sleep(Duration::from_millis(700));
    let loads = get(world.address, "/v1/loads").json();
    let load = &loads["loads"][0];
    assert_eq!((&loads["dp_rank_count"], &load["dp_rank"]), (&json!(1), &json!(0)));
    assert_eq!((&load["num_running_reqs"], &load["num_waiting_reqs"]), (&json!(PARALLEL), &json!(1)));
    assert_eq!(
        (&load["num_total_reqs"], &load["max_running_requests"]),
        (&json!(PARALLEL + 1), &json!(PARALLEL))
    );
    assert_eq!(load["num_waiting_uncached_tokens"], world.chat_prompt("Hello").len());
    assert_eq!(load["utilization"], 1.0);
    // Each reply may become longer than a page.
    assert_eq!((&load["token_usage"], &load["max_total_num_tokens"]), (&json!(1.0), &json!(PAGES * 256)));
    assert!(load["gen_throughput"].as_f64().unwrap() > 10.0, "{load}");
    let gauges = metrics(&world);
    assert_eq!((gauges["vllm:num_requests_running"], gauges["vllm:num_requests_waiting"]), (8.0, 1.0));
    assert_eq!((gauges["vllm:kv_cache_usage_perc"], gauges["forerunner:pages_total"]), (1.0, PAGES as f64));
    drop(held);
    world.wait(|status| status.running == 0 && status.waiting == 0);
    // The last round's counts are there once its gauges are.
    std::thread::sleep(Duration::from_millis(50));
    let load = get(world.address, "/v1/loads").json()["loads"][0].clone();
    assert_eq!((&load["num_waiting_uncached_tokens"], &load["gen_throughput"]), (&json!(0), &json!(0.0)));
    assert_eq!(metrics(&world)["forerunner:sequences_total{outcome=\"cancelled\"}"], (PARALLEL + 1) as f64);
}

#[test]
fn the_version_names_everything_that_replies_depend_on() {
    let world = World::new();
    let version = get(world.address, "/version").json();
    let expected =
        json!({"version": env!("CARGO_PKG_VERSION"), "model": "fake", "drafter": "fake", "device": "none"});
    assert_eq!(version, expected);
}

#[test]
fn text_becomes_tokens_and_text_again() {
    let world = World::new();
    let prompt = "Once upon a time 🙂";
    let tokenize = |body: Value| post(world.address, "/tokenize", &body);
    let answer = tokenize(json!({"prompt": prompt, "return_token_strs": true})).json();
    assert_eq!(answer["tokens"], json!(world.text.tokenizer.encode_prompt(prompt).unwrap()));
    assert_eq!(answer["count"], answer["tokens"].as_array().unwrap().len());
    assert_eq!(answer["token_strs"].as_array().unwrap().len(), answer["tokens"].as_array().unwrap().len());
    assert_eq!(answer["max_model_len"], CONTEXT);
    let bare = tokenize(json!({"prompt": prompt, "add_special_tokens": false})).json()["tokens"].clone();
    let text = post(world.address, "/detokenize", &json!({"model": "fake", "tokens": bare})).json();
    assert_eq!(text, json!({"prompt": prompt}));
    let messages = json!({"messages": [{"role": "user", "content": "Hello"}]});
    assert_eq!(tokenize(messages).json()["tokens"], json!(world.chat_prompt("Hello")));
    for (path, body) in [
        ("/tokenize", json!({})),
        ("/tokenize", json!({"prompt": "a", "messages": []})),
        ("/tokenize", json!({"messages": [{"content": "a"}]})),
        ("/detokenize", json!({})),
        ("/detokenize", json!({"tokens": [1, 99999]})),
        ("/detokenize", json!({"tokens": "a"})),
    ] {
        assert_eq!(post(world.address, path, &body).status, 400, "{path} {body}");
    }
    assert_eq!(tokenize(json!({"prompt": "a", "model": "gpt"})).status, 404);
}
