//! A round's device arrays, built on the host in memory that is kept from round to round.

use forerunner_lanes::{Limits, MAX_ALTERNATIVES, PendingSource, Round, Window};
use forerunner_tensor::{ALTERNATIVES, DeviceWindow, DrawRow, FLAG_COUNTS, PAGE};

use super::lane::Lane;

/// Host copies of everything a round uploads and reads back.
#[derive(Default)]
pub(super) struct Staging {
    /// The round's windows, as asked for.
    pub(super) planned: Vec<Window>,
    pub(super) tokens: Vec<i32>,
    pub(super) lanes: Vec<i32>,
    pub(super) positions: Vec<i32>,
    pub(super) key_ends: Vec<i32>,
    pub(super) windows: Vec<DeviceWindow>,
    /// Rows that draw, and by which rule.
    pub(super) draw_index: Vec<i32>,
    pub(super) rules: Vec<DrawRow>,
    /// Draws whose log-probabilities are asked for, and with how many alternatives each window asks.
    pub(super) logprob_index: Vec<i32>,
    pub(super) alternatives: Vec<Option<usize>>,
    /// One rule a draft block.
    pub(super) block_rules: Vec<DrawRow>,
    /// Deepest hold asked for.
    pub(super) depth: usize,
    /// Whether the drafter follows any lane of the round.
    pub(super) tapped: bool,
    /// Tapped rows that wait for a later round: from which row, to which.
    pub(super) keep_from: Vec<i32>,
    pub(super) keep_to: Vec<i32>,
    /// Rows that the drafter absorbs in this round.
    pub(super) absorb: AbsorbRows,
    /// Whether every draw is a plain argmax.
    pub(super) plain_greedy: bool,
    /// Whether a window continues with tokens of the round before.
    pub(super) continued: bool,
}

/// Stands for a token that only the device knows.
const UNKNOWN: i32 = 0;

/// Rows of the drafter's context to be made.
#[derive(Default)]
pub(super) struct AbsorbRows {
    /// Where their taps are ([`TapStore`]).
    pub(super) index: Vec<i32>,
    pub(super) lanes: Vec<i32>,
    pub(super) positions: Vec<i32>,
}

/// Where tapped rows are: a round's own rows first, then `PAGE` rows a lane that wait to be absorbed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TapStore {
    /// Most rows of a round.
    pub(super) rows: usize,
}

impl TapStore {
    /// Where a lane's tapped row of `position` waits.
    fn waiting(self, lane: usize, position: usize) -> i32 {
        (self.rows + lane * PAGE + position % PAGE) as i32
    }
}

/// Entries that the device gives for a draw whose log-probabilities are asked for: itself and its alternatives.
pub(super) const LOGPROB_WIDTH: usize = 1 + ALTERNATIVES;

const _: () = assert!(MAX_ALTERNATIVES <= ALTERNATIVES);

impl Staging {
    /// Lays the windows of round number `number` out as rows.
    pub(super) fn fill(&mut self, round: &Round<'_>, number: u64, lanes: &[Option<Lane>], limits: &Limits) {
        self.clear();
        self.planned.extend_from_slice(round.windows);
        for window in round.windows {
            let lane = lanes[window.lane].as_ref().expect("a window's lane is open");
            self.push_window(round, window, lane, TapStore { rows: limits.rows });
            self.set_previous(window, lane, number);
        }
        for (index, mask) in round.masks.iter().enumerate() {
            let first_draw = self.windows[mask.window].first_draw as usize;
            self.rules[first_draw + mask.draw].mask = index as i32;
            self.plain_greedy = false;
        }
        assert!(self.tokens.len() <= limits.rows, "{} rows exceed {}", self.tokens.len(), limits.rows);
    }

    fn clear(&mut self) {
        self.planned.clear();
        self.tokens.clear();
        self.lanes.clear();
        self.positions.clear();
        self.key_ends.clear();
        self.windows.clear();
        self.draw_index.clear();
        self.rules.clear();
        self.logprob_index.clear();
        self.alternatives.clear();
        self.block_rules.clear();
        self.depth = 0;
        self.tapped = false;
        self.keep_from.clear();
        self.keep_to.clear();
        self.absorb.index.clear();
        self.absorb.lanes.clear();
        self.absorb.positions.clear();
        self.plain_greedy = true;
        self.continued = false;
    }

    fn push_window(&mut self, round: &Round<'_>, window: &Window, lane: &Lane, store: TapStore) {
        let length = lane.length() + lane.queued;
        assert_eq!(window.position, length, "lane {}'s window starts elsewhere", window.lane);
        assert!(window.hold == 0 || (window.draws && lane.drafted), "lane {} may not hold", window.lane);
        let first_row = self.tokens.len();
        if window.pending == PendingSource::LastDraw {
            self.tokens.push(UNKNOWN);
        }
        self.tokens.extend(round.tokens[window.tokens.clone()].iter().map(|token| *token as i32));
        let row_count = self.tokens.len() - first_row;
        assert!(row_count > window.drafts, "lane {}'s window has no row before its drafts", window.lane);
        for position in window.position..window.position + row_count {
            self.lanes.push(window.lane as i32);
            self.positions.push(position as i32);
            self.key_ends.push(position as i32 + 1);
        }
        self.alternatives.push(lane.logprobs);
        let first_draw = if window.draws { self.draw_index.len() as i32 } else { -1 };
        if window.draws {
            self.push_draws(window, lane, first_row + row_count - window.drafts);
        }
        if lane.drafted {
            self.push_taps(window, lane, first_row, store);
        }
        let block = self.push_block(window, lane);
        self.windows.push(DeviceWindow {
            lane: window.lane as i32,
            first_row: first_row as i32,
            row_count: row_count as i32,
            draft_count: window.drafts as i32,
            first_draw,
            block,
            counted: i32::from(lane.rule.flags & FLAG_COUNTS != 0),
            previous: -1,
        });
    }

    /// Where the device finds the tokens that it holds itself: those of a lane that had a window in the round
    /// before this one.
    fn set_previous(&mut self, window: &Window, lane: &Lane, number: u64) {
        let last = lane.last_window.filter(|(round, _)| round + 1 == number);
        match (window.pending, last) {
            (PendingSource::Host, _) | (PendingSource::Held, None) => {}
            (PendingSource::Held | PendingSource::LastDraw, Some((_, index))) => {
                self.windows.last_mut().expect("just pushed").previous = index as i32;
                self.continued = true;
            }
            (PendingSource::LastDraw, None) => panic!("lane {} has drawn nothing to go on with", window.lane),
        }
    }

    fn push_draws(&mut self, window: &Window, lane: &Lane, first_draft_row: usize) {
        self.plain_greedy &= lane.rule.temperature == 0.0 && lane.rule.flags == 0;
        if lane.logprobs.is_some() {
            let first_draw = self.draw_index.len() as i32;
            self.logprob_index.extend(first_draw..=first_draw + window.drafts as i32);
        }
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

    /// Says where the window's tapped rows go: into the drafter's context when it is about to draft, when a page
    /// ends, so that a full page always holds context; otherwise they wait.
    fn push_taps(&mut self, window: &Window, lane: &Lane, first_row: usize, store: TapStore) {
        self.tapped = true;
        let end = window.position + self.tokens.len() - first_row;
        let rows = (window.position..end).zip(first_row as i32..);
        let is_due = window.hold > 0 || end / PAGE > lane.absorbed / PAGE;
        if !is_due {
            for (position, row) in rows {
                self.keep_from.push(row);
                self.keep_to.push(store.waiting(window.lane, position));
            }
            return;
        }
        let waiting = lane.absorbed..window.position;
        let waiting = waiting.map(|position| (position, store.waiting(window.lane, position)));
        for (position, index) in waiting.chain(rows) {
            self.absorb.index.push(index);
            self.absorb.lanes.push(window.lane as i32);
            self.absorb.positions.push(position as i32);
        }
    }

    /// Says which token window `index`, whose token only the device knew, began with.
    pub(super) fn learn(&mut self, index: usize, token: i32) {
        self.tokens[self.windows[index].first_row as usize] = token;
    }

    /// Tokens of window `index` that stay when `accepted` of its drafts do.
    pub(super) fn kept_tokens(&self, index: usize, accepted: usize) -> &[i32] {
        let window = &self.windows[index];
        let rows = window.row_count as usize - window.draft_count as usize + accepted;
        &self.tokens[window.first_row as usize..][..rows]
    }

    /// Whether the drafter absorbs the lane's rows in this round.
    pub(super) fn absorbs(&self, lane: usize) -> bool {
        self.absorb.lanes.contains(&(lane as i32))
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
