//! Commit: what a round's read-back does to its lanes.

use std::time::Duration;

use crate::accept::{self, End};
use crate::clock::{Clock, milliseconds};
use crate::deliver::{Committed, Delivery, Finish, Finished};
use crate::depth::Hold;
use crate::lanes::Lanes;
use crate::plan::Plan;
use crate::sequence::Sequence;
use crate::statistics::DraftOff;
use crate::target::{RoundOut, Target, TargetError, TokenId, Window, WindowOut};

impl<T: Target, C: Clock> Lanes<T, C> {
    /// Applies a round that ran.
    pub(crate) fn commit(&mut self, took: Duration) {
        let windows = self.plan.windows.len();
        assert_eq!(self.out.windows.len(), windows, "the target answered another number of windows");
        self.next_turns = self.plan.next_turns;
        self.totals.rounds += 1;
        self.totals.rows += self.plan.tokens.len() as u64;
        self.learn_costs(took);
        for index in 0..windows {
            self.commit_window(index);
        }
    }

    /// The table is corrected here too, once there are bands. A round with prompt rows says little of either.
    fn learn_costs(&mut self, took: Duration) {
        let lanes = self.plan.decoding;
        if lanes == self.plan.windows.len() {
            self.overheads.note(lanes, milliseconds(took), self.plan.table_ms);
        }
    }

    fn commit_window(&mut self, index: usize) {
        let window = &self.plan.windows[index];
        let lane = window.lane;
        let sequence = self.running[lane].as_mut().expect("a planned lane runs a sequence");
        let result = Outcome::read(&self.plan, &self.out, index);
        let Some((tokens, end)) = sequence.apply(window, self.plan.holds[index], &result) else { return };
        self.totals.reply_tokens += tokens.len() as u64;
        self.totals.drafts += window.drafts as u64;
        self.totals.accepted += result.accepted as u64;
        let id = sequence.id;
        let finished = end.map(|end| {
            self.totals.finished += 1;
            let reason = match end {
                End::Stop => Finish::Stop,
                End::Length => Finish::Length,
            };
            Box::new(Finished { reason, statistics: self.release(lane).statistics })
        });
        self.deliveries.push(Delivery { id, tokens, finished });
    }

    /// After a round that failed and left all lanes as they were: a sequence that was alone in it is at fault,
    /// and several are each tried alone next.
    pub(crate) fn blame(&mut self, error: &TargetError) {
        self.totals.failed_rounds += 1;
        if let [window] = &self.plan.windows[..] {
            let lane = window.lane;
            let sequence = self.release(lane);
            return self.fail(sequence, error);
        }
        for window in &self.plan.windows {
            self.running[window.lane].as_mut().expect("a planned lane runs a sequence").suspect = true;
        }
    }
}

/// What a window got, checked against what it asked.
struct Outcome<'a> {
    drawn: &'a [TokenId],
    accepted: usize,
    held: &'a [crate::target::HeldDraft],
}

impl<'a> Outcome<'a> {
    fn read(plan: &Plan, out: &'a RoundOut, index: usize) -> Self {
        let window = &plan.windows[index];
        let WindowOut { drawn, accepted, held } = &out.windows[index];
        let (drawn, held, accepted) = (&out.drawn[drawn.clone()], &out.held[held.clone()], *accepted);
        let lane = window.lane;
        assert!(
            held.len() <= window.hold,
            "lane {lane} asked for {} drafts and got {}",
            window.hold,
            held.len()
        );
        let expected = if window.draws {
            accept::accepted(&plan.tokens[window.tokens.end - window.drafts..window.tokens.end], drawn)
        } else {
            assert!(drawn.is_empty(), "lane {lane} drew {} tokens in the middle of its prompt", drawn.len());
            0
        };
        assert_eq!(
            accepted, expected,
            "the target's accepted drafts in lane {lane} are not those of its draws"
        );
        Outcome { drawn, accepted, held }
    }
}

impl Sequence {
    /// Moves it past a window: what it committed, and whether that ends it; nothing in the middle of a prompt.
    fn apply(&mut self, window: &Window, hold: Hold, got: &Outcome<'_>) -> Option<(Committed, Option<End>)> {
        assert_eq!(window.position, self.cached, "lane {} ran at another position", window.lane);
        self.suspect = false;
        self.cached += window.tokens.len() - window.drafts + got.accepted;
        if !window.draws {
            self.statistics.prompt_rounds += 1;
            return None;
        }

        if self.held.position == window.position {
            self.rates.judge(&self.held.drafts, got.drawn);
        }
        let confirmed = &got.drawn[..=got.accepted];
        let (count, end) = accept::cut(confirmed, &self.stop_tokens, self.tokens_left());
        self.tokens.extend(&confirmed[..count]);
        self.statistics.reply_tokens += count;
        self.statistics.count_window(window.drafts, got.accepted, got.held.len());
        self.hold_state = hold.next;
        if self.drafted {
            let off = hold.is_off() && self.statistics.drafted_rounds == 0;
            self.statistics.draft_off = off.then_some(DraftOff::WouldNotPay);
        }
        self.held.position = self.cached;
        self.held.drafts.clear();
        self.held.drafts.extend_from_slice(got.held);
        Some((Committed::new(&confirmed[..count]), end))
    }
}
