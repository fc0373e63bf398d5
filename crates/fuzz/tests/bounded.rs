//! Every target with so many changed inputs, the same ones each time.

use forerunner_fuzz::{TARGETS, Target, run, target};

/// The changes that are made, as `cargo xtask fuzz` makes them without `--seed`.
const SEED: u64 = 1;

#[track_caller]
fn check(name: &str) {
    let target = target(name).expect("a target");
    if let Some(failure) = run(&target, SEED, target.runs) {
        let shown = String::from_utf8_lossy(&failure.input);
        panic!("{name} fails on {shown:?}; cargo xtask fuzz {name} writes it to a file");
    }
}

macro_rules! bounded {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_target_is_tried() {
            let mut tried = [$(stringify!($name)),*];
            let mut names = TARGETS.map(|target| target.name);
            tried.sort_unstable();
            names.sort_unstable();
            assert_eq!(tried, names);
        }
    };
}

bounded!(safetensors, index, config, drafter_config, tokenizer, template, messages, tool_calls, bodies);

/// A parser with a planted fault: it reads a number and trusts it.
const PLANTED: Target = Target {
    name: "planted",
    run: |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Some(length) = text.strip_prefix("length=").and_then(|rest| rest.parse::<usize>().ok()) {
            let table = [0; 16];
            std::hint::black_box(table[length]);
        }
    },
    seeds: || vec![b"length=3".to_vec()],
    words: &[],
    runs: 2000,
};

#[test]
fn a_parser_that_trusts_its_input_is_caught_by_the_same_input_each_time() {
    let failure = run(&PLANTED, SEED, PLANTED.runs).expect("a length that is too large");
    assert!(failure.input.starts_with(b"length=") && failure.after > 0);
    assert_eq!(run(&PLANTED, SEED, PLANTED.runs), Some(failure));
}
