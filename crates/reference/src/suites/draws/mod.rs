//! Draws: committed vectors that every device must reproduce, token for token.
//!
//! The file holds rules, seeds and positions with the token that each draws, and the words of Philox
//! against the known answers that were published with it. It was made by `cargo run -p forerunner-reference
//! --example make_draw_vectors` and changes only when the meaning of a draw does.

mod cases;
mod vectors;

use forerunner_tensor::{
    Device, DeviceError, DrawRow, DrawTables, FLAG_COUNTS, FLAG_LOGIT_BIAS, PROMPT_SEEN, Rows,
};

use super::report::Report;
use crate::oracle::philox4x32_10;

pub use cases::generate;
pub use vectors::{DrawVector, PhiloxVector, Vectors, hashed_logit};

/// Runs all vectors, in one call of [`Device::draw`] a vocabulary.
pub fn run<D: Device>(device: &D) -> Report {
    let vectors = Vectors::committed();
    let mut report = Report::new("draws", device.name(), device.mode());
    for vector in &vectors.philox {
        let words = philox4x32_10(vector.key, vector.counter);
        check(&mut report, "philox", words == vector.words, || format!("{vector:x?} gave {words:x?}"));
    }
    let mut vocabularies: Vec<usize> = vectors.draws.iter().map(|vector| vector.vocabulary).collect();
    vocabularies.sort_unstable();
    vocabularies.dedup();
    for vocabulary in vocabularies {
        let of_size: Vec<&DrawVector> =
            vectors.draws.iter().filter(|vector| vector.vocabulary == vocabulary).collect();
        match drawn(device, vocabulary, &of_size) {
            Ok(drawn) => compare(&mut report, &of_size, &drawn),
            Err(error) => report.error("device", format!("draw of {vocabulary}: {error}")),
        }
    }
    report
}

fn compare(report: &mut Report, vectors: &[&DrawVector], drawn: &[i32]) {
    for (vector, token) in vectors.iter().zip(drawn) {
        check(report, group(&vector.group), *token == vector.token, || {
            format!("drew {token}, expected {} by {vector:?}", vector.token)
        });
    }
}

fn check(report: &mut Report, group: &'static str, passed: bool, explain: impl FnOnce() -> String) {
    report.check(group, if passed { 0.0 } else { f64::INFINITY }, explain);
}

/// The group's name as reports keep it.
fn group(name: &str) -> &'static str {
    cases::GROUPS.iter().map(|group| group.name).find(|known| *known == name).unwrap_or("unknown")
}

/// Draws one row a vector, each in a lane of its own.
fn drawn<D: Device>(device: &D, vocabulary: usize, vectors: &[&DrawVector]) -> Result<Vec<i32>, DeviceError> {
    let drafts: Vec<i32> = vectors.iter().flat_map(|vector| vector.drafts.iter().copied()).collect();
    let mut rows = Rows::new(device, drafts.len().max(1))?;
    rows.count = drafts.len();
    device.upload(&mut rows.token, 0, &drafts);
    let mut first_draft_row = 0;
    let mut rules = Vec::new();
    for (lane, vector) in vectors.iter().enumerate() {
        rules.push(rule(vector, lane, first_draft_row));
        first_draft_row += vector.drafts.len() as i32;
    }
    let logits: Vec<f32> = vectors.iter().flat_map(|vector| vector.logits()).collect();
    let (logits, rules) = (filled(device, &logits)?, filled(device, &rules)?);
    let tables = tables(device, vocabulary, vectors)?;
    let mut drawn = device.allocate(vectors.len())?;
    device.draw(&logits, &rules, &rows, &tables, vectors.len(), &mut drawn);
    let mut tokens = vec![0; vectors.len()];
    device.download(&drawn, 0, &mut tokens)?;
    Ok(tokens)
}

/// The rule of a vector that has table row `lane` to itself.
fn rule(vector: &DrawVector, lane: usize, first_draft_row: i32) -> DrawRow {
    let mut flags = 0;
    if !(vector.prompt.is_empty() && vector.reply.is_empty() && vector.drafts.is_empty()) {
        flags |= FLAG_COUNTS;
    }
    if !vector.bias.is_empty() {
        flags |= FLAG_LOGIT_BIAS;
    }
    DrawRow {
        lane: lane as i32,
        flags,
        mask: if vector.allowed.is_empty() { -1 } else { lane as i32 },
        first_draft_row,
        draft_rows: vector.drafts.len() as i32,
        ..vector.plain_rule()
    }
}

fn tables<D: Device>(
    device: &D,
    vocabulary: usize,
    vectors: &[&DrawVector],
) -> Result<DrawTables<D>, DeviceError> {
    let words = vocabulary.div_ceil(32);
    let mut counts = vec![0u32; vectors.len() * vocabulary];
    let mut bias = vec![0f32; vectors.len() * vocabulary];
    let mut masks = vec![0u32; vectors.len() * words];
    for (lane, vector) in vectors.iter().enumerate() {
        for token in &vector.reply {
            counts[lane * vocabulary + token] += 1;
        }
        for token in &vector.prompt {
            counts[lane * vocabulary + token] |= PROMPT_SEEN;
        }
        for (token, value) in &vector.bias {
            bias[lane * vocabulary + token] += value;
        }
        for token in &vector.allowed {
            masks[lane * words + token / 32] |= 1 << (token % 32);
        }
    }
    Ok(DrawTables {
        vocabulary,
        counts: filled(device, &counts)?,
        logit_bias: filled(device, &bias)?,
        masks: filled(device, &masks)?,
    })
}

fn filled<D: Device, T: forerunner_tensor::Element>(
    device: &D,
    values: &[T],
) -> Result<D::Buffer<T>, DeviceError> {
    let mut buffer = device.allocate(values.len())?;
    device.upload(&mut buffer, 0, values);
    Ok(buffer)
}
