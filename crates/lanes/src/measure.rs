//! Measures the cost table on an idle target, through the target's own rounds.

use std::ops::Range;
use std::time::Duration;

use crate::clock::{Clock, milliseconds};
use crate::cost::{CostTable, HoldCosts};
use crate::curve::ROWS;
use crate::target::{
    Limits, MAX_WINDOW, OpenLane, PendingSource, Round, RoundOut, SamplingRule, Target, TargetError, TokenId,
    Window,
};

/// Lane counts for which a hold is timed.
const HOLD_LANES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Row counts that are timed however slow the target: without them there is no table, and what a window of drafts costs
/// would be guessed from rounds of a few rows, which on a slow target are those of a mixture's dearest rows.
const ROWS_LEAST: [usize; 3] = [1, 4, 12];

/// Depths of a hold that are timed however slow the target.
const DEPTHS_LEAST: usize = 3;

/// Timed rounds of a sample, of which the fastest counts.
const REPEATS: usize = 7;

/// A sample this much below the one before it is not believed; both are timed again.
const DIP: f64 = 0.97;

/// Share of a table's time below which a round disproves it. Machines are noisy, and a table is right within less.
const DISPROVED: f64 = 0.8;

/// Row counts that are timed again to see whether a table still holds: a plain round, and one with a window of drafts.
const ROWS_DISPROVING: [usize; 2] = [1, 12];

/// Longest context of a lane that is measured.
const CONTEXT: usize = 512;

/// Prompt of a lane that is measured.
const PROMPT: usize = 8;

/// Prompts that are timed for what it takes to take them up: the first that is short enough.
const ABSORBED: [usize; 5] = [128, 64, 32, 16, 8];

/// Milliseconds that such a prompt may take.
const ABSORBED_MS: f64 = 40.0;

/// Step between token ids: real text spreads over the vocabulary, and so over a router's experts.
const TOKEN_STRIDE: usize = 7919;

impl CostTable {
    /// Times rounds by rows and holds by depth and lanes, within about `budget`. All lanes are closed before and
    /// after.
    pub fn measure<T, C>(
        target: &mut T,
        clock: &C,
        vocabulary: usize,
        budget: Duration,
    ) -> Result<CostTable, TargetError>
    where
        T: Target + ?Sized,
        C: Clock + ?Sized,
    {
        let mut bench = Bench::new(target, clock, vocabulary);
        let table = bench.table(budget);
        bench.close_all();
        table
    }

    /// Whether rounds are now far faster than this table says, by a few that are timed within about `budget`: then it was
    /// measured while something else kept the device busy, and what it says of drafts is as wrong. All lanes are closed
    /// before and after.
    pub fn is_disproved<T, C>(
        &self,
        target: &mut T,
        clock: &C,
        vocabulary: usize,
        budget: Duration,
    ) -> Result<bool, TargetError>
    where
        T: Target + ?Sized,
        C: Clock + ?Sized,
    {
        let mut bench = Bench::new(target, clock, vocabulary);
        bench.deadline = clock.now() + budget;
        let disproved = bench.disproves(self);
        bench.close_all();
        disproved
    }
}

/// A window without drafts or a hold.
fn window(lane: usize, position: usize, tokens: Range<usize>, draws: bool) -> Window {
    Window { lane, position, tokens, pending: PendingSource::Host, drafts: 0, draws, hold: 0 }
}

/// A round to time: decode rows spread evenly over lanes, each holding so deep.
#[derive(Clone, Copy)]
struct Sample {
    rows: usize,
    lanes: usize,
    hold: usize,
}

struct Bench<'a, T: ?Sized, C: ?Sized> {
    target: &'a mut T,
    clock: &'a C,
    limits: Limits,
    vocabulary: usize,
    /// Committed length of each open lane.
    lanes: Vec<Option<usize>>,
    next_token: usize,
    deadline: Duration,
    /// Distinct experts of the last round of each row count.
    experts: Vec<(usize, f64)>,
    tokens: Vec<TokenId>,
    windows: Vec<Window>,
    out: RoundOut,
}

impl<'a, T: Target + ?Sized, C: Clock + ?Sized> Bench<'a, T, C> {
    fn new(target: &'a mut T, clock: &'a C, vocabulary: usize) -> Self {
        let limits = target.limits().clone();
        Bench {
            lanes: vec![None; limits.lanes],
            target,
            clock,
            limits,
            vocabulary,
            next_token: 0,
            deadline: clock.now(),
            experts: Vec::new(),
            tokens: Vec::new(),
            windows: Vec::new(),
            out: RoundOut::default(),
        }
    }

    fn disproves(&mut self, table: &CostTable) -> Result<bool, TargetError> {
        let most = self.limits.rows;
        for rows in ROWS_DISPROVING.into_iter().filter(|&rows| rows <= most) {
            let ms = self.time(Sample { rows, lanes: 1, hold: 0 })?;
            if ms.is_some_and(|ms| ms < DISPROVED * table.round_ms(rows)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn table(&mut self, budget: Duration) -> Result<CostTable, TargetError> {
        let started = self.clock.now();
        self.deadline = started + budget / 2;
        let rows = self.rows()?;
        self.deadline = started + budget * 5 / 8;
        let by_depth = self.holds_by_depth()?;
        self.deadline = started + budget * 6 / 8;
        let by_lanes = self.holds_by_lanes()?;
        let table = CostTable::new(rows, HoldCosts { by_depth, by_lanes });
        let absorb_row_ms = self.absorb_row_ms(&table, started, budget)?;
        let table = table.with_absorption(absorb_row_ms);
        // A dense model has none.
        self.experts.retain(|sample| sample.1 > 0.0);
        Ok(table.with_experts(std::mem::take(&mut self.experts)))
    }

    fn rows(&mut self) -> Result<Vec<(usize, f64)>, TargetError> {
        // Copies make windows this wide, with a drafter or without.
        let most = self.limits.rows.min(self.limits.lanes * MAX_WINDOW);
        let mut samples: Vec<(usize, f64)> = Vec::new();
        for rows in ROWS.into_iter().filter(|&rows| rows <= most) {
            if self.is_late() && !ROWS_LEAST.contains(&rows) {
                continue;
            }
            let sample = |rows: usize| Sample { rows, lanes: rows.div_ceil(MAX_WINDOW), hold: 0 };
            let Some(mut ms) = self.time(sample(rows))? else { break };
            if let Some(before) = samples.last_mut().filter(|before| ms < DIP * before.1) {
                before.1 = self.time(sample(before.0))?.map_or(before.1, |again| again.min(before.1));
                ms = self.time(sample(rows))?.map_or(ms, |again| again.min(ms));
            }
            samples.push((rows, ms));
            self.experts.push((rows, self.out.distinct_experts as f64));
        }
        Ok(samples)
    }

    fn holds_by_depth(&mut self) -> Result<Vec<(usize, f64)>, TargetError> {
        let mut samples = Vec::new();
        let block = self.limits.block;
        // The ends first: what lies between is interpolated when time is short.
        let depths =
            [1, block].into_iter().chain(2..block).take(if block > 1 { block } else { block.min(1) });
        for depth in depths {
            if samples.len() >= DEPTHS_LEAST && self.is_late() {
                break;
            }
            samples.extend(self.hold_ms(1, depth)?.map(|ms| (depth, ms)));
        }
        samples.sort_by_key(|sample| sample.0);
        Ok(samples)
    }

    fn holds_by_lanes(&mut self) -> Result<Vec<(usize, f64)>, TargetError> {
        let mut samples = Vec::new();
        let most = self.limits.lanes.min(self.limits.rows);
        for lanes in HOLD_LANES.into_iter().filter(|&lanes| lanes <= most) {
            if self.limits.block == 0 || self.is_late() {
                break;
            }
            let Some(ms) = self.hold_ms(lanes, self.limits.block)? else { break };
            samples.push((lanes, ms));
        }
        Ok(samples)
    }

    /// What taking up a row adds to a hold.
    fn absorb_row_ms(
        &mut self,
        table: &CostTable,
        started: Duration,
        budget: Duration,
    ) -> Result<f64, TargetError> {
        let Limits { block, rows, page, .. } = self.limits;
        let fits =
            |prompt: &usize| *prompt < page && *prompt <= rows && table.round_ms(*prompt) <= ABSORBED_MS;
        let Some(prompt) = ABSORBED.into_iter().find(fits).filter(|_| block > 0) else { return Ok(0.0) };
        self.deadline = started + budget * 7 / 8;
        let plain = self.prompt_ms(prompt, 0)?;
        self.deadline = started + budget;
        let held = self.prompt_ms(prompt, block)?;
        // A timed hold takes up one row, too.
        let others_ms = |(plain, held): (f64, f64)| held - plain - table.hold_ms(1, block);
        Ok(plain.zip(held).map_or(0.0, |times| others_ms(times).max(0.0) / (prompt - 1) as f64))
    }

    /// Milliseconds of the fastest of a few prompts of so many rows, each read in one round, after a warm one; nothing
    /// when memory does not suffice.
    fn prompt_ms(&mut self, rows: usize, hold: usize) -> Result<Option<f64>, TargetError> {
        let fastest = self.fastest(|bench| {
            bench.close(0);
            bench.tokens.clear();
            bench.spread_tokens(rows);
            let Some(0) = bench.open_lane(0, bench.limits.context.min(CONTEXT))? else { return Ok(false) };
            bench.windows.clear();
            bench.windows.push(Window { hold, ..window(0, 0, 0..rows, true) });
            Ok(true)
        });
        self.close(0);
        fastest
    }

    /// What a hold adds to a plain round.
    fn hold_ms(&mut self, lanes: usize, depth: usize) -> Result<Option<f64>, TargetError> {
        let plain = self.time(Sample { rows: lanes, lanes, hold: 0 })?;
        let held = self.time(Sample { rows: lanes, lanes, hold: depth })?;
        Ok(plain.zip(held).map(|(plain, held)| (held - plain).max(0.0)))
    }

    /// Milliseconds of the fastest of a few rounds after a warm one; nothing when lanes or memory do not suffice.
    fn time(&mut self, sample: Sample) -> Result<Option<f64>, TargetError> {
        self.fastest(|bench| {
            let has_room = bench.make_room(sample)?;
            if has_room {
                bench.plan(sample);
            }
            Ok(has_room)
        })
    }

    /// Milliseconds of the fastest of a few rounds after a warm one, each made ready by `prepare`, which says whether it
    /// could.
    fn fastest(
        &mut self,
        mut prepare: impl FnMut(&mut Self) -> Result<bool, TargetError>,
    ) -> Result<Option<f64>, TargetError> {
        let mut fastest = f64::INFINITY;
        for repeat in 0..=REPEATS {
            if !prepare(self)? {
                return Ok(None);
            }
            let started = self.clock.now();
            self.run()?;
            if repeat > 0 {
                fastest = fastest.min(milliseconds(self.clock.now().saturating_sub(started)));
                if self.is_late() {
                    break;
                }
            }
        }
        Ok(Some(fastest))
    }

    fn is_late(&self) -> bool {
        self.clock.now() >= self.deadline
    }

    /// Writes the windows of a sample's round, whose lanes have room.
    fn plan(&mut self, sample: Sample) {
        self.tokens.clear();
        self.windows.clear();
        for lane in 0..sample.lanes {
            let rows = sample.rows / sample.lanes + usize::from(lane < sample.rows % sample.lanes);
            let position = self.lanes[lane].expect("room was made for every lane");
            let start = self.tokens.len();
            self.spread_tokens(rows);
            let window = window(lane, position, start..start + rows, true);
            self.windows.push(Window { drafts: rows - 1, hold: sample.hold, ..window });
        }
    }

    /// Runs the round that was written.
    fn run(&mut self) -> Result<(), TargetError> {
        let round = Round { tokens: &self.tokens, windows: &self.windows, masks: &[] };
        self.target.round(&round, &mut self.out)?;
        for (window, out) in self.windows.iter().zip(&self.out.windows) {
            let kept = window.rows() - window.drafts + out.accepted;
            self.lanes[window.lane] = Some(window.position + kept);
        }
        Ok(())
    }

    /// Sees to it that every lane of the sample is open and has room for one more round.
    fn make_room(&mut self, sample: Sample) -> Result<bool, TargetError> {
        let context = self.limits.context.min(CONTEXT);
        let needed = sample.rows.div_ceil(sample.lanes) + self.limits.block + 1;
        if PROMPT + needed > context {
            return Ok(false);
        }
        for lane in 0..sample.lanes {
            if self.lanes[lane].is_some_and(|position| position + needed > context) {
                self.close(lane);
            }
            if self.lanes[lane].is_none() && !self.open(lane, context)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens a lane and runs its prompt; false when there is no memory for it.
    fn open(&mut self, lane: usize, context: usize) -> Result<bool, TargetError> {
        self.tokens.clear();
        self.spread_tokens(PROMPT);
        let prompt = self.tokens.clone();
        let Some(mut position) = self.open_lane(lane, context)? else { return Ok(false) };
        for chunk in prompt[position..].chunks(self.limits.rows.min(PROMPT)) {
            self.tokens.clear();
            self.tokens.extend(chunk);
            self.windows.clear();
            let draws = position + chunk.len() == PROMPT;
            self.windows.push(window(lane, position, 0..chunk.len(), draws));
            self.run()?;
            position += chunk.len();
        }
        Ok(true)
    }

    /// Opens a lane for a prompt that `tokens` holds; what it holds of that already, or nothing when there is no memory.
    fn open_lane(&mut self, lane: usize, context: usize) -> Result<Option<usize>, TargetError> {
        let (rule, drafted) = (SamplingRule::default(), self.limits.block > 0);
        let open = OpenLane { prompt: &self.tokens, context, rule: &rule, drafted, logprobs: None };
        match self.target.open(lane, &open) {
            Ok(held) => {
                self.lanes[lane] = Some(held);
                Ok(Some(held))
            }
            Err(TargetError::Full { .. } | TargetError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds tokens, other ones each time.
    fn spread_tokens(&mut self, count: usize) {
        for _ in 0..count {
            self.next_token = (self.next_token + TOKEN_STRIDE) % self.vocabulary;
            self.tokens.push(self.next_token as TokenId);
        }
    }

    fn close_all(&mut self) {
        for lane in 0..self.limits.lanes {
            self.close(lane);
        }
    }

    fn close(&mut self, lane: usize) {
        if self.lanes[lane].take().is_some() {
            self.target.close(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeScript, FakeTarget, ScriptedCosts};

    const COSTS: ScriptedCosts = ScriptedCosts {
        round_ms: 0.5,
        row_ms: 0.1,
        hold_ms: 0.3,
        hold_depth_ms: 0.05,
        hold_lane_ms: 0.02,
        absorb_row_ms: 0.03,
        ..ScriptedCosts::NONE
    };

    fn limits(lanes: usize) -> Limits {
        Limits {
            lanes,
            context: 2048,
            rows: 320,
            block: 7,
            has_confidence: true,
            page: 16,
            queues_ahead: false,
        }
    }

    fn fake(limits: Limits, costs: ScriptedCosts) -> FakeTarget {
        FakeTarget::new(limits, FakeScript { costs, ..FakeScript::default() })
    }

    fn measure(target: &mut FakeTarget) -> CostTable {
        let clock = target.clock();
        let vocabulary = target.script().vocabulary as usize;
        let table = CostTable::measure(target, &clock, vocabulary, Duration::from_millis(900)).unwrap();
        assert_eq!(target.pages_in_use(), 0);
        table
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-3 * expected.max(1.0), "{found} is not {expected}");
    }

    #[test]
    fn the_measured_table_is_what_the_target_charges() {
        let table = measure(&mut fake(limits(4), COSTS));
        for rows in [1, 2, 5, 8, 32] {
            assert_near(table.round_ms(rows), COSTS.round_ms(rows));
        }
        for (lanes, depth) in [(1, 1), (1, 4), (1, 7), (2, 7), (4, 7)] {
            // A lane takes up the row that a round adds to it.
            let absorb_ms = COSTS.absorb_row_ms * lanes as f64;
            assert_near(table.hold_ms(lanes, depth), COSTS.hold_ms(lanes, depth) + absorb_ms);
        }
        assert_near(table.absorb_ms(100), 100.0 * COSTS.absorb_row_ms);
    }

    #[test]
    fn a_slow_target_is_measured_by_few_samples() {
        let costs = ScriptedCosts { round_ms: 400.0, hold_ms: 100.0, ..COSTS };
        let mut target = fake(limits(4), costs);
        let clock = target.clock();
        let table = measure(&mut target);
        let rows: Vec<usize> = table.row_samples().iter().map(|sample| sample.0).collect();
        assert_eq!(rows, ROWS_LEAST);
        assert_near(table.round_ms(12), costs.round_ms(12));
        assert_near(table.hold_ms(1, 7), costs.hold_ms(1, 7));
        assert!(clock.now() < Duration::from_secs(15), "took {:?}", clock.now());
    }

    #[test]
    fn a_table_of_a_busy_machine_is_disproved_by_a_quiet_one_only() {
        let busy = ScriptedCosts { round_ms: 2.0 * COSTS.round_ms, row_ms: 3.0 * COSTS.row_ms, ..COSTS };
        let disproved = |table: &CostTable, costs: ScriptedCosts| {
            let mut target = fake(limits(4), costs);
            let (clock, vocabulary) = (target.clock(), target.script().vocabulary as usize);
            let disproved = table.is_disproved(&mut target, &clock, vocabulary, Duration::from_millis(200));
            assert_eq!(target.pages_in_use(), 0);
            disproved.unwrap()
        };
        let (of_quiet, of_busy) = (measure(&mut fake(limits(4), COSTS)), measure(&mut fake(limits(4), busy)));
        assert!(disproved(&of_busy, COSTS));
        assert!(!disproved(&of_quiet, COSTS));
        assert!(!disproved(&of_quiet, busy), "that it is slow now says nothing of when it is quiet");
        let slow_drafts = ScriptedCosts { row_ms: 3.0 * COSTS.row_ms, ..COSTS };
        assert!(disproved(&measure(&mut fake(limits(4), slow_drafts)), COSTS));
    }

    #[test]
    fn targets_without_a_drafter_or_with_few_pages_are_measured_too() {
        let table = measure(&mut fake(Limits { block: 0, ..limits(2) }, COSTS));
        assert_eq!(table.row_samples().last().map(|sample| sample.0), Some(64));
        assert_eq!(table.hold_ms(1, 4), 0.0);
        let script = FakeScript { costs: COSTS, pages: 40, ..FakeScript::default() };
        assert!(measure(&mut FakeTarget::new(limits(4), script)).row_samples().len() >= 4);
        assert!(!measure(&mut fake(Limits { rows: 4, ..limits(4) }, COSTS)).row_samples().is_empty());
    }
}
