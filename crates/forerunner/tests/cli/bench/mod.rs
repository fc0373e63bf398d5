//! `bench`: every benchmark runs, its receipt has what it measured, and replies that differ turn its column red.

mod compare;
mod latency;
mod peer;
mod serve;
mod throughput;

use std::path::PathBuf;

use serde_json::Value;

use crate::binary::{Finished, forerunner};

/// A file of a test; removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Scratch(std::env::temp_dir().join(format!("forerunner-bench-{}-{name}", std::process::id())))
    }

    /// With a text in it.
    fn with(name: &str, text: &str) -> Self {
        let scratch = Scratch::new(name);
        std::fs::write(&scratch.0, text).expect("written");
        scratch
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.0).expect("a receipt")).expect("the receipt is JSON")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A run that failed may not have written it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Two prompts whose replies are short.
const PROMPTS: &str = concat!(
    r#"{"id": "pears", "kind": "math", "messages": [{"role": "user", "content": "There are 7 boxes with 12 pears each. How many pears are there in all?"}]}"#,
    "\n",
    r#"{"id": "list", "kind": "math", "messages": [{"role": "user", "content": "Number this list: white, boxes, keys"}]}"#,
    "\n"
);

/// Runs a benchmark.
fn bench(arguments: &[&str]) -> Finished {
    forerunner(&[&["bench"], arguments].concat())
}

/// What every receipt says of where it is from.
#[track_caller]
fn has_a_head(receipt: &Value, bench: &str) {
    assert_eq!(receipt["bench"], bench);
    assert!(receipt["command"].as_array().is_some_and(|words| words.len() > 2), "{receipt}");
    assert!(receipt["machine"]["cores"].as_u64() > Some(0), "{receipt}");
    for field in ["date", "version"] {
        assert!(receipt[field].is_string(), "{field} in {receipt}");
    }
    // The sources may have come without their history.
    assert!(receipt["commit"].as_str().is_none_or(|commit| commit.len() == 40), "{receipt}");
}
