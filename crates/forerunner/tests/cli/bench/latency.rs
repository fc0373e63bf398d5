//! `bench latency`, with and without a planted fault.

use super::{Scratch, bench, has_a_head};

const TINY: [&str; 6] = ["latency", "--lengths", "24,600", "--max-tokens", "12", "--force-drafts"];

#[test]
fn each_length_has_first_tokens_cold_and_cached_and_equal_replies() {
    let receipt = Scratch::new("latency");
    let run = bench(&[&TINY, ["--receipt", receipt.path()].as_slice()].concat());
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let receipt = receipt.json();
    has_a_head(&receipt, "latency");
    let lengths = receipt["lengths"].as_array().expect("lengths");
    assert_eq!(lengths.len(), 2);
    for length in lengths {
        assert!(length["drafted_is_plain"]["equal"] == true && length["cached_is_cold"]["equal"] == true);
        for side in ["plain", "drafted"] {
            let side = &length[side];
            assert!(side["decode_tokens_per_second"]["median"].as_f64() > Some(0.0), "{side}");
            assert!(side["cold_first_token_s"]["median"].as_f64() > Some(0.0), "{side}");
        }
    }
    // Only whole pages of 256 positions are stored.
    assert_eq!(lengths[0]["plain"]["cached_first_token_s"]["median"].as_f64(), None);
    assert!(lengths[1]["plain"]["cached_first_token_s"]["median"].as_f64() > Some(0.0));
    if cfg!(target_os = "linux") {
        assert!(lengths[1]["peak_memory_bytes"].as_u64() > Some(1 << 20));
    }
}

#[test]
fn a_planted_fault_turns_its_column_red() {
    for (fault, column) in [("drafts", "drafted_is_plain"), ("prefixes", "cached_is_cold")] {
        let receipt = Scratch::new(&format!("latency-{fault}"));
        let run = bench(&[&TINY, ["--receipt", receipt.path(), "--plant", fault].as_slice()].concat());
        assert_eq!(run.code, Some(1), "{fault}: {}", run.stdout);
        assert!(run.stdout.contains("DIFFER") && run.stderr.contains("replies differ"), "{}", run.stderr);
        assert_eq!(receipt.json()["lengths"][1][column]["equal"], false, "{fault}");
    }
}

#[test]
fn a_length_that_does_not_fit_is_named() {
    let run = bench(&["latency", "--context", "512", "--lengths", "512"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("--lengths has 512") && run.stderr.contains("at most 512"), "{}", run.stderr);
}
