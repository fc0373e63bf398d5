//! What the scheduler does with single requests: the queue, memory, ends, failures.

use forerunner_lanes::fake::{
    DrafterScript, Failures, FakeConstraint, FakeScript, FakeTarget, Rightness, ScriptedClock,
};
use forerunner_lanes::{
    Delivery, DraftOff, Finish, Lanes, Limits, NewSequence, Options, SamplingRule, SequenceId,
    SequenceStatistics, SubmitError, Target,
};

type Scheduler = Lanes<FakeTarget, ScriptedClock>;

fn limits(lanes: usize) -> Limits {
    Limits { lanes, context: 256, rows: 64, block: 4, has_confidence: true, page: 16, queues_ahead: false }
}

fn scheduler(limits: Limits, script: FakeScript, options: Options) -> Scheduler {
    let target = FakeTarget::new(limits, script);
    let clock = target.clock();
    Lanes::with_clock(target, options, clock)
}

fn simple(lanes: usize) -> Scheduler {
    scheduler(limits(lanes), FakeScript::default(), Options::default())
}

fn new(prompt_tokens: usize, max_tokens: usize) -> NewSequence {
    let prompt = (0..prompt_tokens as u32).collect();
    NewSequence {
        prompt,
        max_tokens,
        rule: SamplingRule::default(),
        stop_tokens: vec![],
        draft: true,
        ..NewSequence::default()
    }
}

fn expected(new: &NewSequence) -> Vec<u32> {
    let vocabulary = FakeScript::default().vocabulary;
    FakeTarget::reply(vocabulary, &new.prompt, &new.rule, new.max_tokens, &new.stop_tokens)
}

/// Steps until idle; all deliveries.
fn drain(lanes: &mut Scheduler) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    while !lanes.is_idle() {
        deliveries.extend_from_slice(lanes.step());
    }
    assert_eq!(lanes.pages_in_use(), 0);
    deliveries
}

fn end(deliveries: &[Delivery], id: SequenceId) -> (Finish, SequenceStatistics) {
    let ends: Vec<_> = deliveries
        .iter()
        .filter(|delivery| delivery.id == id)
        .filter_map(|delivery| delivery.finished.as_ref())
        .collect();
    assert_eq!(ends.len(), 1, "{id} ended {} times", ends.len());
    (ends[0].reason.clone(), ends[0].statistics.clone())
}

fn text(deliveries: &[Delivery], id: SequenceId) -> Vec<u32> {
    deliveries
        .iter()
        .filter(|delivery| delivery.id == id)
        .flat_map(|delivery| delivery.tokens.to_vec())
        .collect()
}

#[test]
fn requests_that_can_never_run_are_refused_with_their_numbers() {
    let mut lanes = simple(1);
    assert_eq!(lanes.submit(new(0, 4)), Err(SubmitError::EmptyPrompt));
    assert_eq!(lanes.submit(new(4, 0)), Err(SubmitError::NoTokensAsked));
    let error = lanes.submit(new(200, 57)).unwrap_err();
    assert_eq!(error, SubmitError::ContextExceeded { prompt_tokens: 200, max_tokens: 57, context: 256 });
    assert!(error.to_string().contains("200") && error.to_string().contains("256"));
    assert!(lanes.submit(new(1, usize::MAX)).is_err());
    assert!(lanes.is_idle() && lanes.step().is_empty());
    assert!(lanes.submit(new(200, 56)).is_ok());
}

#[test]
fn the_queue_is_bounded_beyond_the_free_lanes() {
    let mut lanes =
        scheduler(limits(2), FakeScript::default(), Options { max_waiting: 1, ..Options::default() });
    for _ in 0..3 {
        lanes.submit(new(4, 8)).unwrap();
    }
    assert_eq!(lanes.submit(new(4, 8)), Err(SubmitError::QueueFull { waiting: 1, limit: 1 }));
    lanes.step();
    assert_eq!((lanes.running(), lanes.waiting()), (2, 1));
    assert_eq!(lanes.submit(new(4, 8)), Err(SubmitError::QueueFull { waiting: 1, limit: 1 }));
    drain(&mut lanes);
    assert_eq!(lanes.totals().finished, 3);
}

#[test]
fn waiting_sequences_begin_in_order_even_when_a_later_one_would_fit() {
    let script = FakeScript { pages: 10, ..FakeScript::default() };
    let mut lanes = scheduler(limits(3), script, Options::default());
    let small = lanes.submit(new(16, 48)).unwrap();
    let large = lanes.submit(new(16, 112)).unwrap();
    let late = lanes.submit(new(16, 16)).unwrap();
    lanes.step();
    assert_eq!((lanes.running(), lanes.waiting()), (1, 2));
    let deliveries = drain(&mut lanes);
    let ends: Vec<_> =
        deliveries.iter().filter(|delivery| delivery.finished.is_some()).map(|end| end.id).collect();
    assert_eq!(ends[0], small);
    assert!(ends.contains(&large) && ends.contains(&late));
}

#[test]
fn a_sequence_larger_than_the_memory_fails_and_the_next_one_runs() {
    let script = FakeScript { pages: 4, ..FakeScript::default() };
    let mut lanes = scheduler(limits(2), script, Options::default());
    let large = lanes.submit(new(16, 112)).unwrap();
    let small = lanes.submit(new(16, 16)).unwrap();
    let deliveries = drain(&mut lanes);
    assert_eq!(end(&deliveries, large).0, Finish::Failed("8 pages are needed and 4 exist".to_owned()));
    assert_eq!(end(&deliveries, small).0, Finish::Length);
    assert_eq!((lanes.totals().failed, lanes.totals().finished), (1, 1));
}

#[test]
fn a_reply_ends_with_its_stop_token_however_it_was_drafted() {
    for rightness in [Rightness::Always, Rightness::Share(0.5)] {
        let script =
            FakeScript { drafter: DrafterScript { rightness, ..Default::default() }, ..Default::default() };
        let mut lanes = scheduler(limits(1), script, Options::default());
        for stop in 0..12 {
            let mut request = new(5, 40);
            request.stop_tokens = vec![expected(&request)[stop]];
            let id = lanes.submit(request.clone()).unwrap();
            let deliveries = drain(&mut lanes);
            assert_eq!(end(&deliveries, id).0, Finish::Stop);
            assert_eq!(text(&deliveries, id), expected(&request));
        }
    }
}

#[test]
fn nothing_is_held_when_the_next_draft_ends_the_reply() {
    let drafter = DrafterScript { rightness: Rightness::Always, ..Default::default() };
    let mut lanes = scheduler(limits(1), FakeScript { drafter, ..Default::default() }, Options::default());
    let mut request = new(5, 40);
    request.stop_tokens = vec![expected(&request)[1]];
    let id = lanes.submit(request).unwrap();
    let statistics = end(&drain(&mut lanes), id).1;
    assert_eq!((statistics.reply_tokens, statistics.holds, statistics.drafts), (2, 1, 0));
}

#[test]
fn no_draft_is_made_or_verified_past_the_last_token() {
    let drafter = DrafterScript { rightness: Rightness::Always, ..Default::default() };
    for max_tokens in 1..20 {
        let script = FakeScript { drafter, ..Default::default() };
        let mut lanes = scheduler(limits(1), script, Options::default());
        let id = lanes.submit(new(3, max_tokens)).unwrap();
        let deliveries = drain(&mut lanes);
        let (finish, statistics) = end(&deliveries, id);
        assert_eq!((finish, statistics.reply_tokens), (Finish::Length, max_tokens));
        assert!(max_tokens > 2 || statistics.holds == 0, "a hold for a reply of {max_tokens} tokens");
        assert_eq!(lanes.totals().rows as usize, 3 + max_tokens - 1, "no row is wasted on a right drafter");
    }
}

#[test]
fn a_cancelled_sequence_frees_its_lane_at_once_and_is_not_heard_of_again() {
    let mut lanes = simple(1);
    let gone = lanes.submit(new(4, 100)).unwrap();
    let waits = lanes.submit(new(4, 100)).unwrap();
    let next = lanes.submit(new(4, 8)).unwrap();
    lanes.step();
    assert!(lanes.cancel(gone).is_some_and(|statistics| statistics.reply_tokens > 0));
    assert_eq!(lanes.pages_in_use(), 0);
    assert!(lanes.finish(waits).is_some());
    assert_eq!(lanes.cancel(gone), None);
    let deliveries = drain(&mut lanes);
    assert!(deliveries.iter().all(|delivery| delivery.id == next));
    assert_eq!((lanes.totals().cancelled, lanes.totals().finished), (1, 2));
}

#[test]
fn a_failing_sequence_is_found_and_the_others_keep_their_replies() {
    let failures = Failures { sequences: vec![(77, 10)], ..Failures::default() };
    let mut lanes = scheduler(limits(3), FakeScript { failures, ..Default::default() }, Options::default());
    let requests = [new(4, 30), new(5, 30), new(6, 30)];
    let ids: Vec<_> = requests
        .iter()
        .enumerate()
        .map(|(index, request)| {
            let seed = if index == 1 { 77 } else { 1 };
            lanes
                .submit(NewSequence { rule: SamplingRule { seed, ..Default::default() }, ..request.clone() })
                .unwrap()
        })
        .collect();
    let deliveries = drain(&mut lanes);
    assert!(matches!(end(&deliveries, ids[1]).0, Finish::Failed(reason) if reason.contains("77")));
    for lane in [0, 2] {
        assert_eq!(end(&deliveries, ids[lane]).0, Finish::Length);
        assert_eq!(text(&deliveries, ids[lane]), expected(&requests[lane]));
    }
    assert_eq!(lanes.totals().failed_rounds, 2);
}

#[test]
fn a_round_that_fails_once_costs_nobody_a_reply() {
    let failures = Failures { rounds: vec![3], ..Failures::default() };
    let mut lanes = scheduler(limits(2), FakeScript { failures, ..Default::default() }, Options::default());
    let ids = [lanes.submit(new(4, 30)).unwrap(), lanes.submit(new(5, 30)).unwrap()];
    let deliveries = drain(&mut lanes);
    assert!(ids.iter().all(|&id| end(&deliveries, id).0 == Finish::Length));
    assert_eq!((lanes.totals().failed_rounds, lanes.totals().failed), (1, 0));
}

#[test]
fn a_reply_says_why_it_was_not_drafted() {
    let mut lanes = simple(1);
    let id = lanes.submit(NewSequence { draft: false, ..new(4, 10) }).unwrap();
    let statistics = end(&drain(&mut lanes), id).1;
    assert_eq!(statistics.draft_off, Some(DraftOff::NotAsked));
    assert_eq!((statistics.rounds, statistics.drafts, statistics.tokens_per_round()), (10, 0, 1.0));

    let mut lanes = scheduler(Limits { block: 0, ..limits(1) }, FakeScript::default(), Options::default());
    let id = lanes.submit(new(4, 10)).unwrap();
    assert_eq!(end(&drain(&mut lanes), id).1.draft_off, Some(DraftOff::NoDrafter));
}

#[test]
fn a_running_reply_moves_with_every_chunk_of_a_long_prompt() {
    let options = Options { prompt_chunk: 8, ..Options::default() };
    let mut lanes = scheduler(limits(2), FakeScript::default(), options);
    let running = lanes.submit(new(2, 60)).unwrap();
    lanes.step();
    let long = lanes.submit(new(100, 4)).unwrap();
    let mut chunks = 0;
    while lanes.statistics(long).is_some_and(|statistics| statistics.reply_tokens == 0) {
        assert!(lanes.step().iter().any(|delivery| delivery.id == running), "it waited at chunk {chunks}");
        chunks += 1;
    }
    assert_eq!(chunks, 13);
}

#[test]
fn a_prompt_that_runs_alone_may_have_larger_chunks() {
    let rounds_of_prompt = |running: bool| {
        let options = Options { prompt_chunk: 8, idle_prompt_chunk: Some(32), ..Options::default() };
        let mut lanes = scheduler(limits(2), FakeScript::default(), options);
        if running {
            lanes.submit(new(2, 60)).unwrap();
            lanes.step();
        }
        let request = new(96, 4);
        let id = lanes.submit(request.clone()).unwrap();
        let deliveries = drain(&mut lanes);
        assert_eq!(text(&deliveries, id), expected(&request));
        end(&deliveries, id).1.prompt_rounds
    };
    // The last of 3 and of 12 chunks draws, and counts for the reply.
    assert_eq!((rounds_of_prompt(false), rounds_of_prompt(true)), (2, 11));
}

#[test]
fn an_engine_can_own_a_boxed_target_on_another_thread() {
    let target: Box<dyn Target + Send> = Box::new(FakeTarget::new(limits(2), FakeScript::default()));
    let mut lanes = Lanes::new(target, Options::default());
    lanes.measure_costs(1000).unwrap();
    assert!(!lanes.costs().row_samples().is_empty());
    let reply = std::thread::spawn(move || {
        lanes.submit(new(4, 10)).unwrap();
        let mut reply = Vec::new();
        while !lanes.is_idle() {
            lanes.step().iter().for_each(|delivery| reply.extend_from_slice(&delivery.tokens));
        }
        reply
    });
    assert_eq!(reply.join().unwrap(), expected(&new(4, 10)));
}

#[test]
fn a_second_prompt_resumes_at_the_last_page_border_that_leaves_it_a_row() {
    for (prompt_tokens, cached) in [(15, 0), (16, 0), (17, 16), (31, 16), (32, 16), (33, 32), (48, 32)] {
        let script = FakeScript { stores_prefixes: true, ..FakeScript::default() };
        // Chunks that end at every border, so that every border is stored.
        let options = Options { prompt_chunk: 16, ..Options::default() };
        let mut lanes = scheduler(limits(1), script, options);
        for expected_cached in [0, cached, cached] {
            let request = new(prompt_tokens, 20);
            let id = lanes.submit(request.clone()).unwrap();
            let deliveries = drain(&mut lanes);
            let statistics = end(&deliveries, id).1;
            assert_eq!(statistics.cached_tokens, expected_cached, "a prompt of {prompt_tokens}");
            assert_eq!(text(&deliveries, id), expected(&request));
        }
    }
}

#[test]
fn a_form_that_cannot_go_on_ends_its_reply_and_no_other() {
    for (breaks_after, draft) in [(0, true), (1, true), (7, true), (7, false)] {
        let mut lanes = simple(2);
        let form = FakeConstraint::new(1, 1000, 0.5, 0.5).breaking_after(breaks_after);
        let constrained = NewSequence { draft, ..new(4, 20) };
        let broken = lanes.submit_constrained(constrained.clone(), Box::new(form.clone())).unwrap();
        let other = lanes.submit(new(5, 20)).unwrap();
        let deliveries = drain(&mut lanes);
        let (finish, statistics) = end(&deliveries, broken);
        assert!(matches!(&finish, Finish::DeadEnd(reason) if reason.contains("break after")), "{finish:?}");
        let whole = FakeScript::default().constrained_reply(
            &constrained.prompt,
            &constrained.rule,
            20,
            &[],
            Some(&form),
        );
        let tokens = text(&deliveries, broken);
        assert_eq!(tokens, whole[..breaks_after], "drafted: {draft}");
        assert_eq!(statistics.reply_tokens, tokens.len());
        assert_eq!(text(&deliveries, other), expected(&new(5, 20)));
        assert_eq!((lanes.totals().failed, lanes.totals().finished), (1, 1));
    }
}

#[test]
fn forced_tokens_save_rounds_without_a_drafter() {
    let rounds = |draft| {
        let mut lanes =
            scheduler(Limits { block: 0, ..limits(1) }, FakeScript::default(), Options::default());
        let form = FakeConstraint::new(3, 1000, 0.8, 0.01);
        let id = lanes.submit_constrained(NewSequence { draft, ..new(4, 60) }, Box::new(form)).unwrap();
        end(&drain(&mut lanes), id).1
    };
    let (plain, forced) = (rounds(false), rounds(true));
    assert_eq!((plain.rounds, plain.forced), (60, 0));
    assert!(forced.rounds < 40 && forced.forced_accepted > 20, "{forced:?}");
}
