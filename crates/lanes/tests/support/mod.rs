//! Worlds: a target, options and requests with their times, made from a seed, run, and held to the properties.

mod run;

use forerunner_lanes::fake::{
    Confidence, DrafterScript, Failures, FakeConstraint, FakeScript, Random, Repeats, Rightness,
    ScriptedCosts,
};
use forerunner_lanes::{
    Finish, Limits, NewSequence, Options, Origin, Planted, SamplingRule, SequenceStatistics, TokenLogprob,
};

use run::Run;

/// A request, when it comes, and when it goes if it does not stay to the end. Times are steps.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) new: NewSequence,
    /// What its reply is held to.
    pub(crate) constraint: Option<FakeConstraint>,
    pub(crate) arrives: u64,
    pub(crate) leaves: Option<u64>,
}

/// All that a run depends on: printed when it fails, it is the schedule.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) limits: Limits,
    pub(crate) script: FakeScript,
    pub(crate) prompt_chunk: usize,
    pub(crate) planted: Option<Planted>,
    pub(crate) force_drafts: bool,
    pub(crate) requests: Vec<Request>,
}

/// What a request got.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) tokens: Vec<u32>,
    pub(crate) logprobs: Vec<TokenLogprob>,
    pub(crate) origins: Vec<Origin>,
    /// Nothing for a request that left.
    pub(crate) finish: Option<Finish>,
    pub(crate) statistics: SequenceStatistics,
}

const TEMPERATURES: [f32; 3] = [0.0, 0.7, 1.0];

impl World {
    /// A world without failures in which nobody leaves.
    pub(crate) fn calm(seed: u64) -> World {
        let random = &mut Random::new(seed);
        let lanes = 1 + random.below(5) as usize;
        let rows =
            [1, 2, lanes as u64, 1 + random.below(12), 40 * lanes as u64][random.below(5) as usize] as usize;
        let block = [0, 1, 4, 7][random.below(4) as usize];
        let limits = Limits {
            lanes,
            context: 160,
            rows,
            block,
            has_confidence: random.chance(0.5),
            page: 16,
            queues_ahead: random.chance(0.5),
        };
        // Memory for everything, or for about two lanes, so that the queue has to wait, or too little for some.
        let pages = [1000, 1000, 14, 6][random.below(4) as usize];
        let drafter = drafter(random);
        let costs = costs(random);
        let vocabulary = 40 + random.below(100) as u32;
        let script = FakeScript { vocabulary, pages, drafter, costs, ..FakeScript::default() };
        let mut requests: Vec<_> = (0..1 + random.below(8)).map(|_| request(random, vocabulary)).collect();
        let stores_prefixes = random.chance(0.5);
        if stores_prefixes {
            share_prefixes(random, &mut requests);
        }
        let repeats = match random.chance(0.4) {
            true => Repeats { period: 4 + random.below(8) as usize, share: 0.85 + 0.15 * random.unit() },
            false => Repeats::default(),
        };
        let script = FakeScript { stores_prefixes, repeats, ..script };
        World {
            limits,
            script,
            prompt_chunk: 1 + random.below(40) as usize,
            planted: None,
            force_drafts: false,
            requests,
        }
    }

    /// A calm world in which replies are held to forms, most of them.
    pub(crate) fn constrained(seed: u64) -> World {
        let mut world = World::calm(seed);
        let random = &mut Random::new(seed ^ 0xf0f0);
        let vocabulary = world.script.vocabulary;
        for request in &mut world.requests {
            let forced = [0.02, 0.3, 0.8][random.below(3) as usize];
            let allowed = [0.02, 0.7, 0.995][random.below(3) as usize];
            let form = FakeConstraint::new(random.below(4), vocabulary, forced, allowed);
            request.constraint = random.chance(0.75).then_some(form);
        }
        world
    }

    /// A world in which clients leave and calls fail.
    pub(crate) fn rough(seed: u64) -> World {
        let mut world = World::calm(seed);
        let random = &mut Random::new(seed ^ 0xfa11);
        for request in &mut world.requests {
            if random.chance(0.3) {
                request.leaves = Some(request.arrives + random.below(40));
            }
        }
        let counts = |random: &mut Random, most, share| {
            if random.chance(share) {
                (0..1 + random.below(3)).map(|_| random.below(most)).collect()
            } else {
                vec![]
            }
        };
        world.script.failures = Failures {
            rounds: counts(random, 60, 0.4),
            opens: counts(random, 8, 0.2),
            sequences: match random.chance(0.4) {
                true => vec![(world.requests[0].new.rule.seed, random.below(60) as usize)],
                false => vec![],
            },
        };
        world
    }

    pub(crate) fn undrafted(&self) -> World {
        let mut world = self.clone();
        world.requests.iter_mut().for_each(|request| request.new.draft = false);
        world
    }

    pub(crate) fn alone(&self, request: usize) -> World {
        World { requests: vec![self.requests[request].clone()], ..self.clone() }
    }

    fn options(&self) -> Options {
        Options {
            prompt_chunk: self.prompt_chunk,
            costs: self.script.costs.table(&self.limits),
            planted: self.planted,
            force_drafts: self.force_drafts,
            ..Options::default()
        }
    }

    /// Runs it to the end; what every request got, and the target's rounds.
    pub(crate) fn run(&self) -> (Vec<Reply>, u64) {
        let mut run = Run::new(self);
        while !run.is_over() {
            run.step();
        }
        run.end()
    }

    /// Runs it and holds every reply to what the fake says with no scheduler at all.
    pub(crate) fn check(&self) {
        let (replies, _) = self.run();
        for (index, (request, reply)) in self.requests.iter().zip(&replies).enumerate() {
            self.check_reply(index, request, reply);
        }
        let by_round = |reply: &&Reply| failure(reply).is_some_and(|reason| reason.starts_with("round"));
        let failed_by_round = replies.iter().filter(by_round).count();
        assert!(
            failed_by_round <= self.script.failures.rounds.len(),
            "a failed round took {failed_by_round} replies"
        );
    }

    fn check_reply(&self, index: usize, request: &Request, reply: &Reply) {
        let NewSequence { prompt, max_tokens, rule, stop_tokens, draft, logprobs } = &request.new;
        let constraint = request.constraint.as_ref();
        let expected = self.script.constrained_reply(prompt, rule, *max_tokens, stop_tokens, constraint);
        let logprobs = self.script.logprobs(prompt, &reply.tokens, *logprobs);
        assert_eq!(reply.logprobs, logprobs, "request {index}");
        match &reply.finish {
            Some(Finish::Stop) => {
                assert!(
                    expected.last().is_some_and(|last| stop_tokens.contains(last)),
                    "request {index} stopped"
                );
                assert_eq!(reply.tokens, expected, "request {index}");
            }
            Some(Finish::Length) => {
                assert_eq!(expected.len(), *max_tokens, "request {index} went past its stop token");
                assert_eq!(reply.tokens, expected, "request {index}");
            }
            Some(Finish::Failed(reason)) => {
                assert!(self.may_fail(request, reason), "request {index} failed: {reason}");
                assert!(expected.starts_with(&reply.tokens), "request {index} before it failed");
            }
            Some(Finish::DeadEnd(reason)) => panic!("request {index}: no form here leads nowhere: {reason}"),
            None => {
                assert!(request.leaves.is_some(), "request {index} never ended");
                assert!(expected.starts_with(&reply.tokens), "request {index} before it left");
            }
        }
        let statistics = &reply.statistics;
        if !*draft || self.limits.block == 0 {
            let others = if *draft { statistics.copies + statistics.forced } else { 0 };
            assert_eq!((statistics.drafts, statistics.holds), (others, 0), "request {index} was drafted");
        }
        if self.script.drafter.rightness == Rightness::Always {
            let drafts = statistics.drafts - statistics.copies - statistics.forced;
            let accepted = statistics.accepted - statistics.copies_accepted - statistics.forced_accepted;
            assert_eq!(accepted, drafts, "request {index}: right drafts are accepted");
        }
        if reply.finish.is_some() {
            assert_eq!(statistics.reply_tokens, reply.tokens.len(), "request {index}");
        }
        check_origins(index, reply);
    }

    fn may_fail(&self, request: &Request, reason: &str) -> bool {
        let failures = &self.script.failures;
        let poisoned = |seed: u64| failures.sequences.iter().any(|sequence| sequence.0 == seed);
        let pages = (request.new.prompt.len() + request.new.max_tokens).div_ceil(self.limits.page);
        match reason.split(' ').next() {
            Some("round") => !failures.rounds.is_empty(),
            Some("open") => !failures.opens.is_empty(),
            Some("seed") => poisoned(request.new.rule.seed),
            _ => pages > self.script.pages,
        }
    }
}

/// Tokens are drafts, copies or a round's own draw, as many as were counted; the last window may have been cut.
fn check_origins(index: usize, reply: &Reply) {
    let count = |origin: Origin| reply.origins.iter().filter(|&&other| other == origin).count() as u64;
    let statistics = &reply.statistics;
    assert_eq!(reply.origins.len(), reply.tokens.len(), "request {index}");
    let (copies, drafts) = (count(Origin::Copy), count(Origin::Draft));
    let forced = count(Origin::Forced);
    let accepted = statistics.forced_accepted;
    assert!(forced <= accepted, "request {index}: {forced} forced told, {accepted} accepted");
    let accepted = statistics.accepted - statistics.copies_accepted - statistics.forced_accepted;
    assert!(drafts <= accepted, "request {index}: {drafts} drafts told, {accepted} accepted");
    let accepted = statistics.copies_accepted;
    assert!(copies <= accepted, "request {index}: {copies} copies told, {accepted} accepted");
    let draws = count(Origin::Plain) + count(Origin::Bonus);
    let rounds = statistics.rounds;
    assert!(draws <= rounds && rounds <= draws + 1, "request {index}: {draws} draws in {rounds} rounds");
}

fn failure(reply: &Reply) -> Option<&str> {
    match &reply.finish {
        Some(Finish::Failed(reason)) => Some(reason),
        _ => None,
    }
}

fn drafter(random: &mut Random) -> DrafterScript {
    let rightness = match random.below(4) {
        0 => Rightness::Always,
        1 => Rightness::Pattern(random.number()),
        _ => Rightness::Share(0.1 + 0.85 * random.unit()),
    };
    let confidence = match random.below(3) {
        0 => Confidence::Constant(random.unit() as f32 * 6.0 - 2.0),
        1 => Confidence::Arbitrary,
        _ => Confidence::Honest,
    };
    DrafterScript { rightness, confidence, seed: random.number() }
}

fn costs(random: &mut Random) -> ScriptedCosts {
    let scale = |random: &mut Random| random.unit() * random.unit();
    ScriptedCosts {
        round_ms: 1.0,
        row_ms: scale(random),
        hold_ms: scale(random),
        hold_depth_ms: 0.1 * scale(random),
        hold_lane_ms: 0.1 * scale(random),
        ..ScriptedCosts::NONE
    }
}

fn request(random: &mut Random, vocabulary: u32) -> Request {
    let prompt_tokens = if random.chance(0.3) { 1 } else { 1 + random.below(90) };
    let token = |random: &mut Random| random.below(u64::from(vocabulary)) as u32;
    let temperature = TEMPERATURES[random.below(3) as usize];
    let seed = random.number();
    let rule = SamplingRule { temperature, seed, choice: random.below(2) as u32, ..Default::default() };
    let new = NewSequence {
        prompt: (0..prompt_tokens).map(|_| token(random)).collect(),
        max_tokens: 1 + random.below(50) as usize,
        rule,
        stop_tokens: (0..random.below(3)).map(|_| token(random)).collect(),
        draft: random.chance(0.8),
        logprobs: [None, None, Some(0), Some(3)][(seed % 4) as usize],
    };
    Request { new, constraint: None, arrives: random.below(30), leaves: None }
}

/// Some prompts go on from the beginning of the one before.
fn share_prefixes(random: &mut Random, requests: &mut [Request]) {
    for index in 1..requests.len() {
        if random.chance(0.6) {
            let before = requests[index - 1].new.prompt.clone();
            let kept = 1 + random.below(before.len() as u64) as usize;
            let prompt = &mut requests[index].new.prompt;
            prompt.splice(..0, before[..kept].iter().copied());
            prompt.truncate(90);
        }
    }
}
