//! Host time of the scheduler per round, at 1, 16 and 256 lanes, on a target that computes nothing.
//!
//! Run with `cargo run --release -p forerunner-lanes --example lanes_benchmark`.

use std::time::Instant;

use forerunner_lanes::fake::{ScriptedClock, ScriptedCosts};
use forerunner_lanes::{
    CostTable, HeldDraft, HoldCosts, Lanes, Limits, NewSequence, OpenLane, Options, Round, RoundOut,
    SamplingRule, Target, TargetError, WindowOut,
};

/// Rounds before the clock starts: prompts end, guards and rates settle.
const WARM_ROUNDS: usize = 200;

/// Rounds that are timed.
const ROUNDS: usize = 2000;

/// Drafts of a hold.
const BLOCK: usize = 9;

/// What rounds and holds are said to take. In real time the target takes next to none, and guards would see that
/// drafts gain nothing.
const COSTS: ScriptedCosts = ScriptedCosts {
    round_ms: 1.0,
    row_ms: 0.005,
    hold_ms: 0.1,
    hold_depth_ms: 0.01,
    hold_lane_ms: 0.001,
    ..ScriptedCosts::NONE
};

/// A target whose tokens count up: it takes a few nanoseconds a row, so that what is left is the scheduler.
struct Counting {
    limits: Limits,
    clock: ScriptedClock,
    /// The round that was queued.
    out: RoundOut,
}

impl Target for Counting {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, _: usize, _: &OpenLane<'_>) -> Result<usize, TargetError> {
        Ok(0)
    }

    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        let out = &mut self.out;
        out.clear();
        for window in round.windows {
            let (drawn, held) = (out.drawn.len(), out.held.len());
            if window.draws {
                let tokens = &round.tokens[window.tokens.clone()];
                let first = tokens.len() - window.drafts - 1;
                out.drawn.extend(tokens[first..].iter().map(|token| token + 1));
            }
            let drawing = &out.drawn[drawn..];
            let drafts = &round.tokens[window.tokens.end - window.drafts..window.tokens.end];
            let accepted = drafts.iter().zip(drawing).take_while(|(draft, draw)| draft == draw).count();
            // The last draft of a block is wrong, so that both outcomes occur.
            let next = drawing.get(accepted).copied().unwrap_or_default();
            out.held.extend((1..=window.hold as u32).map(|depth| {
                let wrong = u32::from(depth == BLOCK as u32 - 2);
                HeldDraft { token: next + depth + wrong, confidence: 2.0 - 0.2 * depth as f32 }
            }));
            let (drawn, held) = (drawn..out.drawn.len(), held..out.held.len());
            out.windows.push(WindowOut { drawn, accepted, held, ..WindowOut::default() });
        }
        let holds = || round.windows.iter().map(|window| window.hold);
        let holding = holds().filter(|&hold| hold > 0).count();
        let hold_ms = COSTS.hold_ms(holding, holds().max().unwrap_or(0));
        self.clock.charge(COSTS.round_ms(round.tokens.len()) + hold_ms);
        Ok(())
    }

    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError> {
        std::mem::swap(out, &mut self.out);
        Ok(())
    }

    fn close(&mut self, _: usize) {}

    fn pages_in_use(&self) -> usize {
        0
    }

    fn pages_total(&self) -> usize {
        0
    }
}

/// A scheduler with a reply in every lane that is longer than the benchmark.
fn scheduler(lanes: usize, draft: bool) -> Lanes<Counting, ScriptedClock> {
    let context = (WARM_ROUNDS + ROUNDS) * (BLOCK + 1) + 1000;
    let rows = (lanes * (BLOCK + 1)).max(256);
    let limits =
        Limits { lanes, context, rows, block: BLOCK, has_confidence: true, page: 256, queues_ahead: false };
    let options = Options { costs: table(rows, lanes), ..Options::default() };
    let clock = ScriptedClock::default();
    let mut scheduler = Lanes::with_clock(
        Counting { limits, clock: clock.clone(), out: RoundOut::default() },
        options,
        clock,
    );
    for lane in 0..lanes as u32 {
        let new = NewSequence {
            prompt: (0..16).map(|token| token + 1_000_000 * lane).collect(),
            max_tokens: context - 16,
            rule: SamplingRule { seed: u64::from(lane), ..SamplingRule::default() },
            stop_tokens: vec![u32::MAX],
            draft,
            ..NewSequence::default()
        };
        scheduler.submit(new).unwrap_or_else(|error| panic!("lane {lane}: {error}"));
    }
    scheduler
}

/// A table with as many samples as a measurement takes.
fn table(rows: usize, lanes: usize) -> CostTable {
    let powers = |most: usize| (0..).map(|power| 1 << power).take_while(move |&power| power <= most);
    let by_rows = powers(rows).map(|rows| (rows, COSTS.round_ms(rows))).collect();
    let by_depth = (1..=BLOCK).map(|depth| (depth, COSTS.hold_ms(1, depth))).collect();
    let by_lanes = powers(lanes).map(|lanes| (lanes, COSTS.hold_ms(lanes, BLOCK))).collect();
    CostTable::new(by_rows, HoldCosts { by_depth, by_lanes })
}

/// Microseconds of the median and of the 99th percentile round, and rows of the average one.
fn time(lanes: usize, draft: bool) -> (f64, f64, f64) {
    let mut scheduler = scheduler(lanes, draft);
    for _ in 0..WARM_ROUNDS {
        scheduler.step();
    }
    let rows_before = scheduler.totals().rows;
    let mut rounds: Vec<f64> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        scheduler.step();
        rounds.push(started.elapsed().as_secs_f64() * 1e6);
    }
    rounds.sort_by(f64::total_cmp);
    let rows = (scheduler.totals().rows - rows_before) as f64 / ROUNDS as f64;
    (rounds[ROUNDS / 2], rounds[ROUNDS * 99 / 100], rows)
}

fn main() {
    println!("{:>6} {:>8} {:>8} {:>12} {:>9}", "lanes", "drafts", "rows", "median us", "p99 us");
    for lanes in [1, 16, 256] {
        for draft in [false, true] {
            let (median, late, rows) = time(lanes, draft);
            println!("{lanes:>6} {draft:>8} {rows:>8.1} {median:>12.1} {late:>9.1}");
        }
    }
}
