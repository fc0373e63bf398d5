//! The reference equals transformers on tiny random checkpoints (made by `transformers/make_vectors.py`).

use std::path::Path;

use forerunner_checkpoint::TargetCheckpoint;
use forerunner_reference::target::{FeedForward, Operator};
use forerunner_reference::{ReferenceTarget, ReplyLimit, Rows, greedy};

use crate::compare::{Vectors, close, equal};

/// Of the largest value compared.
const TOLERANCE: f32 = 1e-4;

fn load(name: &str) -> (ReferenceTarget, Vectors) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transformers").join(name);
    let checkpoint = TargetCheckpoint::open(&folder.join("checkpoint")).expect("the checkpoint opens");
    let target = ReferenceTarget::load(&checkpoint).expect("the checkpoint loads");
    (target, Vectors::read(&folder.join("vectors.safetensors")))
}

/// Compares logits, taps, final rows and the greedy reply; the first difference is the error.
fn compare(target: &ReferenceTarget, vectors: &Vectors) -> Result<(), String> {
    let prompt = vectors.tokens("prompt");
    let taps: Vec<usize> = (0..target.layers.len() - 1).collect();
    let output = target.forward(&mut target.start(), &prompt, &taps);
    for (what, found) in
        [("taps", &output.taps), ("hidden", &output.hidden), ("logits", &target.logits(&output.hidden))]
    {
        compare_rows(what, found, &vectors.floats(what))?;
    }
    let expected = vectors.tokens("reply");
    let limit = ReplyLimit { max_tokens: expected.len(), stop_tokens: &[] };
    let reply: Vec<u32> = greedy(target, &prompt, limit).iter().map(|pick| pick.token).collect();
    equal("reply", reply, expected)
}

fn compare_rows(what: &str, found: &Rows, expected: &[f32]) -> Result<(), String> {
    let scale = expected.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
    let largest = close(what, &found.values, expected, TOLERANCE * scale)?;
    println!("{what}: largest difference {largest:e} at a scale of {scale}");
    Ok(())
}

#[test]
fn dense_lfm2_equals_transformers() {
    let (target, vectors) = load("dense");
    compare(&target, &vectors).expect("equal to transformers");
}

#[test]
fn mixture_of_experts_equals_transformers() {
    let (target, vectors) = load("moe");
    compare(&target, &vectors).expect("equal to transformers");
}

#[test]
fn damaged_checkpoints_do_not_pass() {
    let (target, vectors) = load("moe");
    for (fault, damage) in FAULTS {
        let mut damaged = target.clone();
        damage(&mut damaged);
        let difference = compare(&damaged, &vectors).expect_err(fault);
        println!("{fault}: {difference}");
    }
}

/// A fault's name and what it does to a target.
type Fault = (&'static str, fn(&mut ReferenceTarget));

const FAULTS: &[Fault] = &[
    ("rope base of the class default", |target| target.config.rope_theta = 1e6),
    ("routed scale left out", |target| target.config.mixture.as_mut().expect("a mixture").scale = 1.0),
    ("expert bias left out", |target| {
        for layer in &mut target.layers {
            if let FeedForward::Mixture(mixture) = &mut layer.feed_forward {
                mixture.bias.fill(0.0);
            }
        }
    }),
    ("query norm left out", |target| {
        for layer in &mut target.layers {
            if let Operator::Attention(attention) = &mut layer.operator {
                attention.query_norm.fill(1.0);
            }
        }
    }),
];

#[test]
fn rejected_rows_leave_no_trace() {
    let (target, vectors) = load("moe");
    let prompt = vectors.tokens("prompt");
    let (first, rest) = prompt.split_at(10);
    for kept in 0..=4 {
        let mut state = target.start();
        target.forward(&mut state, first, &[]);
        let rejected: Vec<u32> = rest[..kept].iter().copied().chain([90, 91, 92]).collect();
        target.forward(&mut state, &rejected, &[]);
        state.truncate(first.len() + kept);
        let found = target.forward(&mut state, &rest[kept..], &[0, 2]);

        let mut fresh = target.start();
        let expected = target.forward(&mut fresh, &prompt, &[0, 2]);
        let rows = first.len() + kept..prompt.len();
        assert_eq!(found.hidden, expected.hidden.slice(rows.clone()), "{kept} rows kept");
        assert_eq!(found.taps, expected.taps.slice(rows), "{kept} rows kept");
        assert_eq!(state, fresh, "{kept} rows kept");
    }
}
