//! Wrong input of every kind for every parser that meets the outside.
//!
//! A [`Target`] is a parser with inputs to begin from. The tests and `cargo xtask fuzz` run it on any Rust with so many
//! changed inputs, the same ones for a seed; the folder `fuzz` at the root hands the same functions to libFuzzer, which
//! looks for new paths through the code. What a target must never do is panic, and what it must do beyond that it asserts.

mod bounded;
mod checkpoint;
mod http;
mod mutate;
mod scratch;
mod text;

pub use bounded::{Failure, inputs, run};

/// A parser under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also that of its libFuzzer target.
    pub name: &'static str,
    /// Reads any bytes at all; panics where the parser is wrong.
    pub run: fn(&[u8]),
    /// Inputs to begin from, most of them right.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Changed inputs of a bounded run: as many as take a few seconds.
    pub runs: usize,
}

/// All of them.
pub const TARGETS: [Target; 9] = [
    checkpoint::SAFETENSORS,
    checkpoint::INDEX,
    checkpoint::CONFIG,
    checkpoint::DRAFTER_CONFIG,
    text::TOKENIZER,
    text::TEMPLATE,
    text::MESSAGES,
    text::TOOL_CALLS,
    http::BODIES,
];

/// A target by its name, if there is one.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
