//! A round's device arrays, built on the host in memory that is kept from round to round.

use forerunner_lanes::{Limits, PendingSource, Round, Window};
use forerunner_tensor::{Accepted, DeviceWindow, DrawRow, FLAG_COUNTS};

use super::lane::Lane;

/// Host copies of everything a round uploads and reads back.
#[derive(Default)]
pub(super) struct Staging {
    pub(super) tokens: Vec<i32>,
    pub(super) lanes: Vec<i32>,
    pub(super) positions: Vec<i32>,
    pub(super) key_ends: Vec<i32>,
    pub(super) windows: Vec<DeviceWindow>,
    /// Rows that draw, and by which rule.
    pub(super) draw_index: Vec<i32>,
    pub(super) rules: Vec<DrawRow>,
    /// One rule a draft block.
    pub(super) block_rules: Vec<DrawRow>,
    /// Deepest hold asked for.
    pub(super) depth: usize,
    /// Whether the drafter follows any lane of the round.
    pub(super) absorb: bool,
    /// Whether every draw is a plain argmax.
    pub(super) plain_greedy: bool,
    /// What the round's read-back filled.
    pub(super) outcome: Outcome,
}

/// A round's read-back.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) drawn: Vec<i32>,
    pub(super) accepted: Vec<Accepted>,
    pub(super) distinct: Vec<i32>,
    pub(super) drafts: Vec<i32>,
    pub(super) confidence: Vec<f32>,
}

impl Staging {
    /// Empty staging for a model of `layers` layers.
    pub(super) fn new(layers: usize) -> Self {
        let outcome = Outcome { distinct: vec![0; layers], ..Outcome::default() };
        Staging { outcome, ..Staging::default() }
    }

    /// Lays the round's windows out as rows.
    pub(super) fn fill(&mut self, round: &Round<'_>, lanes: &[Option<Lane>], limits: &Limits) {
        self.clear();
        for window in round.windows {
            let lane = lanes[window.lane].as_ref().expect("a window's lane is open");
            self.push_window(round, window, lane);
        }
        for (index, mask) in round.masks.iter().enumerate() {
            let first_draw = self.windows[mask.window].first_draw as usize;
            self.rules[first_draw + mask.draw].mask = index as i32;
            self.plain_greedy = false;
        }
        assert!(self.tokens.len() <= limits.rows, "{} rows exceed {}", self.tokens.len(), limits.rows);
        self.outcome.drawn.resize(self.draw_index.len(), 0);
        self.outcome.accepted.resize(self.windows.len(), Accepted::default());
        let slots = self.block_rules.len() * limits.block;
        self.outcome.drafts.resize(slots, 0);
        self.outcome.confidence.resize(slots, 0.0);
    }

    fn clear(&mut self) {
        self.tokens.clear();
        self.lanes.clear();
        self.positions.clear();
        self.key_ends.clear();
        self.windows.clear();
        self.draw_index.clear();
        self.rules.clear();
        self.block_rules.clear();
        self.depth = 0;
        self.absorb = false;
        self.plain_greedy = true;
    }

    fn push_window(&mut self, round: &Round<'_>, window: &Window, lane: &Lane) {
        assert_eq!(window.position, lane.length, "lane {}'s window starts elsewhere", window.lane);
        assert!(window.hold == 0 || (window.draws && lane.drafted), "lane {} may not hold", window.lane);
        let first_row = self.tokens.len();
        if window.pending == PendingSource::LastDraw {
            assert!(lane.anchor >= 0, "lane {} has drawn nothing yet", window.lane);
            self.tokens.push(lane.anchor);
        }
        self.tokens.extend(round.tokens[window.tokens.clone()].iter().map(|token| *token as i32));
        let row_count = self.tokens.len() - first_row;
        assert!(row_count > window.drafts, "lane {}'s window has no row before its drafts", window.lane);
        for position in window.position..window.position + row_count {
            self.lanes.push(window.lane as i32);
            self.positions.push(position as i32);
            self.key_ends.push(position as i32 + 1);
        }
        let first_draw = if window.draws { self.draw_index.len() as i32 } else { -1 };
        if window.draws {
            self.push_draws(window, lane, first_row + row_count - window.drafts);
        }
        self.absorb |= lane.drafted;
        let block = self.push_block(window, lane);
        self.windows.push(DeviceWindow {
            lane: window.lane as i32,
            first_row: first_row as i32,
            row_count: row_count as i32,
            draft_count: window.drafts as i32,
            first_draw,
            block,
            counted: i32::from(lane.rule.flags & FLAG_COUNTS != 0),
            reserved: 0,
        });
    }

    fn push_draws(&mut self, window: &Window, lane: &Lane, first_draft_row: usize) {
        self.plain_greedy &= lane.rule.temperature == 0.0 && lane.rule.flags == 0;
        for drafts_before in 0..=window.drafts {
            let row = first_draft_row - 1 + drafts_before;
            self.draw_index.push(row as i32);
            self.rules.push(DrawRow {
                position: self.positions[row] as u32 + 1,
                first_draft_row: first_draft_row as i32,
                draft_rows: drafts_before as i32,
                ..lane.rule
            });
        }
    }

    fn push_block(&mut self, window: &Window, lane: &Lane) -> i32 {
        if window.hold == 0 {
            return -1;
        }
        self.depth = self.depth.max(window.hold);
        self.block_rules.push(lane.rule);
        self.block_rules.len() as i32 - 1
    }
}
