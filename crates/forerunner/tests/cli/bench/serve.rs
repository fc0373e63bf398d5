//! `bench serve`: on our own server, and on one that is scripted to fail.

use serde_json::{Value, json};

use super::peer::{Answer, Peer};
use super::{PROMPTS, Scratch, bench, has_a_head};
use crate::binary::{Finished, Serving};

/// A load of a few requests, with its receipt if it wrote one.
fn serve(url: &str, name: &str, more: &[&str]) -> (Finished, Scratch) {
    let (prompts, receipt) = (Scratch::with(&format!("{name}.jsonl"), PROMPTS), Scratch::new(name));
    let files = ["--prompts", prompts.path(), "--receipt", receipt.path(), "--max-tokens", "16"];
    (bench(&[&["serve", url], files.as_slice(), more].concat()), receipt)
}

#[test]
fn our_own_server_is_measured_and_its_replies_are_equal() {
    let server = Serving::start(&["--parallel", "4", "--force-drafts", "--measure-ms", "0"]);
    let url = format!("http://{}", server.address);
    let more = ["--requests", "6", "--concurrency", "3", "--alone", "--mixed", "--mixed-words", "200"];
    let (run, receipt) = serve(&url, "own", &more);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("shared = alone: equal; drafted = plain: equal"), "{}", run.stdout);
    let receipt = receipt.json();
    has_a_head(&receipt, "serve");
    let counts = ["completed", "failed", "unmeasured", "num_prompts", "distinct_prompts", "max_concurrency"];
    assert_eq!(counts.map(|field| receipt[field].as_u64().unwrap_or(99)), [6, 0, 0, 6, 2, 3]);
    for field in ["mean_ttft_ms", "median_tpot_ms", "p99_itl_ms", "output_throughput", "tokens_per_round"] {
        assert!(receipt[field].as_f64() > Some(0.0), "{field} in {receipt}");
    }
    assert_eq!(receipt["itls"].as_array().map(Vec::len), Some(6));
    assert_eq!(receipt["model_id"], "demo");
    let mixed = &receipt["mixed"];
    assert!(mixed["prompt_tokens"].as_u64() > Some(200), "{mixed}");
    assert!(mixed["before"]["events"].as_u64() > Some(0), "{mixed}");
}

#[test]
fn an_open_loop_and_a_serial_one_send_all_requests() {
    let peer = Peer::start(&[Answer::Text("a")]);
    for pace in [["--rate", "200"].as_slice(), &["--serial"]] {
        let (run, receipt) =
            serve(&peer.url(), &format!("pace{}", pace.len()), &[&["--requests", "5"], pace].concat());
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
        assert_eq!(receipt.json()["completed"], 5, "{pace:?}");
    }
    let body: Value = serde_json::from_str(&peer.bodies.lock().unwrap()[0]).unwrap();
    // A strict server is told nothing that it may not know.
    let known = ["model", "messages", "max_tokens", "stream", "stream_options", "temperature", "seed"];
    assert!(body.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{body}");
    assert_eq!((&body["model"], &body["stream"]), (&json!("peer-model"), &json!(true)));
}

#[test]
fn what_fails_or_says_too_little_is_counted_by_its_reason() {
    let peer = Peer::start(&[Answer::Text("a"), Answer::Refused, Answer::WithoutUsage, Answer::Broken]);
    let (run, receipt) = serve(&peer.url(), "failing", &["--requests", "5", "--serial"]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let receipt = receipt.json();
    assert_eq!(
        (&receipt["completed"], &receipt["failed"], &receipt["unmeasured"]),
        (&json!(1), &json!(3), &json!(1))
    );
    let reasons = &receipt["reasons"];
    assert_eq!(reasons["failed: status 503: the queue is full"], 1);
    assert_eq!(reasons["failed: the stream ended without [DONE]"], 2);
    assert_eq!(reasons["not measured: usage tells no prompt_tokens"], 1);
    assert!(run.stdout.contains("2 times: failed: the stream ended without [DONE]"), "{}", run.stdout);
}

#[test]
fn a_server_whose_replies_depend_on_neighbours_turns_the_column_red() {
    let peer = Peer::start(&[Answer::Text("shared"), Answer::Text("shared"), Answer::Text("alone")]);
    let (run, receipt) = serve(&peer.url(), "unequal", &["--requests", "2", "--concurrency", "2", "--alone"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("shared = alone: 2 DIFFER; drafted = plain: -"), "{}", run.stderr);
    assert_eq!(receipt.json()["equality"]["shared_is_alone"]["equal"], false);
}

#[test]
fn a_server_that_is_not_there_or_never_answers_is_an_error() {
    let (run, _) = serve("http://127.0.0.1:9", "nobody", &[]);
    assert!(run.code == Some(1) && run.stderr.contains("cannot connect"), "{}", run.stderr);
    let (run, _) = serve("https://host", "scheme", &[]);
    assert!(run.stderr.contains("accepted: http://HOST"), "{}", run.stderr);
    let peer = Peer::start(&[Answer::Refused]);
    let (run, receipt) = serve(&peer.url(), "refused", &["--requests", "2"]);
    assert!(run.code == Some(1) && run.stderr.contains("no reply could be measured"), "{}", run.stderr);
    assert_eq!(receipt.json()["failed"], 2);
}
