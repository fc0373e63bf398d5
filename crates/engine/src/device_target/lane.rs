//! What the target knows of an open lane.

use forerunner_lanes::{OpenLane, SamplingRule, TokenId};
use forerunner_tensor::{Device, DrawRow, DrawTables, FLAG_COUNTS, FLAG_LOGIT_BIAS, PAGE, PROMPT_SEEN};

use crate::prefix::KeptPage;

/// An open lane.
pub(super) struct Lane {
    /// Committed tokens: those whose rows the target holds.
    pub(super) tokens: Vec<TokenId>,
    /// Tokens of the prompt.
    pub(super) prompt_tokens: usize,
    /// Positions that the drafter's context holds.
    pub(super) absorbed: usize,
    /// Rows of rounds that are queued and not read, those that are kept for certain.
    pub(super) queued: usize,
    /// The last round that it had a window in, and which.
    pub(super) last_window: Option<(u64, usize)>,
    /// The last draw, -1 before the first.
    pub(super) anchor: i32,
    /// Whether the drafter follows it.
    pub(super) drafted: bool,
    /// Its pages, in position order.
    pub(super) pages: Vec<i32>,
    /// Convolution states kept at the ends of its pages, by page.
    pub(super) snapshots: Vec<Option<usize>>,
    /// Its sampling rule, without position.
    pub(super) rule: DrawRow,
    /// Whether its draws come with log-probabilities, and with how many alternatives.
    pub(super) logprobs: Option<usize>,
}

impl Lane {
    /// A lane that holds `pages`, of which the first hold the prompt's first `held` tokens.
    pub(super) fn new(index: usize, open: &OpenLane<'_>, pages: Vec<i32>, held: usize) -> Self {
        Lane {
            tokens: open.prompt[..held].to_vec(),
            prompt_tokens: open.prompt.len(),
            absorbed: held,
            queued: 0,
            last_window: None,
            anchor: -1,
            drafted: open.drafted,
            snapshots: vec![None; pages.len()],
            pages,
            rule: draw_row(index, open.rule),
            logprobs: open.logprobs,
        }
    }

    /// Committed length.
    pub(super) fn length(&self) -> usize {
        self.tokens.len()
    }

    /// Full pages, with the states kept at their ends, which the lane gives away.
    pub(super) fn take_full_pages(&mut self) -> Vec<KeptPage> {
        let full = self.length() / PAGE;
        let pages = self.pages[..full].iter().zip(&mut self.snapshots);
        pages.map(|(page, snapshot)| KeptPage { page: *page, snapshot: snapshot.take() }).collect()
    }

    /// Whether the convolutions' state is to be kept at `end`, the end of a full page: after every fourth page,
    /// and where this prompt, or one that goes on from it, can be resumed last.
    pub(super) fn keeps_state_at(&self, end: usize) -> bool {
        let last = |tokens: usize| tokens / PAGE * PAGE;
        (end / PAGE).is_multiple_of(4)
            || end == last(self.prompt_tokens)
            || end == last(self.prompt_tokens - 1)
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
