//! Commit: what a round's read-back does to its lanes.

use std::time::Duration;

use crate::accept::{self, End};
use crate::allocate::Holding;
use crate::calibrate::ConfidenceSample;
use crate::chances::{LANE_WEIGHT, Rates, SHARED_WEIGHT};
use crate::clock::{Clock, milliseconds};
use crate::debt::Debt;
use crate::deliver::{Committed, Delivery, Finish, Finished, Origin};
use crate::depth::Hold;
use crate::guard::{GuardedRound, Side};
use crate::guards::Scale;
use crate::lanes::Lanes;
use crate::live_costs::Sample;
use crate::offers::Offered;
use crate::plan::{Judged, Plan};
use crate::planted::Planted;
use crate::sequence::Sequence;
use crate::statistics::{DraftOff, WindowCounts};
use crate::target::{RoundOut, Target, TargetError, TokenId, TokenLogprob, Window, WindowOut};

impl<T: Target, C: Clock> Lanes<T, C> {
    /// Applies a round that ran.
    pub(crate) fn commit(&mut self, took: Duration) {
        let windows = self.plan.windows.len();
        assert_eq!(self.out.windows.len(), windows, "the target answered another number of windows");
        self.next_turns = self.plan.next_turns;
        let steady = self.is_steady();
        let tokens_before = self.totals.reply_tokens;
        let mut absorbed = 0;
        for index in 0..windows {
            absorbed += self.commit_window(index);
        }
        self.count_round();
        let ended = self.deliveries.iter().any(|delivery| delivery.finished.is_some());
        let tokens = self.totals.reply_tokens - tokens_before;
        let (took_ms, absorb_ms) = (milliseconds(took), self.absorbing.ms(absorbed));
        self.learn_costs(took_ms, absorbed);
        self.tell_guard(took_ms, absorb_ms, tokens as f64, steady && !ended);
        if self.options.planted == Some(Planted::DebtsForgotten) {
            self.guards.debt = Debt::default();
        }
    }

    /// Whether every lane has been in decode for a round.
    fn is_steady(&self) -> bool {
        let sequence = |window: &Window| self.running[window.lane].as_ref();
        self.plan.windows.iter().filter_map(sequence).all(|sequence| sequence.statistics.rounds >= 2)
    }

    fn count_round(&mut self) {
        let Plan { windows, side, judged, .. } = &self.plan;
        let drafted = windows.iter().any(|window| window.drafts > 0);
        self.totals.rounds += 1;
        self.totals.rows += self.plan.rows() as u64;
        self.totals.drafted_rounds += u64::from(drafted);
        self.totals.copied_rounds += u64::from(self.plan.offered.contains(&Offered::Copy));
        self.totals.plain_rounds += u64::from(!drafted && windows.iter().any(|window| window.draws));
        self.totals.guarded_rounds += u64::from(*side == Side::Plain && *judged == Judged::Yes);
    }

    /// A round with prompt rows says little of what rounds of decode cost.
    fn learn_costs(&mut self, took_ms: f64, absorbed: usize) {
        let lanes = self.plan.decoding;
        let planted = self.options.planted;
        if lanes == self.plan.windows.len() && planted != Some(Planted::LiveCostsForgotten) {
            let lone_ms = self.options.costs.round_ms(1);
            let beyond_ms = took_ms - self.plan.expected_ms - self.overheads.ms(lanes);
            self.absorbing.note(absorbed, beyond_ms, lone_ms);
            let took_ms = took_ms - self.absorbing.ms(absorbed);
            self.overheads.note(lanes, took_ms, self.plan.expected_ms);
            let sample = Sample {
                band: self.plan.key.band,
                rows: self.plan.rows(),
                holding: self.plan.holding,
                took_ms,
                distinct_experts: match planted {
                    Some(Planted::ExpertsForgotten) => 0,
                    _ => self.out.distinct_experts,
                },
            };
            self.live_costs.note(&self.options.costs, &sample);
        }
    }

    fn tell_guard(&mut self, took_ms: f64, absorb_ms: f64, tokens: f64, counts: bool) {
        let Plan { key, side, judged, windows, .. } = &self.plan;
        if *judged == Judged::No {
            self.owe(took_ms, absorb_ms);
            return self.guards.interrupt();
        }
        let costs = self.live_costs.costs(&self.options.costs, key.band);
        let plain_ms = |lanes| costs.ms(lanes, Holding::default());
        let scale = key.scale(windows.len(), self.limits.lanes, plain_ms);
        let scale = match self.options.planted {
            Some(Planted::LaneCountsMixed) => Scale { ms: 1.0, tokens: 1.0 },
            _ => scale,
        };
        let fair_ms = tokens * plain_ms(windows.len()) / windows.len() as f64;
        let [took_ms, absorb_ms, fair_ms, plain_ms] =
            [took_ms, absorb_ms, fair_ms, plain_ms(windows.len())].map(|ms| ms * scale.ms);
        let tokens = tokens * scale.tokens;
        let was_plain = windows.iter().all(|window| window.drafts == 0 && window.hold == 0);
        match judged {
            Judged::Yes => {
                let unbounded = self.options.planted == Some(Planted::ProbesForFree);
                self.guards.note(
                    *key,
                    &GuardedRound {
                        side: *side,
                        was_plain,
                        took_ms,
                        absorb_ms,
                        plain_ms,
                        fair_ms,
                        tokens,
                        counts,
                        unbounded,
                    },
                );
            }
            Judged::AsPlain if counts => self.guards.note_plain(*key, took_ms - absorb_ms, tokens),
            Judged::AsPlain | Judged::No => self.guards.interrupt(),
        }
    }

    /// Prices what a round did for drafting that says nothing to its guard: by the table, since what else such rounds do
    /// takes far longer.
    fn owe(&mut self, took_ms: f64, absorb_ms: f64) {
        let Plan { key, side, windows, offered, holding, .. } = &self.plan;
        let costs = self.live_costs.costs(&self.options.costs, key.band);
        let lanes = windows.iter().filter(|window| window.draws).count().max(1);
        let plain_ms = costs.ms(lanes, Holding::default());
        if *side == Side::Plain {
            return self.guards.debt.spend(absorb_ms, took_ms, plain_ms);
        }
        let of_drafts = |(index, window): (usize, &Window)| match offered[index] {
            Offered::Held | Offered::Copy => (window.drafts, self.out.windows[index].accepted),
            Offered::Forced | Offered::Nothing => (0, 0),
        };
        let (drafts, accepted) =
            windows.iter().enumerate().map(of_drafts).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let drafted_ms = costs.ms(lanes + drafts, *holding) - plain_ms;
        // A token that is there early saves a later round the row of it; the round itself others still need.
        let row_ms = costs.ms(lanes + 1, Holding::default()) - plain_ms;
        let gained_ms = accepted as f64 * row_ms;
        self.guards.debt.absorb(absorb_ms);
        self.guards.debt.spend(drafted_ms + absorb_ms - gained_ms, took_ms, plain_ms);
    }

    /// Rows that the drafter took up.
    fn commit_window(&mut self, index: usize) -> usize {
        let window = &self.plan.windows[index];
        let lane = window.lane;
        let sequence = self.running[lane].as_mut().expect("a planned lane runs a sequence");
        let result = Outcome::read(&self.plan, &self.out, index);
        let applied = Applied {
            window,
            hold: self.plan.holds[index],
            drafts: &self.plan.tokens[window.tokens.end - window.drafts..window.tokens.end],
            offered: self.plan.offered[index],
            guarded: self.plan.side == Side::Plain && sequence.may_draft(),
            lone: self.plan.windows.len() == 1,
            round: self.round,
        };
        if self.plan.offered[index] == Offered::Held && self.confidences.len() < self.confidences.capacity() {
            self.confidences.push(sequence.confidence_sample(window.drafts, result.accepted));
        }
        let committed = sequence.apply(&applied, &result, &mut self.rates);
        let absorbed = sequence.absorb(window.hold > 0, self.limits.page);
        let Some((tokens, end)) = committed else { return absorbed };
        self.totals.count_window(&applied.counts(&result), tokens.len());
        let logprobs = result.logprobs_of(tokens.len(), sequence.logprobs);
        let id = sequence.id;
        let finish = match end {
            Some(End::Stop) => Some(Finish::Stop),
            Some(End::Length) => Some(Finish::Length),
            None => sequence.follow(&tokens, self.round).err().map(Finish::from),
        };
        let finished = finish.map(|reason| {
            let totals = &mut self.totals;
            let count = if reason.is_failure() { &mut totals.failed } else { &mut totals.finished };
            *count += 1;
            Box::new(Finished { reason, statistics: self.release(lane).statistics })
        });
        self.deliveries.push(Delivery { id, tokens, logprobs, finished });
        absorbed
    }

    /// After a round that failed and left all lanes as they were: a sequence that was alone in it is at fault,
    /// and several are each tried alone next.
    pub(crate) fn blame(&mut self, error: &TargetError) {
        self.totals.failed_rounds += 1;
        if let [window] = &self.plan.windows[..] {
            let lane = window.lane;
            let sequence = self.release(lane);
            return self.fail(sequence, error.into());
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
    logprobs: &'a [TokenLogprob],
}

impl<'a> Outcome<'a> {
    fn read(plan: &Plan, out: &'a RoundOut, index: usize) -> Self {
        let window = &plan.windows[index];
        let WindowOut { drawn, accepted, held, logprobs } = &out.windows[index];
        let (drawn, held, accepted) = (&out.drawn[drawn.clone()], &out.held[held.clone()], *accepted);
        let logprobs = &out.logprobs[logprobs.clone()];
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
        Outcome { drawn, accepted, held, logprobs }
    }

    /// Those of the first `count` draws, with so many alternatives each if any are asked for.
    fn logprobs_of(&self, count: usize, alternatives: Option<usize>) -> Vec<TokenLogprob> {
        let width = alternatives.map_or(0, |alternatives| 1 + alternatives);
        let (found, draws) = (self.logprobs.len(), self.drawn.len());
        assert_eq!(found, draws * width, "{draws} draws with {width} log-probabilities each");
        self.logprobs[..count * width].to_vec()
    }
}

/// A window and how it came about.
struct Applied<'a> {
    window: &'a Window,
    hold: Hold,
    drafts: &'a [TokenId],
    /// Where the drafts are from.
    offered: Offered,
    /// Whether its guard kept it plain.
    guarded: bool,
    /// Whether no other lane had rows.
    lone: bool,
    round: u64,
}

impl Applied<'_> {
    fn counts(&self, got: &Outcome<'_>) -> WindowCounts {
        WindowCounts {
            verified: self.drafts.len(),
            accepted: got.accepted,
            held: got.held.len(),
            offered: self.offered,
            guarded: self.guarded,
        }
    }
}

impl Sequence {
    /// Moves it past a window: what it committed, and whether that ends it; nothing in the middle of a prompt.
    fn apply(
        &mut self,
        applied: &Applied<'_>,
        got: &Outcome<'_>,
        shared: &mut Rates,
    ) -> Option<(Committed, Option<End>)> {
        let window = applied.window;
        assert_eq!(window.position, self.cached, "lane {} ran at another position", window.lane);
        self.suspect = false;
        self.cached += window.rows() - window.drafts + got.accepted;
        if !window.draws {
            self.statistics.prompt_rounds += 1;
            return None;
        }

        let confirmed = &got.drawn[..=got.accepted];
        self.judge_drafts(applied, confirmed, shared);
        let (count, end) = accept::cut(confirmed, &self.stop_tokens, self.tokens_left());
        self.tokens.extend(&confirmed[..count]);
        if let Some(copies) = &mut self.copies {
            copies.learn(&self.tokens);
        }
        self.statistics.reply_tokens += count;
        self.statistics.count_window(&applied.counts(got));
        self.hold_state = applied.hold.next;
        self.say_why_off(applied.hold);
        self.held.position = self.cached;
        self.held.drafts.clear();
        self.held.drafts.extend_from_slice(got.held);
        let origin = match applied.offered {
            Offered::Copy => Origin::Copy,
            Offered::Forced => Origin::Forced,
            Offered::Held | Offered::Nothing => Origin::Draft,
        };
        Some((Committed::new(&confirmed[..count], got.accepted, origin), end))
    }

    /// Held drafts are judged by the confirmed tokens even where others had the rows. They count for the rates of
    /// all lanes too.
    fn judge_drafts(&mut self, applied: &Applied<'_>, confirmed: &[TokenId], shared: &mut Rates) {
        if self.held.position == applied.window.position {
            let drafts = self.held.drafts.iter().map(|draft| draft.token);
            self.rates.judge(drafts.clone(), confirmed, LANE_WEIGHT);
            shared.judge(drafts, confirmed, SHARED_WEIGHT);
        }
        match applied.offered {
            Offered::Copy => {
                if let Some(copies) = &mut self.copies {
                    copies.judge(applied.drafts, confirmed, applied.round, applied.lone);
                }
            }
            Offered::Forced => {
                if let Some(constrained) = &mut self.constrained {
                    constrained.rates.judge(applied.drafts.iter().copied(), confirmed, LANE_WEIGHT);
                }
            }
            Offered::Held | Offered::Nothing => {}
        }
    }

    fn say_why_off(&mut self, hold: Hold) {
        let statistics = &mut self.statistics;
        let off = match statistics.draft_off {
            Some(reason @ (DraftOff::NotAsked | DraftOff::NoDrafter)) if statistics.drafted_rounds == 0 => {
                Some(reason)
            }
            _ if 2 * statistics.guarded_rounds > statistics.rounds => Some(DraftOff::MeasuredSlower),
            _ if hold.is_off() && statistics.drafted_rounds == 0 => Some(DraftOff::WouldNotPay),
            _ => None,
        };
        statistics.draft_off = off;
    }

    fn confidence_sample(&self, verified: usize, accepted: usize) -> ConfidenceSample {
        ConfidenceSample::new(self.rule.temperature > 0.0, &self.held.drafts, verified, accepted)
    }
}
