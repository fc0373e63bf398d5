//! What goes wrong is said in one line that names it; the exit code says whose fault it was.

use crate::binary::{demo, forerunner};

#[track_caller]
fn check(arguments: &[&str], code: i32, fragment: &str) {
    let run = forerunner(arguments);
    assert_eq!(run.code, Some(code), "{}", run.stderr);
    assert!(run.stderr.contains(fragment), "{fragment:?} is not in {}", run.stderr);
    assert_eq!(run.stdout, "");
    if code == 1 {
        let last = run.stderr.trim_end().lines().last().unwrap_or("");
        assert!(last.starts_with("forerunner: "), "{}", run.stderr);
    }
}

#[test]
fn wrong_usage_is_2() {
    check(&["run"], 2, "<PROMPT>");
    check(&["fly"], 2, "fly");
    check(&["run", "--temperature", "warm", "hi"], 2, "warm");
    check(&["run", "--mode", "sse9", "hi"], 2, "portable");
    check(&["run", "--device", "abacus", "hi"], 2, "cpu");
    check(&["run", "--threads", "0", "hi"], 2, "--threads");
    check(&["run", "--drafter", "somewhere", "hi"], 2, "--model");
    check(&["serve", "--parallel", "0"], 2, "--parallel");
    check(&["serve", "--max-queue", "0"], 2, "--max-queue");
    check(&["serve", "--port", "70000"], 2, "--port");
    check(&["serve", "--tls-key", "key.pem"], 2, "--tls-certificate");
    check(&["serve", "--header-seconds", "0"], 2, "--header-seconds");
    check(&["synth", "--dequantize", "one"], 2, "DESTINATION");
    check(&["synth"], 2, "SHAPE");
    check(&["synth", "mid"], 2, "DIR");
    check(&["run", "--synth", "huge", "hi"], 2, "lfm2.5-24b-a2b, lfm2-8b-a1b, mid");
    check(&["run", "--synth", "mid,5bit", "hi"], 2, "4bit or bf16");
    check(&["run", "--synth", "mid", "--model", "somewhere", "hi"], 2, "--model");
}

#[test]
fn what_cannot_be_done_is_1() {
    let (target, drafter) = (demo("target"), demo("drafter"));
    let (target, drafter) = (target.to_str().unwrap(), drafter.to_str().unwrap());
    check(&["run", "--model", "/no/such", "hi"], 1, "/no/such is not a directory");
    check(&["run", "--model", drafter, "hi"], 1, "config.json");
    check(&["run", "--model", target, "--drafter", target, "hi"], 1, "config.json");
    check(&["run", "--model", env!("CARGO_MANIFEST_DIR"), "hi"], 1, "config.json");
    check(&["run", "--no-drafter", "--drafter-bits", "8", "hi"], 1, "--drafter-bits 8 is for a drafter");
    check(&["info", "/no/such"], 1, "/no/such is not a directory");
    check(&["run", "--context", "32769", "hi"], 1, "--context is 32769; accepted: at most 32768");
    check(&["run", "--context", "4", "hi"], 1, "context is 4");
    check(&["run", "--max-tokens", "0", "hi"], 1, "max_tokens is 0");
    check(&["run", "--temperature", "101", "hi"], 1, "temperature is 101");
    check(&["synth", "--dequantize", target, target], 1, "target");
    check(&["synth", "mid", "/no/such", "--format", "5bit"], 1, "5bit");
    check(&["synth", "mid", "/no/such", "--skew", "0.2"], 1, "the skew is 0.2");
    check(&["run", "--synth", "mid,7", "hi"], 1, "the skew is 7");
    check(&["calibrate", "--synth", "mid"], 1, "--output");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check(&["serve", "--port", &port], 1, &format!("cannot listen on 127.0.0.1:{port}"));
}

#[cfg(not(feature = "pull"))]
#[test]
fn a_build_that_fetches_nothing_says_so() {
    check(
        &["pull", "demo/target"],
        1,
        "this build cannot fetch demo/target: build it with the cargo feature pull",
    );
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_says_so() {
    let tls = ["--tls-certificate", "certificate.pem", "--tls-key", "key.pem"];
    check(
        &[&["serve", "--port", "0"], &tls[..]].concat(),
        1,
        "this build has no TLS: build it with the cargo feature tls",
    );
}
