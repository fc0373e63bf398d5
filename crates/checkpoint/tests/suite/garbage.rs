//! Bytes that mean nothing: whatever they are, opening and reading never panics.

use std::path::Path;

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint};

use crate::tiny::{Scratch, Tiny, all_weights, safetensors};

/// Opens the target in `directory` and, when it opens, reads all of it.
fn exercise(directory: &Path) {
    if let Ok(target) = TargetCheckpoint::open(directory) {
        assert!(!all_weights(&target).is_empty());
        assert!(target.summary().bytes > 0);
    }
}

/// A sequence that looks random and is the same every time.
fn scramble(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn weights_cut_anywhere_are_refused() {
    let scratch = Scratch::new();
    let tiny = Tiny::dense();
    tiny.write(&scratch.0);
    let whole = safetensors(&tiny.tensors);
    let header = u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize + 8;
    let path = scratch.0.join("model.safetensors");
    for length in (0..header + 16).chain((header..whole.len()).step_by(997)) {
        std::fs::write(&path, &whole[..length]).expect("weights");
        assert!(TargetCheckpoint::open(&scratch.0).is_err(), "cut to {length} bytes of {}", whole.len());
    }
}

#[test]
fn flipped_bytes_of_a_header_never_panic() {
    let scratch = Scratch::new();
    let tiny = Tiny::dense();
    tiny.write(&scratch.0);
    let whole = safetensors(&tiny.tensors);
    let header = u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize + 8;
    let path = scratch.0.join("model.safetensors");
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for index in 0..header {
        let mut bytes = whole.clone();
        bytes[index] ^= (scramble(&mut state) % 255 + 1) as u8;
        std::fs::write(&path, bytes).expect("weights");
        exercise(&scratch.0);
    }
}

#[test]
fn other_digits_in_a_header_never_panic() {
    let scratch = Scratch::new();
    let tiny = Tiny::mixture();
    tiny.write(&scratch.0);
    let whole = safetensors(&tiny.tensors);
    let header = u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize + 8;
    let digits: Vec<usize> = (8..header).filter(|index| whole[*index].is_ascii_digit()).collect();
    let mut state = 0x2545_f491_4f6c_dd1d;
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..=scramble(&mut state) % 3 {
            let index = digits[scramble(&mut state) as usize % digits.len()];
            bytes[index] = b'0' + (scramble(&mut state) % 10) as u8;
        }
        std::fs::write(scratch.0.join("model.safetensors"), bytes).expect("weights");
        exercise(&scratch.0);
    }
}

#[test]
fn damaged_configurations_never_panic() {
    let scratch = Scratch::new();
    let target = Tiny::mixture();
    target.write(&scratch.0);
    let (_keep, opened) = target.open().expect("the target");
    let drafters = Scratch::new();
    let drafter = Tiny::drafter();
    drafter.write(&drafters.0);
    let mut state = 0xd134_2543_de82_ef95;
    for (directory, config) in [(&scratch.0, &target.config), (&drafters.0, &drafter.config)] {
        let text = config.to_string().into_bytes();
        for index in 0..text.len() {
            let mut cut = text.clone();
            cut.truncate(index);
            let mut flipped = text.clone();
            // A digit is as likely as any byte: those still parse.
            flipped[index] = match scramble(&mut state) % 2 {
                0 => b'0' + (scramble(&mut state) % 10) as u8,
                _ => scramble(&mut state) as u8,
            };
            for bytes in [cut, flipped] {
                std::fs::write(directory.join("config.json"), bytes).expect("config.json");
                exercise(directory);
                // Whatever comes of it, it comes as a value.
                drop(DrafterCheckpoint::open(directory, opened.config()));
            }
        }
    }
}
