//! The file of vectors, and the logits that it names by number.

use std::fmt::Write;

use forerunner_tensor::DrawRow;
use serde::{Deserialize, Serialize};

/// What `vectors/draws.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vectors {
    /// How logits follow from a vector's `set`, in words.
    pub formula: String,
    /// Known answers of Philox4x32-10.
    pub philox: Vec<PhiloxVector>,
    /// Draws.
    pub draws: Vec<DrawVector>,
}

/// Four random words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhiloxVector {
    /// Low word, high word.
    pub key: [u32; 2],
    /// First word first.
    pub counter: [u32; 4],
    /// What comes out.
    pub words: [u32; 4],
}

/// A draw and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawVector {
    /// What it is to show.
    pub group: String,
    /// Tokens.
    pub vocabulary: usize,
    /// Number of the logits, see [`hashed_logit`].
    pub set: u32,
    /// Whether the logits are rounded down to whole numbers, so that many are equal.
    pub whole: bool,
    /// See [`DrawRow`], as for the fields that follow.
    pub seed: u64,
    /// Which of the request's choices.
    pub choice: u32,
    /// Position of the token that is drawn.
    pub position: u32,
    /// 0 for greedy.
    pub temperature: f32,
    /// 0 for all.
    pub top_k: u32,
    /// 1 for all.
    pub top_p: f32,
    /// 0 for all.
    pub min_p: f32,
    /// 1 for none.
    pub repetition_penalty: f32,
    /// 0 for none.
    pub presence_penalty: f32,
    /// 0 for none.
    pub frequency_penalty: f32,
    /// Tokens of the prompt; with the next two empty as well, no counts apply.
    pub prompt: Vec<usize>,
    /// Tokens of the reply so far.
    pub reply: Vec<usize>,
    /// Drafts before the row.
    pub drafts: Vec<i32>,
    /// Logit bias of single tokens.
    pub bias: Vec<(usize, f32)>,
    /// Tokens that the mask allows; empty for no mask.
    pub allowed: Vec<usize>,
    /// What is drawn.
    pub token: i32,
}

/// How [`hashed_logit`] is described in the file.
pub(super) const FORMULA: &str = "in 32-bit words: h = set * 0x9E3779B1 + token * 0x85EBCA77 + 0x165667B1; \
    h ^= h >> 15; h *= 0x2C1B3C6D; h ^= h >> 12; h *= 0x297A2D39; h ^= h >> 15; \
    logit = (h >> 8) / 2^20 - 8, rounded down to a whole number where `whole` is set";

/// A logit in `[-8, 8)` that fp32 holds exactly; [`Vectors::formula`] says the same.
pub fn hashed_logit(set: u32, token: u32) -> f32 {
    let mut hash =
        set.wrapping_mul(0x9E37_79B1).wrapping_add(token.wrapping_mul(0x85EB_CA77)).wrapping_add(0x1656_67B1);
    hash = (hash ^ hash >> 15).wrapping_mul(0x2C1B_3C6D);
    hash = (hash ^ hash >> 12).wrapping_mul(0x297A_2D39);
    hash ^= hash >> 15;
    (hash >> 8) as f32 / 1_048_576.0 - 8.0
}

impl DrawVector {
    /// The row that is drawn from.
    pub fn logits(&self) -> Vec<f32> {
        let logit = |token| hashed_logit(self.set, token);
        let tokens = 0..self.vocabulary as u32;
        if self.whole {
            tokens.map(|token| logit(token).floor()).collect()
        } else {
            tokens.map(logit).collect()
        }
    }

    /// The rule without what depends on tables.
    pub(super) fn plain_rule(&self) -> DrawRow {
        DrawRow {
            seed_low: self.seed as u32,
            seed_high: (self.seed >> 32) as u32,
            choice: self.choice,
            position: self.position,
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            ..DrawRow::default()
        }
    }
}

impl Vectors {
    /// The committed file.
    ///
    /// # Panics
    /// If it does not parse.
    pub fn committed() -> Self {
        serde_json::from_str(include_str!("../../../vectors/draws.json"))
            .expect("vectors/draws.json is as the generator wrote it")
    }

    /// The file's text: one vector a line.
    pub fn to_text(&self) -> String {
        let mut text = String::from("{\n\"formula\": ");
        text.push_str(&line(&self.formula));
        let lists = [
            ("philox", self.philox.iter().map(line).collect::<Vec<_>>()),
            ("draws", self.draws.iter().map(line).collect()),
        ];
        for (name, lines) in lists {
            write!(text, ",\n\"{name}\": [\n{}\n]", lines.join(",\n")).expect("a string takes all text");
        }
        text.push_str("\n}\n");
        text
    }
}

fn line<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain values have a JSON form")
}
