//! Acceptance, the drafter's block rows, and the chain that draws drafts one after another.

use forerunner_tensor::{Accepted, DeviceWindow, DrawRow, DrawTables, MarkovHead, NO_LANE, Rows, bf16};

use super::OracleDevice;
use super::draws::draw_row;
use super::memory::dot;

/// Writes the tokens with which windows continue from the round before.
pub(super) fn held_tokens(
    windows: &[DeviceWindow],
    accepted: &[Accepted],
    drafts: &[i32],
    size: usize,
    rows: &mut Rows<OracleDevice>,
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

/// Accepts each window's drafts while they equal the draws of the rows before them. A pad window gets
/// nothing and the length 0.
pub(super) fn accept(
    windows: &[DeviceWindow],
    rows: &Rows<OracleDevice>,
    drawn: &[i32],
    tables: &mut DrawTables<OracleDevice>,
    accepted: &mut [Accepted],
) {
    for (window, accepted) in windows.iter().zip(accepted) {
        *accepted = Accepted { anchor: -1, block: -1, ..Accepted::default() };
        if window.lane != NO_LANE {
            *accepted = accept_window(window, rows, drawn);
            if window.counted == 1 && window.first_draw >= 0 {
                let committed = &drawn[window.first_draw as usize..][..accepted.drafts as usize + 1];
                for token in committed {
                    tables.counts[window.lane as usize * tables.vocabulary + *token as usize] += 1;
                }
            }
        }
    }
}

/// The accepted drafts equal the draws before them, so the draws alone say what was committed.
fn accept_window(window: &DeviceWindow, rows: &Rows<OracleDevice>, drawn: &[i32]) -> Accepted {
    let given = window.row_count - window.draft_count;
    let length = rows.position[window.first_row as usize] + given;
    if window.first_draw < 0 {
        return Accepted { drafts: 0, anchor: -1, length, block: -1 };
    }
    let drafts = &rows.token[(window.first_row + given) as usize..][..window.draft_count as usize];
    let draws = &drawn[window.first_draw as usize..][..window.draft_count as usize + 1];
    let equal = drafts.iter().zip(draws).take_while(|(draft, draw)| draft == draw).count();
    Accepted {
        drafts: equal as i32,
        anchor: draws[equal],
        length: length + equal as i32,
        block: window.block,
    }
}

/// Fills the rows of each window's block; the `block_rows.count / size` blocks are pad rows otherwise.
pub(super) fn draft_rows(
    windows: &[DeviceWindow],
    accepted: &[Accepted],
    size: usize,
    mask_token: i32,
    block_rows: &mut Rows<OracleDevice>,
) {
    block_rows.lane[..block_rows.count].fill(NO_LANE);
    for (window, accepted) in windows.iter().zip(accepted) {
        if window.lane == NO_LANE || window.block < 0 {
            continue;
        }
        for j in 0..size {
            let row = window.block as usize * size + j;
            block_rows.lane[row] = window.lane;
            block_rows.token[row] = if j == 0 { accepted.anchor } else { mask_token };
            block_rows.position[row] = accepted.length + j as i32;
            block_rows.key_end[row] = accepted.length + size as i32;
        }
    }
}

/// What the chain of every block reads.
pub(super) struct Chain<'a> {
    pub(super) head: &'a MarkovHead<OracleDevice>,
    pub(super) hidden: &'a [bf16],
    pub(super) hidden_width: usize,
    pub(super) logits: &'a [f32],
    pub(super) rules: &'a [DrawRow],
    pub(super) block_rows: &'a Rows<OracleDevice>,
    pub(super) tables: &'a DrawTables<OracleDevice>,
    pub(super) size: usize,
    pub(super) depth: usize,
}

impl Chain<'_> {
    /// Draws the block's drafts; a pad block gets none.
    pub(super) fn draft_block(&self, block: usize, drafts: &mut [i32], confidence: &mut [f32]) {
        let first = block * self.size;
        if self.block_rows.lane[first] == NO_LANE {
            return;
        }
        let mut token = self.block_rows.token[first];
        for j in 0..self.depth {
            let row = first + j;
            let embedding = self.head.previous.row(token as usize);
            if let Some((weight, bias)) = &self.head.confidence {
                confidence[row] = self.confidence(row, embedding, weight, bias[0]);
            }
            let rule = DrawRow {
                position: self.block_rows.position[row] as u32 + 1,
                first_draft_row: 0,
                draft_rows: 0,
                ..self.rules[block]
            };
            token = draw_row(&self.biased(row, embedding), &rule, self.tables, &drafts[first..row]);
            drafts[row] = token;
        }
    }

    /// `w · [hidden ; embedding] + b`, one fp32 sum over the joined vector.
    fn confidence(&self, row: usize, embedding: &[bf16], weight: &[bf16], bias: bf16) -> f32 {
        let hidden = &self.hidden[row * self.hidden_width..(row + 1) * self.hidden_width];
        let joined = [hidden, embedding].concat();
        dot(&weight[..joined.len()], &joined) + bias.to_f32()
    }

    /// The row's logits plus the bias that the token before it gives, in fp32.
    fn biased(&self, row: usize, embedding: &[bf16]) -> Vec<f32> {
        let vocabulary = self.tables.vocabulary;
        let logits = &self.logits[row * vocabulary..(row + 1) * vocabulary];
        let bias = self.head.next.multiply(embedding);
        logits.iter().zip(bias).map(|(logit, bias)| logit + bias).collect()
    }
}
