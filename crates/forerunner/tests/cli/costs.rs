//! The cost table is kept between starts, as long as the machine is not far faster than it says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::binary::{command, finished};
use crate::scratch::Scratch;

/// Answers with this cache, and finds the one table in it.
fn table_of_a_start(cache: &Path) -> (PathBuf, String) {
    let mut run = command(&["run", "--max-tokens", "4", "Hello!"]);
    run.env("XDG_CACHE_HOME", cache).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = finished(run.spawn().expect("it starts"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let tables = fs::read_dir(cache.join("forerunner/costs")).expect("a folder of tables");
    let paths: Vec<PathBuf> = tables.map(|table| table.expect("a table").path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    let text = fs::read_to_string(&paths[0]).expect("a table");
    (paths[0].clone(), text)
}

/// The table with all rounds so many times as long.
fn slowed(text: &str, times: f64) -> String {
    let line = |line: &str| match line.strip_prefix("round ").and_then(|line| line.split_once(' ')) {
        Some((rows, ms)) => format!("round {rows} {}\n", times * ms.parse::<f64>().expect("milliseconds")),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn a_table_of_a_busy_machine_is_made_anew_and_others_are_kept() {
    let cache = Scratch::new("costs");
    let (path, first) = table_of_a_start(cache.path());
    for (times, is_kept) in [(0.25, true), (50.0, false)] {
        let stored = slowed(&first, times);
        fs::write(&path, &stored).expect("written");
        assert_eq!(table_of_a_start(cache.path()).1 == stored, is_kept, "{times} times as slow");
    }
}
