//! What a faulty device does to an operation's inputs before the oracle computes with them.

use std::mem::take;

use forerunner_tensor::{
    ALTERNATIVES, CONV_RING, ConvRing, DeviceWindow, DrawRow, DrawTables, FLAG_LOGIT_BIAS, HeadShape,
    KeyValuePages, NO_LANE, PROMPT_SEEN, PageTable, RopeTable, Routing, Rows, bf16,
};

use super::{Fault, Faulty};
use crate::oracle::{OracleDevice, OracleMatrix};

/// Row counts above this are "many".
pub(super) const FEW_ROWS: usize = 8;

/// The rows as the oracle takes them, with what the fault does to them.
pub(super) fn rows(fault: Option<Fault>, rows: &Rows<Faulty>) -> Rows<OracleDevice> {
    let mut plain: Rows<OracleDevice> = Rows {
        count: rows.count,
        token: rows.token.clone(),
        lane: rows.lane.clone(),
        position: rows.position.clone(),
        key_end: rows.key_end.clone(),
    };
    match fault {
        Some(Fault::PadRowsWrite | Fault::PadRowsPick) => {
            plain.lane.iter_mut().filter(|lane| **lane == NO_LANE).for_each(|lane| *lane = 0);
        }
        Some(Fault::LastKeyUnseen) => {
            plain.key_end.iter_mut().for_each(|end| *end = (*end - 1).max(1));
        }
        Some(Fault::RingOffByOne) => plain.position.iter_mut().for_each(|position| *position += 1),
        Some(Fault::RingReadBeforeStart) => {
            plain.position.iter_mut().for_each(|position| *position += CONV_RING as i32);
        }
        Some(Fault::ChainOffByOne) => plain.position.iter_mut().for_each(|position| *position -= 1),
        _ => {}
    }
    plain
}

/// Moves the pages out; [`put_back`] returns them.
pub(super) fn pages(pages: &mut KeyValuePages<Faulty>) -> KeyValuePages<OracleDevice> {
    KeyValuePages { keys: take(&mut pages.keys), values: take(&mut pages.values) }
}

/// See [`pages`].
pub(super) fn put_back(plain: KeyValuePages<OracleDevice>, pages: &mut KeyValuePages<Faulty>) {
    pages.keys = plain.keys;
    pages.values = plain.values;
}

pub(super) fn page_table(fault: Option<Fault>, table: &PageTable<Faulty>) -> PageTable<OracleDevice> {
    let mut pages = table.pages.clone();
    if fault == Some(Fault::PagesInOrder) {
        pages.iter_mut().enumerate().for_each(|(index, page)| *page = index as i32);
        // The buffer's slack has no pages.
        pages.iter_mut().for_each(|page| *page = (*page).min(table.pages.len() as i32 - 6));
    }
    PageTable { pages_per_lane: table.pages_per_lane, pages }
}

/// The rope table, a position further on if that is the fault.
pub(super) fn rope(fault: Option<Fault>, rope: &RopeTable<Faulty>) -> RopeTable<OracleDevice> {
    let mut cos_sin = rope.cos_sin.clone();
    if fault == Some(Fault::RopeOffByOne) {
        cos_sin.rotate_left(rope.head_dim);
    }
    RopeTable { positions: rope.positions, head_dim: rope.head_dim, cos_sin }
}

/// The ring, empty for every lane of the forward if that is the fault.
pub(super) fn ring(
    fault: Option<Fault>,
    ring: &mut ConvRing<Faulty>,
    rows: &Rows<OracleDevice>,
    channels: usize,
) -> ConvRing<OracleDevice> {
    let mut gated = take(&mut ring.gated);
    if fault == Some(Fault::ConvForgetsHistory) {
        for lane in rows.lane[..rows.count].iter().filter(|lane| **lane != NO_LANE) {
            let start = *lane as usize * CONV_RING * channels;
            gated[start..start + CONV_RING * channels].fill(bf16::ZERO);
        }
    }
    ConvRing { gated }
}

/// Rows of `width` values with each row reversed: with the weights reversed too, sums run the other way.
pub(super) fn reversed(values: &[bf16], width: usize) -> Vec<bf16> {
    values.chunks(width).flat_map(|row| row.iter().rev()).copied().collect()
}

/// See [`reversed`].
pub(super) fn reversed_matrix(matrix: &OracleMatrix) -> OracleMatrix {
    OracleMatrix { values: reversed(&matrix.values, matrix.columns), ..*matrix }
}

/// Query heads with their values reversed; keys and values stay.
pub(super) fn reversed_queries(stacked: &[bf16], shape: HeadShape) -> Vec<bf16> {
    let queries = shape.query_heads * shape.head_dim;
    let row = |row: &[bf16]| {
        let split = queries.min(row.len());
        [reversed(&row[..split], shape.head_dim), row[split..].to_vec()].concat()
    };
    stacked.chunks(shape.stacked_width()).flat_map(row).collect()
}

pub(super) fn routing(fault: Option<Fault>, routing: &Routing<Faulty>) -> Routing<OracleDevice> {
    let mut weights = routing.weights.clone();
    if fault == Some(Fault::ExpertWeightsForgotten) {
        weights.fill(1.0);
    }
    Routing { experts: routing.experts.clone(), weights, distinct: routing.distinct.clone() }
}

/// Sampling rules with what the fault does to them.
pub(super) fn rules(fault: Option<Fault>, rules: &[DrawRow]) -> Vec<DrawRow> {
    let mut rules = rules.to_vec();
    for (row, rule) in rules.iter_mut().enumerate() {
        match fault {
            Some(Fault::DrawKeyedByRow) => rule.position = rule.position.wrapping_add(row as u32),
            Some(Fault::TopKOffByOne) if rule.top_k > 0 => rule.top_k += 1,
            Some(Fault::TopPIgnored) => rule.top_p = 1.0,
            Some(Fault::MinPIgnored) => rule.min_p = 0.0,
            Some(Fault::HighSeedIgnored) => rule.seed_high = 0,
            Some(Fault::ChoiceIgnored) => rule.choice = 0,
            Some(Fault::DraftsUnseen) => rule.draft_rows = 0,
            Some(Fault::BiasIgnored) => rule.flags &= !FLAG_LOGIT_BIAS,
            Some(Fault::MaskIgnored) => rule.mask = -1,
            Some(Fault::RulesDisturbed) => disturb(row, rule),
            _ => {}
        }
    }
    rules
}

fn disturb(row: usize, rule: &mut DrawRow) {
    let change = if row.is_multiple_of(2) { 1e-6 } else { -1e-6 };
    rule.temperature *= 1.0 + change;
    rule.min_p *= 1.0 + change;
    if rule.top_p < 1.0 {
        rule.top_p += change;
    }
}

pub(super) fn draw_tables(fault: Option<Fault>, tables: &DrawTables<Faulty>) -> DrawTables<OracleDevice> {
    let mut counts = tables.counts.clone();
    if fault == Some(Fault::PromptCountsAsReply) {
        counts.iter_mut().filter(|count| **count & PROMPT_SEEN != 0).for_each(|count| *count += 1);
    }
    DrawTables {
        vocabulary: tables.vocabulary,
        counts,
        logit_bias: tables.logit_bias.clone(),
        masks: tables.masks.clone(),
    }
}

/// Logits in place of log-probabilities.
pub(super) fn unnormalize(
    logits: &[f32],
    vocabulary: usize,
    index: &[i32],
    tokens: &[i32],
    values: &mut [f32],
) {
    for (place, value) in values.iter_mut().enumerate().take(index.len() * (1 + ALTERNATIVES)) {
        let row = usize::try_from(index[place / (1 + ALTERNATIVES)]);
        if let (Ok(row), Ok(token)) = (row, usize::try_from(tokens[place])) {
            *value = logits[row * vocabulary + token];
        }
    }
}

/// The windows, with blocks numbered as they come if that is the fault.
pub(super) fn windows(fault: Option<Fault>, windows: &[DeviceWindow]) -> Vec<DeviceWindow> {
    let mut windows = windows.to_vec();
    if fault == Some(Fault::BlocksInWindowOrder) {
        let with_block = windows.iter_mut().filter(|window| window.block >= 0);
        with_block.enumerate().for_each(|(index, window)| window.block = index as i32);
    }
    windows
}
