//! Rounds ahead: a lone plain reply's rounds follow one another without the host between them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forerunner_lanes::fake::{Failures, FakeScript, FakeTarget, ScriptedClock, ScriptedCosts};
use forerunner_lanes::{
    Finish, Lanes, Limits, NewSequence, Options, Planted, SamplingRule, SequenceId, Totals,
};

const ROUND_MS: f64 = 2.0;
const GAP_MS: f64 = 0.5;
const PAGE: usize = 16;

type Scheduler = Lanes<FakeTarget, ScriptedClock>;

fn scheduler(queues_ahead: bool, failures: Failures, planted: Option<Planted>) -> Scheduler {
    let limits =
        Limits { lanes: 2, context: 512, rows: 32, block: 4, has_confidence: true, page: PAGE, queues_ahead };
    let costs = ScriptedCosts { round_ms: ROUND_MS, gap_ms: GAP_MS, ..ScriptedCosts::NONE };
    let target = FakeTarget::new(limits, FakeScript { costs, failures, ..FakeScript::default() });
    let clock = target.clock();
    Lanes::with_clock(target, Options { planted, ..Options::default() }, clock)
}

/// A plain reply to a prompt of one page.
fn plain(seed: u64, max_tokens: usize, stop_tokens: Vec<u32>) -> NewSequence {
    let rule = SamplingRule { temperature: 0.5, seed, ..SamplingRule::default() };
    NewSequence {
        prompt: (0..PAGE as u32).collect(),
        max_tokens,
        rule,
        stop_tokens,
        // Told by rounds that are queued ahead as by any other.
        logprobs: Some(2),
        ..NewSequence::default()
    }
}

fn expected(new: &NewSequence) -> Vec<u32> {
    FakeScript::default().reply(&new.prompt, &new.rule, new.max_tokens, &new.stop_tokens)
}

/// One step's tokens of a sequence, appended; how it ended, if it did.
fn step(lanes: &mut Scheduler, id: SequenceId, tokens: &mut Vec<u32>) -> Option<Finish> {
    let delivery = lanes.step().iter().find(|delivery| delivery.id == id)?;
    tokens.extend_from_slice(&delivery.tokens);
    delivery.finished.as_ref().map(|finished| finished.reason.clone())
}

/// A reply to its end, with the totals and the milliseconds it took.
fn reply(lanes: &mut Scheduler, new: NewSequence) -> (Vec<u32>, Option<Finish>, Totals, f64) {
    let clock = lanes.target().clock();
    let before = forerunner_lanes::Clock::now(&clock);
    let id = lanes.submit(new).unwrap();
    let (mut tokens, mut finish) = (Vec::new(), None);
    while !lanes.is_idle() {
        finish = step(lanes, id, &mut tokens).or(finish);
    }
    assert_eq!(lanes.pages_in_use(), 0);
    let took = forerunner_lanes::Clock::now(&clock) - before;
    (tokens, finish, lanes.totals().clone(), took.as_secs_f64() * 1e3)
}

#[test]
fn a_lone_plain_reply_waits_for_the_host_at_page_borders_only() {
    const TOKENS: usize = 10 * PAGE;
    let new = || plain(1, TOKENS, vec![]);
    let (text, _, totals, waiting_ms) = reply(&mut scheduler(false, Failures::default(), None), new());
    let (text_ahead, _, totals_ahead, ahead_ms) =
        reply(&mut scheduler(true, Failures::default(), None), new());
    assert_eq!(text, text_ahead);
    assert_eq!((totals.rounds, totals.rows), (totals_ahead.rounds, totals_ahead.rows));
    let rounds = totals.rounds as f64;
    assert!((waiting_ms - rounds * (ROUND_MS + GAP_MS)).abs() < 1e-6, "{waiting_ms} ms");
    // The prompt's round, and one after every page.
    let gaps = (ahead_ms - rounds * ROUND_MS) / GAP_MS;
    assert!((gaps - 11.0).abs() < 1e-6, "{gaps} rounds waited for the host");
}

#[test]
fn a_stop_token_ends_a_reply_whose_next_round_is_on_its_way() {
    let whole = expected(&plain(2, 60, vec![]));
    for length in [2, 3, 17, 40] {
        let new = plain(2, 60, vec![whole[length - 1]]);
        let expected = expected(&new);
        let mut lanes = scheduler(true, Failures::default(), None);
        let (text, finish, ..) = reply(&mut lanes, new.clone());
        assert_eq!((text, finish), (expected, Some(Finish::Stop)));
        // The lane that had a round too many answers the next request as if new.
        assert_eq!(reply(&mut lanes, plain(3, 30, vec![])).0, self::expected(&plain(3, 30, vec![])));
    }
}

#[test]
fn a_request_that_comes_or_goes_while_a_round_is_on_its_way_changes_no_text() {
    for steps in 1..40 {
        let mut lanes = scheduler(true, Failures::default(), None);
        let (first, second) = (plain(4, 80, vec![]), plain(5, 50, vec![]));
        let id = lanes.submit(first.clone()).unwrap();
        let mut tokens = Vec::new();
        for _ in 0..steps {
            step(&mut lanes, id, &mut tokens);
        }
        let late = lanes.submit(second.clone()).unwrap();
        let mut late_tokens = Vec::new();
        while lanes.statistics(late).is_some() {
            let deliveries = lanes.step().to_vec();
            for delivery in deliveries {
                let text = if delivery.id == id { &mut tokens } else { &mut late_tokens };
                text.extend_from_slice(&delivery.tokens);
            }
        }
        assert_eq!(late_tokens, expected(&second), "after {steps} steps");
        assert!(expected(&first).starts_with(&tokens), "after {steps} steps");
        lanes.cancel(id);
        assert!(lanes.is_idle());
        assert_eq!(reply(&mut lanes, second.clone()).0, expected(&second), "after a cancel");
    }
}

#[test]
fn a_failure_takes_no_token_that_was_drawn_before_it() {
    for failing in 0..30 {
        let failures = Failures { rounds: vec![failing], ..Failures::default() };
        let mut lanes = scheduler(true, failures, None);
        let new = plain(6, 60, vec![]);
        let (text, finish, ..) = reply(&mut lanes, new.clone());
        assert!(matches!(finish, Some(Finish::Failed(_))), "round {failing}: {finish:?}");
        assert_eq!(text, expected(&new)[..failing as usize], "round {failing}");
        assert_eq!(reply(&mut lanes, new.clone()).0, expected(&new), "after round {failing}");
    }
}

#[test]
fn a_lane_that_closes_too_early_is_noticed() {
    let run = |planted| {
        let mut lanes = scheduler(true, Failures::default(), planted);
        let id = lanes.submit(plain(7, 60, vec![])).unwrap();
        for _ in 0..5 {
            lanes.step();
        }
        lanes.cancel(id)
    };
    assert!(run(None).is_some());
    assert!(catch_unwind(AssertUnwindSafe(|| run(Some(Planted::EndsUnread)))).is_err());
}
