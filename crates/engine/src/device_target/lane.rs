//! What the target knows of an open lane.

use forerunner_lanes::{OpenLane, SamplingRule};
use forerunner_tensor::{Device, DrawRow, DrawTables, FLAG_COUNTS, FLAG_LOGIT_BIAS, PROMPT_SEEN};

/// An open lane.
pub(super) struct Lane {
    /// Committed length.
    pub(super) length: usize,
    /// The last draw, -1 before the first.
    pub(super) anchor: i32,
    /// Whether the drafter follows it.
    pub(super) drafted: bool,
    /// Its pages, in position order.
    pub(super) pages: Vec<i32>,
    /// Its sampling rule, without position.
    pub(super) rule: DrawRow,
}

impl Lane {
    /// An empty lane that holds `pages`.
    pub(super) fn new(index: usize, open: &OpenLane<'_>, pages: Vec<i32>) -> Self {
        Lane { length: 0, anchor: -1, drafted: open.drafted, pages, rule: draw_row(index, open.rule) }
    }

    /// Writes the lane's counts and logit bias, where its rule reads them.
    pub(super) fn upload_tables<D: Device>(
        &self,
        device: &D,
        open: &OpenLane<'_>,
        tables: &mut DrawTables<D>,
    ) {
        let offset = self.rule.lane as usize * tables.vocabulary;
        if self.rule.flags & FLAG_COUNTS != 0 {
            let mut counts = vec![0u32; tables.vocabulary];
            for token in open.prompt {
                counts[*token as usize] = PROMPT_SEEN;
            }
            device.upload(&mut tables.counts, offset, &counts);
        }
        if self.rule.flags & FLAG_LOGIT_BIAS != 0 {
            let mut bias = vec![0f32; tables.vocabulary];
            for (token, value) in &open.rule.logit_bias {
                bias[*token as usize] += value;
            }
            device.upload(&mut tables.logit_bias, offset, &bias);
        }
    }
}

fn draw_row(lane: usize, rule: &SamplingRule) -> DrawRow {
    let counted =
        rule.repetition_penalty != 1.0 || rule.presence_penalty != 0.0 || rule.frequency_penalty != 0.0;
    let mut flags = 0;
    if counted {
        flags |= FLAG_COUNTS;
    }
    if !rule.logit_bias.is_empty() {
        flags |= FLAG_LOGIT_BIAS;
    }
    DrawRow {
        seed_low: rule.seed as u32,
        seed_high: (rule.seed >> 32) as u32,
        choice: rule.choice,
        temperature: rule.temperature,
        top_k: rule.top_k,
        top_p: rule.top_p,
        min_p: rule.min_p,
        repetition_penalty: rule.repetition_penalty,
        presence_penalty: rule.presence_penalty,
        frequency_penalty: rule.frequency_penalty,
        lane: lane as i32,
        flags,
        ..DrawRow::default()
    }
}
