//! Sampling rules, tables and logits of a lane: every filter alone, and all of them together.

use std::collections::BTreeSet;

use forerunner_tensor::{
    Device, DeviceError, DrawRow, DrawTables, FLAG_COUNTS, FLAG_LOGIT_BIAS, PROMPT_SEEN,
};

use super::host::upload;
use crate::suites::inputs::Random;
use crate::suites::places::{Layout, Place};

/// The rule by which a lane draws; eight lanes show all of them.
pub(super) fn rule(lane: usize) -> DrawRow {
    let seed = Random::new(&[30, lane as u64]).word();
    let plain = DrawRow {
        seed_low: seed as u32,
        seed_high: (seed >> 32) as u32,
        choice: lane as u32 % 3,
        lane: lane as i32,
        ..DrawRow::default()
    };
    let penalized = DrawRow {
        flags: FLAG_COUNTS,
        repetition_penalty: 1.3,
        presence_penalty: 1.5,
        frequency_penalty: 0.5,
        ..plain
    };
    match lane % 8 {
        0 => plain,
        1 => penalized,
        2 => DrawRow { temperature: 1.0, ..plain },
        3 => DrawRow { temperature: 0.8, top_k: 5, ..plain },
        4 => DrawRow { temperature: 1.2, top_p: 0.9, ..plain },
        5 => DrawRow { temperature: 1.7, min_p: 0.05, flags: FLAG_LOGIT_BIAS, ..plain },
        6 => DrawRow { temperature: 1.0, mask: lane as i32, ..penalized },
        _ => DrawRow {
            temperature: 1.5,
            top_k: 20,
            top_p: 0.95,
            min_p: 0.01,
            mask: lane as i32,
            flags: FLAG_COUNTS | FLAG_LOGIT_BIAS,
            ..penalized
        },
    }
}

/// Counts, bias and one mask for each of `lanes` lanes.
pub(super) fn tables<D: Device>(
    device: &D,
    lanes: usize,
    vocabulary: usize,
) -> Result<DrawTables<D>, DeviceError> {
    let mut random = Random::new(&[31, vocabulary as u64]);
    let bias = random.floats(lanes * vocabulary, 3.0);
    let masks: Vec<u32> = (0..lanes * vocabulary.div_ceil(32)).map(|_| random.word() as u32).collect();
    Ok(DrawTables {
        vocabulary,
        counts: upload(device, &counts(lanes, vocabulary))?,
        logit_bias: upload(device, &bias)?,
        masks: upload(device, &masks)?,
    })
}

/// A quarter of the tokens stands in the prompt, a quarter in the reply, some of them in both.
pub(super) fn counts(lanes: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = Random::new(&[32, vocabulary as u64]);
    let mut count = || {
        let seen = if random.below(4) == 0 { PROMPT_SEEN } else { 0 };
        let times = if random.below(4) == 0 { 1 + random.below(3) as u32 } else { 0 };
        seen | times
    };
    (0..lanes * vocabulary).map(|_| count()).collect()
}

/// The lanes of a forward in order, one for each first row; `None` for each pad row.
pub(super) fn lanes_of(layout: &Layout) -> Vec<Option<usize>> {
    let mut seen = BTreeSet::new();
    let mut lanes = Vec::new();
    for place in layout {
        match place {
            Place::Row { lane, .. } if seen.insert(*lane) => lanes.push(Some(*lane)),
            Place::Row { .. } => {}
            Place::Pad => lanes.push(None),
        }
    }
    lanes
}

/// Index of a lane's first row in a forward.
pub(super) fn first_row(layout: &Layout, lane: usize) -> usize {
    let of_lane = |place: &Place| matches!(place, Place::Row { lane: other, .. } if *other == lane);
    layout.iter().position(of_lane).expect("the lane stands in the forward")
}
