//! `check`: passes on the demo pair and its twins, and fails where a promise is broken.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::{Finished, demo, forerunner};

/// Runs a short check with more arguments.
fn check(arguments: &[&str]) -> Finished {
    forerunner(&[&["check", "--prompts", "2", "--max-tokens", "24"], arguments].concat())
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("forerunner-check-{}-{name}", std::process::id()))
}

#[track_caller]
fn passes_on(target: &Path) {
    let (target, drafter) = (target.to_string_lossy(), demo("drafter"));
    let run = check(&["--model", &target, "--drafter", &drafter.to_string_lossy()]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("ok   against the fp32 reference"), "{}", run.stdout);
}

#[test]
fn the_demo_pair_keeps_every_promise_and_the_receipt_says_so() {
    let receipt = temporary("receipt.json");
    let run = check(&["--receipt", &receipt.to_string_lossy()]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    for gate in [
        "drafted = plain",
        "constrained: replies are of their grammar",
        "among 16 lanes",
        "after a cancel",
        "resumed = fresh",
        "fp32 reference",
    ] {
        assert!(run.stdout.contains(gate), "no {gate} in {}", run.stdout);
    }
    let written = std::fs::read(&receipt).expect("a receipt");
    std::fs::remove_file(&receipt).expect("a receipt");
    let written: Value = serde_json::from_slice(&written).expect("the receipt is JSON");
    let gates = written["gates"].as_array().expect("gates");
    assert!(gates.iter().all(|gate| gate["passed"] == true && gate["tokens"].as_u64() > Some(0)));
    assert!(written["reference"]["replies"][0]["margins"][0].as_f64().is_some());
}

#[test]
fn drafts_after_many_tokens_are_the_references() {
    let receipt = temporary("lengths.json");
    for bits in ["16", "8"] {
        let run = forerunner(&[
            "check",
            "--drafts-after",
            "1100,300",
            "--drafter-bits",
            bits,
            "--receipt",
            &receipt.to_string_lossy(),
        ]);
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
        let written: Value =
            serde_json::from_slice(&std::fs::read(&receipt).expect("a receipt")).expect("JSON");
        let lengths: Vec<_> = written["drafts_after"]
            .as_array()
            .expect("lengths")
            .iter()
            .map(|at| &at["prompt_tokens"])
            .collect();
        assert_eq!(lengths, [300, 1100]);
    }
    std::fs::remove_file(&receipt).expect("a receipt");
    let run = forerunner(&["check", "--drafts-after", "300", "--context", "200"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("--drafts-after has 300; accepted: less than 200"), "{}", run.stderr);
}

#[test]
fn the_dequantized_twin_passes_too() {
    let twin = temporary("twin");
    let arguments = [demo("target").to_string_lossy().into_owned(), twin.to_string_lossy().into_owned()];
    let run = forerunner(&["synth", "--dequantize", &arguments[0], &arguments[1]]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    passes_on(&twin);
    std::fs::remove_dir_all(&twin).expect("the twin");
}

#[test]
fn the_bf16_demo_target_passes_where_it_is_at_hand() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/demo/demo-target");
    if !target.exists() {
        println!("skipped: ../shared/demo/demo-target is not here");
        return;
    }
    passes_on(&target);
}

#[test]
fn a_broken_promise_fails_its_gate_and_the_check() {
    // Every fault fails its gate in the engine's tests; here it is what a user sees of it.
    for (fault, gate) in [("drafts", "drafted = plain"), ("arithmetic", "against the fp32 reference")] {
        let run = check(&["--plant", fault]);
        assert_eq!(run.code, Some(1), "{fault}: {}", run.stdout);
        let failed = run.stdout.lines().any(|line| line.starts_with("FAIL") && line.contains(gate));
        assert!(failed, "{fault} was not caught by {gate}: {}", run.stdout);
        assert!(run.stdout.contains(" instead of token "), "{fault}: no first difference in {}", run.stdout);
        assert!(run.stderr.contains("check failed"), "{}", run.stderr);
    }
}

#[test]
fn an_unknown_fault_is_an_error_that_names_the_known_ones() {
    let run = check(&["--plant", "gremlins"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("--plant is gremlins; accepted: drafts, "), "{}", run.stderr);
}

/// The last line of a check of kernels.
fn summary(run: &Finished) -> &str {
    run.stdout.lines().last().expect("a summary")
}

#[test]
fn kernels_are_held_to_the_oracle_and_planted_faults_are_caught() {
    let receipt = temporary("kernels.json");
    let path = receipt.to_string_lossy();
    let run =
        forerunner(&["check", "--kernels", "--device", "cpu", "--mode", "portable", "--receipt", &path]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    for line in [
        "kernels of cpu (portable, ",
        "a region of the thread pool: at most ",
        "ok   row-invariance attention: ",
    ] {
        assert!(run.stdout.contains(line), "no {line} in {}", run.stdout);
    }
    let summary = summary(&run);
    assert!(summary.starts_with("SUMMARY kernels devices=1 limits=1 groups="), "{summary}");
    assert!(summary.ends_with(" outcome=passed") && summary.contains(" failed_groups=0 "), "{summary}");
    let written: Value = serde_json::from_slice(&std::fs::read(&receipt).expect("a receipt")).expect("JSON");
    std::fs::remove_file(&receipt).expect("a receipt");
    assert_eq!(written["summary"], summary);
    assert_eq!(written["controls"]["missed"], serde_json::json!([]));
    let suites = written["kernels"][0]["suites"].as_array().expect("suites");
    let names: Vec<_> = suites.iter().map(|suite| suite["suite"].as_str().expect("a name")).collect();
    assert_eq!(names, ["draws", "parity", "row-invariance"]);
}

#[test]
fn a_broken_kernel_fails_its_group_and_the_check() {
    let run = forerunner(&["check", "--kernels", "--plant", "LastKeyUnseen"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stdout.contains("FAIL parity attention: "), "{}", run.stdout);
    assert!(summary(&run).ends_with(" outcome=failed"), "{}", run.stdout);
    assert!(run.stderr.contains("check failed: "), "{}", run.stderr);
    let run = forerunner(&["check", "--kernels", "--plant", "gremlins"]);
    assert!(run.stderr.contains("--plant is gremlins; accepted with --kernels: Upload"), "{}", run.stderr);
}
