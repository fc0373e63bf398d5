//! Acceptance, the drafter's block rows, and the chain that draws drafts one after another.

use forerunner_tensor::{Accepted, DeviceWindow, DrawRow, DrawTables, MarkovHead, NO_LANE, Rows, bf16};

use crate::CpuDevice;
use crate::arithmetic::Arithmetic;
use crate::draw::{counts_of, draw_row};
use crate::grid::{Grid, over_rows};
use crate::linear::linear;
use crate::markov::{MarkovStep, can_prune};
use crate::memory::Scratch;
use crate::norm::rows_a_chunk;
use crate::pool::Pool;
use crate::weights::View;

/// Writes the tokens with which windows continue from the round before.
pub(crate) fn held_tokens(
    windows: &[DeviceWindow],
    accepted: &[Accepted],
    drafts: &[i32],
    size: usize,
    rows: &mut Rows<CpuDevice>,
) {
    for window in windows.iter().filter(|window| window.lane != NO_LANE && window.previous >= 0) {
        let Accepted { anchor, block, .. } = accepted[window.previous as usize];
        let tokens = &mut rows.token[window.first_row as usize..][..window.row_count as usize];
        tokens[0] = anchor;
        if window.draft_count > 0 {
            tokens[1..].copy_from_slice(&drafts[block as usize * size..][..window.draft_count as usize]);
        }
    }
}

/// Accepts each window's drafts while they equal the draws of the rows before them. A pad window gets nothing
/// and the length 0.
pub(crate) fn accept(
    windows: &[DeviceWindow],
    rows: &Rows<CpuDevice>,
    drawn: &[i32],
    tables: &mut DrawTables<CpuDevice>,
    accepted: &mut [Accepted],
) {
    for (window, accepted) in windows.iter().zip(accepted) {
        *accepted = Accepted { anchor: -1, block: -1, ..Accepted::default() };
        if window.lane == NO_LANE {
            continue;
        }
        *accepted = accept_window(window, rows, drawn);
        if window.counted == 1 && window.first_draw >= 0 {
            let committed = &drawn[window.first_draw as usize..][..accepted.drafts as usize + 1];
            for token in committed {
                tables.counts[window.lane as usize * tables.vocabulary + *token as usize] += 1;
            }
        }
    }
}

/// The accepted drafts equal the draws before them, so the draws alone say what was committed.
fn accept_window(window: &DeviceWindow, rows: &Rows<CpuDevice>, drawn: &[i32]) -> Accepted {
    let given = window.row_count - window.draft_count;
    let length = rows.position[window.first_row as usize] + given;
    if window.first_draw < 0 {
        return Accepted { drafts: 0, anchor: -1, length, block: -1 };
    }
    let drafts = &rows.token[(window.first_row + given) as usize..][..window.draft_count as usize];
    let draws = &drawn[window.first_draw as usize..][..drafts.len() + 1];
    let equal = drafts.iter().zip(draws).take_while(|(draft, draw)| draft == draw).count();
    Accepted {
        drafts: equal as i32,
        anchor: draws[equal],
        length: length + equal as i32,
        block: window.block,
    }
}

/// Fills the rows of each window's block; the other blocks become pad rows.
pub(crate) fn draft_rows(
    windows: &[DeviceWindow],
    accepted: &[Accepted],
    size: usize,
    mask_token: i32,
    block_rows: &mut Rows<CpuDevice>,
) {
    block_rows.lane[..block_rows.count].fill(NO_LANE);
    for (window, accepted) in windows.iter().zip(accepted) {
        if window.lane == NO_LANE || window.block < 0 {
            continue;
        }
        for offset in 0..size {
            let row = window.block as usize * size + offset;
            block_rows.lane[row] = window.lane;
            block_rows.token[row] = if offset == 0 { accepted.anchor } else { mask_token };
            block_rows.position[row] = accepted.length + offset as i32;
            block_rows.key_end[row] = accepted.length + size as i32;
        }
    }
}

/// Scratch of [`Chain::run`].
pub(crate) struct ChainScratch {
    embeddings: Scratch<bf16>,
    joined: Scratch<bf16>,
    logits: Scratch<f32>,
    tokens: Scratch<i32>,
    blocks: Vec<usize>,
}

impl ChainScratch {
    pub(crate) fn new() -> Self {
        ChainScratch {
            embeddings: Scratch::new(),
            joined: Scratch::new(),
            logits: Scratch::new(),
            tokens: Scratch::new(),
            blocks: Vec::new(),
        }
    }
}

/// What the chains of all blocks read.
pub(crate) struct Chain<'a> {
    pub(crate) head: &'a MarkovHead<CpuDevice>,
    pub(crate) hidden: &'a [bf16],
    pub(crate) hidden_width: usize,
    pub(crate) logits: &'a [f32],
    pub(crate) rules: &'a [DrawRow],
    pub(crate) block_rows: &'a Rows<CpuDevice>,
    pub(crate) tables: &'a DrawTables<CpuDevice>,
    pub(crate) size: usize,
    pub(crate) depth: usize,
}

impl Chain<'_> {
    /// Draws the drafts of all blocks, one step of all blocks after another; pad blocks get none.
    pub(crate) fn run<A: Arithmetic>(
        &self,
        pool: &Pool,
        scratch: &mut ChainScratch,
        blocks: usize,
        drafts: &mut [i32],
        confidence: &mut [f32],
    ) {
        let ChainScratch { embeddings, joined, logits, tokens, blocks: live } = scratch;
        live.clear();
        live.extend((0..blocks).filter(|block| {
            self.block_rows.lane[block * self.size] != NO_LANE && self.rules[*block].lane != NO_LANE
        }));
        let rank = self.head.previous.columns();
        let embeddings = embeddings.take(live.len() * rank);
        let tokens = tokens.take(live.len());
        for step in 0..self.depth.min(self.size) {
            for (embedding, block) in embeddings.chunks_exact_mut(rank).zip(live.iter()) {
                let row = block * self.size + step;
                let token = if step == 0 { self.block_rows.token[row] } else { drafts[row - 1] };
                self.head.previous.read_row(token as usize, embedding);
                self.write_confidence::<A>(row, embedding, joined, confidence);
            }
            if live.iter().all(|block| can_prune(&self.rules[*block])) {
                self.pruned_step::<A>(pool, step, live, embeddings, drafts, tokens);
            } else {
                let logits = logits.take(live.len() * self.tables.vocabulary);
                self.step::<A>(pool, step, live, embeddings, logits, drafts, tokens);
            }
            for (block, token) in live.iter().zip(tokens.iter()) {
                drafts[block * self.size + step] = *token;
            }
        }
    }

    /// The rule of a block's step.
    fn rule(&self, block: usize, step: usize) -> DrawRow {
        DrawRow {
            position: self.block_rows.position[block * self.size + step] as u32 + 1,
            first_draft_row: 0,
            draft_rows: 0,
            ..self.rules[block]
        }
    }

    /// As `step`, where few tokens can win.
    fn pruned_step<A: Arithmetic>(
        &self,
        pool: &Pool,
        step: usize,
        live: &[usize],
        embeddings: &[bf16],
        drafts: &[i32],
        tokens: &mut [i32],
    ) {
        let (vocabulary, rank) = (self.tables.vocabulary, self.head.next.columns());
        let chunk = rows_a_chunk(pool, live.len(), 0.2 * vocabulary as f32);
        over_rows(pool, &mut Grid::new(tokens, 1), live.len(), chunk, |index, token| {
            let row = live[index] * self.size + step;
            let rule = self.rule(live[index], step);
            let step = MarkovStep {
                next: &self.head.next,
                embedding: &embeddings[index * rank..(index + 1) * rank],
                logits: &self.logits[row * vocabulary..(row + 1) * vocabulary],
                rule: &rule,
                counts: counts_of(&rule, self.tables),
                drafts: &drafts[row - step..row],
            };
            token[0] = step.draw::<A>();
        });
    }

    /// One token a block.
    fn step<A: Arithmetic>(
        &self,
        pool: &Pool,
        step: usize,
        live: &[usize],
        embeddings: &[bf16],
        logits: &mut [f32],
        drafts: &[i32],
        tokens: &mut [i32],
    ) {
        let vocabulary = self.tables.vocabulary;
        for (logits, block) in logits.chunks_exact_mut(vocabulary).zip(live) {
            let row = block * self.size + step;
            logits.copy_from_slice(&self.logits[row * vocabulary..(row + 1) * vocabulary]);
        }
        linear::<A, f32>(pool, &self.head.next, embeddings, live.len(), logits, |logit, bias| *logit += bias);
        let logits = &*logits;
        let chunk = rows_a_chunk(pool, live.len(), 0.1 * vocabulary as f32);
        over_rows(pool, &mut Grid::new(tokens, 1), live.len(), chunk, |index, token| {
            let first = live[index] * self.size;
            let rule = self.rule(live[index], step);
            let logits = &logits[index * vocabulary..(index + 1) * vocabulary];
            token[0] = draw_row::<A>(logits, &rule, self.tables, &drafts[first..first + step]);
        });
    }

    /// `w · [hidden ; embedding] + b` in fp32.
    fn write_confidence<A: Arithmetic>(
        &self,
        row: usize,
        embedding: &[bf16],
        joined: &mut Scratch<bf16>,
        confidence: &mut [f32],
    ) {
        let Some((weight, bias)) = &self.head.confidence else { return };
        let width = self.hidden_width + embedding.len();
        let joined = joined.take(width);
        let (first, second) = joined.split_at_mut(self.hidden_width);
        first.copy_from_slice(&self.hidden[row * self.hidden_width..(row + 1) * self.hidden_width]);
        second.copy_from_slice(embedding);
        let mut sum = [0.0];
        A::products(View::Dense(&weight[..width]), width, 0..1, joined, 1, &mut sum, 1);
        confidence[row] = sum[0] + bias[0].to_f32();
    }
}
