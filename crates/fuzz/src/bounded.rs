//! A run of so many changed inputs, the same ones for a seed; what was found once is tried first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::Target;
use crate::mutate::Mutator;

/// Where inputs lie that once were too much for a target: a folder for each.
const FOUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/found");

/// An input that a target panics on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The input.
    pub input: Vec<u8>,
    /// Changed inputs that were tried before; none if it is one of those that all runs begin with.
    pub after: usize,
}

/// The first input that the target panics on: one that it begins with, or one of `runs` changed by `seed`.
pub fn run(target: &Target, seed: u64, runs: usize) -> Option<Failure> {
    let inputs = inputs(target);
    let fails = |input: &Vec<u8>| catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err();
    if let Some(input) = inputs.iter().find(|input| fails(input)) {
        return Some(Failure { input: input.clone(), after: 0 });
    }
    let mut mutator = Mutator::new(seed, target.words);
    let mut changed = (0..runs).map(|after| Failure { input: mutator.change(&inputs), after });
    changed.find(|tried| fails(&tried.input))
}

/// What every run of a target begins with: its seeds, and what was found.
pub fn inputs(target: &Target) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(Path::new(FOUND).join(target.name)).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let mut inputs = (target.seeds)();
    inputs.extend(paths.iter().map(|path| std::fs::read(path).expect("a file of crates/fuzz/found")));
    inputs
}
