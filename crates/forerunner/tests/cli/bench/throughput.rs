//! `bench throughput`, with and without a planted fault.

use super::{PROMPTS, Scratch, bench, has_a_head};
use crate::binary::Finished;

/// A run as small as it gets, with a receipt.
fn throughput(name: &str, more: &[&str]) -> (Finished, Scratch) {
    let (prompts, receipt) = (Scratch::with(&format!("{name}.jsonl"), PROMPTS), Scratch::new(name));
    let tiny = ["throughput", "--streams", "1,2", "--requests", "2", "--max-tokens", "12"];
    let pairs = ["--pairs", "3", "--most-pairs", "3"];
    let files = ["--prompts", prompts.path(), "--receipt", receipt.path()];
    (bench(&[tiny.as_slice(), &pairs, &files, more].concat()), receipt)
}

#[test]
fn drafted_and_shared_replies_are_equal_and_the_receipt_has_every_run() {
    let (run, receipt) = throughput("whole", &["--force-drafts"]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let rows = run.stdout.lines().filter(|line| line.trim_start().starts_with("math")).count();
    assert_eq!(rows, 2, "{}", run.stdout);
    assert!(run.stdout.contains("plain decode: "), "{}", run.stdout);
    let receipt = receipt.json();
    has_a_head(&receipt, "throughput");
    assert_eq!(receipt["checkpoints"]["drafter"]["model.safetensors"].as_str().map(str::len), Some(64));
    for (index, streams) in [1, 2].into_iter().enumerate() {
        let cell = &receipt["cells"][index];
        assert_eq!(cell["streams"], streams);
        assert!(cell["drafted_is_plain"]["equal"] == true && cell["shared_is_alone"]["equal"] == true);
        assert_eq!(cell["plain"]["runs"].as_array().map(Vec::len), Some(3));
        assert_eq!(cell["plain"]["draft_n"], 0);
        assert!(cell["drafted"]["draft_n"].as_u64() > Some(0), "{cell}");
        assert!(cell["drafted"]["mean_ttft_ms"].as_f64() > Some(0.0), "{cell}");
        assert!(cell["drafted_over_plain_time"]["median"].as_f64() > Some(0.0), "{cell}");
    }
    assert_eq!(receipt["replies"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_planted_fault_turns_its_column_red() {
    for (fault, column) in [("drafts", "drafted_is_plain"), ("neighbours", "shared_is_alone")] {
        let (run, receipt) = throughput(fault, &["--force-drafts", "--plant", fault]);
        assert_eq!(run.code, Some(1), "{fault}: {}", run.stdout);
        assert!(run.stdout.contains("DIFFER"), "{fault}: {}", run.stdout);
        assert!(run.stderr.contains("replies differ"), "{fault}: {}", run.stderr);
        let cell = &receipt.json()["cells"][1];
        assert_eq!(cell[column]["equal"], false, "{fault}: {cell}");
    }
}

#[test]
fn what_cannot_be_run_is_named() {
    let (run, _) = throughput("unknown", &["--plant", "gremlins"]);
    assert!(run.stderr.contains("--plant is gremlins; accepted: drafts, "), "{}", run.stderr);
    let empty = Scratch::with("empty.jsonl", "\n");
    let run = bench(&["throughput", "--prompts", empty.path()]);
    assert!(run.stderr.contains("has no prompts; accepted: one JSON object a line"), "{}", run.stderr);
    let run = bench(&["throughput", "--pairs", "2"]);
    assert!(run.code != Some(0) && run.stderr.contains("3..=1000"), "{}", run.stderr);
}
