//! A guard: keeps one kind of round on its cheaper side, plain or drafted, and keeps asking about the other.
//!
//! It compares milliseconds per committed token, as a ratio of two averages: the average of each round's own
//! ratio would overstate the cost of drafting, because rounds that commit little weigh as much as rounds that
//! commit much.

/// What one round moves a drafted average: about the last hundred rounds count. A heavier weight follows the text
/// faster, but its noise alone then exceeds the differences that are to be seen.
const DRAFTED_WEIGHT: f64 = 0.02;

/// What one round moves a plain average. Plain rounds hardly differ, so that few say enough.
const PLAIN_WEIGHT: f64 = 0.2;

/// Standard errors that a difference must exceed.
const ERRORS: f64 = 2.0;

/// Drafted rounds before a difference is believed by its standard error: fewer say little of the error itself.
const DRAFTED_LEAST: u64 = 16;

/// Plain rounds before they are compared with.
const PLAIN_LEAST: u64 = 3;

/// Drafted rounds after which a gain counts by its size; a loss does from `DRAFTED_LEAST` on.
const SETTLED: u64 = 64;

/// Loss by which drafting is left once it exceeds one standard error: small, and believed early, because the floor is plain
/// speed and probes bring drafting back.
const LOSS_LEAST: f64 = 0.02;

/// Gain by which a settled guard takes drafting up: larger, so that it does not go to and fro.
const GAIN_LEAST: f64 = 0.05;

/// Share of the time on one side that asking about the other may cost. Plain rounds pay for absorbing too, and rounds that
/// nobody counts for drafts of their own, so that 3% is the whole of it.
const PROBE_BUDGET: f64 = 0.01;

/// Counted drafted rounds of a probe; the round before them, which only holds, is not counted.
const DRAFTED_PROBE: u64 = 8;

/// Counted plain rounds of a probe. The round before them is not counted either.
const PLAIN_PROBE: u64 = 3;

/// Rounds between two probes at least, when they cost nothing.
const REST: u64 = 32;

/// Plain rounds' worth of time that drafting may lose, beyond `SLACK`, before it is left without more evidence:
/// a dear mistake is not waited out.
const LOSS_MOST: f64 = 10.0;

/// Loss per token that is left to the slower rules.
const SLACK: f64 = 0.1;

/// Two ways to run a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// No drafts are verified and none are made.
    Plain,
    /// Drafts may be verified and made, as the allocation sees fit.
    Drafted,
}

/// What is known of one side.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SideRecord {
    /// Rounds that were counted.
    pub rounds: u64,
    /// Milliseconds of the average round.
    pub round_ms: f64,
    /// Tokens committed by the average round.
    pub tokens: f64,
    /// Average square of milliseconds beyond what the round's tokens take at the average speed.
    spread: f64,
}

impl SideRecord {
    /// Milliseconds per token.
    pub fn token_ms(&self) -> f64 {
        if self.tokens > 0.0 { self.round_ms / self.tokens } else { 0.0 }
    }

    fn note(&mut self, round_ms: f64, tokens: f64, weight: f64) {
        self.rounds += 1;
        let weight = weight.max(1.0 / self.rounds as f64);
        self.round_ms += weight * (round_ms - self.round_ms);
        self.tokens += weight * (tokens - self.tokens);
        let beyond = round_ms - tokens * self.token_ms();
        self.spread += weight * (beyond * beyond - self.spread);
    }

    /// Standard error of `token_ms`.
    fn error_ms(&self, weight: f64) -> f64 {
        if self.rounds == 0 || self.tokens <= 0.0 {
            return f64::INFINITY;
        }
        let share = (1.0 / self.rounds as f64).max(weight / (2.0 - weight));
        (self.spread * share).sqrt() / self.tokens
    }
}

/// A round that ran under a guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuardedRound {
    pub side: Side,
    /// Whether it had neither drafts nor holds, whichever side it was on.
    pub was_plain: bool,
    pub took_ms: f64,
    /// How much of that the drafter took to take up rows.
    pub absorb_ms: f64,
    /// What a plain round of its lanes takes, by the cost table.
    pub plain_ms: f64,
    /// What its tokens would take by such rounds.
    pub fair_ms: f64,
    pub tokens: f64,
    /// Whether it says what a round of its kind costs: no prompt rows, no lane that came or went, not the first
    /// round after a switch.
    pub counts: bool,
    /// A planted fault: its probes are free.
    pub unbounded: bool,
}

/// The state for one kind of round. It outlives requests.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub plain: SideRecord,
    pub drafted: SideRecord,
    /// The side that it holds to be cheaper.
    pub rests_on: Side,
    /// Loss per plain time that drafting is expected to have, until this guard has measured it.
    expected_loss: f64,
    probe: Option<Probe>,
    /// Milliseconds that probes may still lose; negative after one that lost more than it was expected to.
    budget_ms: f64,
    /// Milliseconds that drafting has lost beyond the slack, while it is rested on.
    lost_ms: f64,
    /// Rounds since the last probe or switch.
    rested: u64,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    counted_left: u64,
}

impl Guard {
    /// A guard with no rounds of its own that begins on a side: with drafting, where the cost table decides what
    /// is drafted; plain, where the guard of the next shorter contexts has ended.
    pub(crate) fn new(rests_on: Side, expected_loss: f64) -> Self {
        Guard {
            plain: SideRecord::default(),
            drafted: SideRecord::default(),
            rests_on,
            expected_loss,
            probe: None,
            budget_ms: 0.0,
            lost_ms: 0.0,
            rested: 0,
        }
    }

    /// The side of the next round.
    pub(crate) fn side(&self) -> Side {
        match (self.probe, self.rests_on) {
            (None, side) => side,
            (Some(_), Side::Plain) => Side::Drafted,
            (Some(_), Side::Drafted) => Side::Plain,
        }
    }

    /// Loss of drafting in proportion to plain time: negative when it gains. Nothing while one side is unknown.
    pub(crate) fn loss(&self) -> Option<f64> {
        let known = self.plain.rounds >= PLAIN_LEAST && self.drafted.rounds > 0;
        known.then(|| self.drafted.token_ms() / self.plain.token_ms() - 1.0)
    }

    /// Loss that a longer context's guard may begin with.
    pub(crate) fn loss_expected(&self) -> f64 {
        self.loss().unwrap_or(self.expected_loss)
    }

    /// Learns from a round.
    pub(crate) fn note(&mut self, round: &GuardedRound) {
        if round.counts {
            self.record(round);
        }
        self.account(round);
        self.rested += 1;
        if let Some(side) = self.better().filter(|&side| side != self.rests_on) {
            self.rest_on(side);
        }
        self.go_on(round);
    }

    /// Learns from a round that was plain because no lane of it may draft.
    pub(crate) fn note_plain(&mut self, took_ms: f64, tokens: f64) {
        self.plain.note(took_ms, tokens, PLAIN_WEIGHT);
    }

    fn record(&mut self, round: &GuardedRound) {
        if round.side == Side::Drafted {
            self.drafted.note(round.took_ms, round.tokens, DRAFTED_WEIGHT);
        }
        // A round of drafting that happened to be plain is as good as a plain one.
        if round.was_plain {
            self.plain.note(round.took_ms, round.tokens, PLAIN_WEIGHT);
        }
    }

    /// Time on the side that is rested on earns a budget, a probe spends what it loses.
    fn account(&mut self, round: &GuardedRound) {
        if self.probe.is_none() {
            self.budget_ms += PROBE_BUDGET * round.took_ms;
        } else {
            let resting = if self.rests_on == Side::Plain { &self.plain } else { &self.drafted };
            self.budget_ms -= round.took_ms - round.tokens * resting.token_ms();
        }
        let most = 2.0 * self.probe_price_ms().max(self.plain.round_ms);
        self.budget_ms = self.budget_ms.min(most);
        if self.rests_on == Side::Drafted && self.plain.rounds >= PLAIN_LEAST {
            let fair_ms = (1.0 + SLACK) * round.tokens * self.plain.token_ms();
            let drafted = round.side == Side::Drafted;
            self.lost_ms = (self.lost_ms + if drafted { round.took_ms - fair_ms } else { 0.0 }).max(0.0);
        }
    }

    /// The side that has been shown to be better than the other, if one has.
    fn better(&self) -> Option<Side> {
        let loss = self.loss()?;
        if self.rests_on == Side::Drafted && self.lost_ms > LOSS_MOST * self.plain.round_ms {
            return Some(Side::Plain);
        }
        let (plain, drafted) = (self.plain.error_ms(PLAIN_WEIGHT), self.drafted.error_ms(DRAFTED_WEIGHT));
        let error = (plain * plain + drafted * drafted).sqrt() / self.plain.token_ms();
        let is_seen = |least, errors| self.drafted.rounds >= least && loss.abs() > errors * error;
        let is_certain = is_seen(DRAFTED_LEAST, ERRORS);
        if loss > 0.0 {
            (is_certain || is_seen(DRAFTED_LEAST, 1.0) && loss > LOSS_LEAST).then_some(Side::Plain)
        } else {
            (is_certain || is_seen(SETTLED, 1.0) && -loss > GAIN_LEAST).then_some(Side::Drafted)
        }
    }

    fn rest_on(&mut self, side: Side) {
        self.rests_on = side;
        self.probe = None;
        self.budget_ms = 0.0;
        self.lost_ms = 0.0;
        self.rested = 0;
    }

    /// Ends a probe that has counted enough or costs too much, or begins one that the budget allows.
    fn go_on(&mut self, round: &GuardedRound) {
        if let Some(probe) = &mut self.probe {
            probe.counted_left -= u64::from(round.counts);
            let too_dear = self.plain.rounds > 0 && self.budget_ms < -LOSS_MOST * self.plain.round_ms;
            if probe.counted_left == 0 || too_dear {
                self.probe = None;
                self.rested = 0;
            }
        } else if self.probe_is_due() || round.unbounded && self.rested >= DRAFTED_PROBE {
            let counted_left = if self.rests_on == Side::Plain { DRAFTED_PROBE } else { PLAIN_PROBE };
            self.probe = Some(Probe { counted_left });
        }
    }

    fn probe_is_due(&self) -> bool {
        let resting = if self.rests_on == Side::Plain { &self.plain } else { &self.drafted };
        if self.rests_on == Side::Drafted && self.plain.rounds < PLAIN_LEAST {
            // The first comparison is worth its price: without it nothing is known of drafting.
            return resting.rounds >= PLAIN_LEAST;
        }
        self.rested >= REST && resting.rounds >= PLAIN_LEAST && self.budget_ms >= self.probe_price_ms()
    }

    /// What a probe is expected to lose.
    fn probe_price_ms(&self) -> f64 {
        let loss = self.loss_expected();
        match self.rests_on {
            Side::Plain => {
                let tokens = (DRAFTED_PROBE + 1) as f64 * self.drafted.tokens.max(self.plain.tokens);
                loss.max(0.0) * self.plain.token_ms() * tokens
            }
            Side::Drafted => {
                // One more round is lost when it ends, because nothing is held then.
                let tokens = (PLAIN_PROBE + 2) as f64 * self.plain.tokens;
                (-loss).max(0.0) * self.plain.token_ms() * tokens
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a guard for so many rounds, plain ones of 1 ms and a token, drafted ones of so many; how many were
    /// drafted and what they took.
    fn run(guard: &mut Guard, rounds: u64, drafted: (f64, f64)) -> (u64, f64) {
        let (mut count, mut total_ms) = (0, 0.0);
        let mut before = guard.side();
        for _ in 0..rounds {
            let side = guard.side();
            let (took_ms, tokens) = if side == Side::Plain { (1.0, 1.0) } else { drafted };
            let (was_plain, counts) = (side == Side::Plain, side == before);
            guard.note(&GuardedRound {
                side,
                was_plain,
                took_ms,
                absorb_ms: 0.0,
                plain_ms: 1.0,
                fair_ms: tokens,
                tokens,
                counts,
                unbounded: false,
            });
            count += u64::from(side == Side::Drafted);
            total_ms += took_ms - tokens;
            before = side;
        }
        (count, total_ms)
    }

    #[test]
    fn a_dear_mistake_is_left_after_a_few_rounds_and_probed_within_the_budget() {
        let mut guard = Guard::new(Side::Drafted, 0.0);
        let (first, lost_ms) = run(&mut guard, 30, (4.0, 1.0));
        assert_eq!(guard.rests_on, Side::Plain);
        assert!(first < 10 && lost_ms < 2.0 * LOSS_MOST + 9.0, "{first} rounds lost {lost_ms} ms");
        let (probes, lost_ms) = run(&mut guard, 10_000, (4.0, 1.0));
        assert!(probes > 20 && lost_ms < 10_000.0 * PROBE_BUDGET, "{probes} rounds lost {lost_ms} ms");
    }

    #[test]
    fn a_gain_is_found_by_probes_and_a_loss_that_comes_later_too() {
        let mut guard = Guard::new(Side::Plain, 0.3);
        run(&mut guard, 1000, (2.0, 2.4));
        assert_eq!(guard.rests_on, Side::Drafted);
        run(&mut guard, 1000, (2.0, 1.6));
        assert_eq!(guard.rests_on, Side::Plain);
    }

    #[test]
    fn drafting_is_compared_with_plain_rounds_now_and_then() {
        let mut guard = Guard::new(Side::Drafted, 0.0);
        let (drafted, _) = run(&mut guard, 5000, (1.0, 2.0));
        assert_eq!(guard.rests_on, Side::Drafted);
        assert!((4700..4990).contains(&drafted), "{drafted} of 5000 rounds were drafted");
    }

    #[test]
    fn the_average_of_ratios_is_not_the_ratio_of_averages() {
        let mut record = SideRecord::default();
        for round in 0..1000 {
            record.note(2.0, if round % 2 == 0 { 1.0 } else { 4.0 }, DRAFTED_WEIGHT);
        }
        assert!((record.token_ms() - 0.8).abs() < 0.02, "{record:?}");
    }
}
