//! `bench compare`: commands and servers in turn.

use super::peer::{Answer, Peer};
use super::{PROMPTS, Scratch, bench, has_a_head};

#[test]
fn two_commands_are_run_in_turn_and_their_outputs_compared() {
    let receipt = Scratch::new("commands");
    let files = ["--receipt", receipt.path(), "--equal"];
    let run = bench(&[&["compare", "printf 'a b'", "printf %s 'a b'"], files.as_slice()].concat());
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("B / A, seconds: ") && run.stdout.contains("A = B: equal"), "{}", run.stdout);
    let written = receipt.json();
    has_a_head(&written, "compare");
    assert_eq!(written["rounds"].as_array().map(Vec::len), Some(3));
    assert!(written["ratios"]["seconds"]["median"].as_f64() > Some(0.0));
    let run = bench(&[&["compare", "printf a", "printf b"], files.as_slice()].concat());
    assert!(run.code == Some(1) && run.stderr.contains("A and B differ"), "{}", run.stderr);
}

#[test]
fn two_servers_are_loaded_in_turn() {
    let (one, other) = (Peer::start(&[Answer::Text("a")]), Peer::start(&[Answer::Text("b")]));
    let (prompts, receipt) = (Scratch::with("servers.jsonl", PROMPTS), Scratch::new("servers"));
    let files = ["--prompts", prompts.path(), "--receipt", receipt.path(), "--requests", "4"];
    let run = bench(&[&["compare", &one.url(), &other.url()], files.as_slice()].concat());
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("B / A, output_throughput: "), "{}", run.stdout);
    assert!(run.stdout.contains("A = B: 2 DIFFER"), "{}", run.stdout);
    assert_eq!(receipt.json()["rounds"][2]["b"]["completed"], 4);
}

#[test]
fn what_cannot_be_compared_is_named() {
    let run = bench(&["compare", "http://127.0.0.1:9", "printf a"]);
    assert!(run.stderr.contains("accepted: two URLs or two commands"), "{}", run.stderr);
    let run = bench(&["compare", "false", "true"]);
    assert!(run.code == Some(1) && run.stderr.contains("false: exit status: 1"), "{}", run.stderr);
    let run = bench(&["compare", "no-such-program", "true"]);
    assert!(run.stderr.contains("no-such-program did not start"), "{}", run.stderr);
}
