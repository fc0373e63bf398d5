//! A run of a world: requests come and go by the step, and every step is held to the properties.

use std::collections::BTreeMap;

use forerunner_lanes::fake::{FakeTarget, ScriptedClock};
use forerunner_lanes::{Lanes, Limits, SequenceId};

use super::{Reply, World};

/// A world in the middle of its run.
pub(super) struct Run<'a> {
    world: &'a World,
    lanes: Lanes<FakeTarget, ScriptedClock>,
    step: u64,
    live: BTreeMap<SequenceId, Live>,
    replies: Vec<Reply>,
}

/// A sequence that has not ended, and when it last moved.
struct Live {
    request: usize,
    rounds: u64,
    moved: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        let target = FakeTarget::new(world.limits.clone(), world.script.clone());
        let clock = target.clock();
        let lanes = Lanes::with_clock(target, world.options(), clock);
        Run {
            world,
            lanes,
            step: 0,
            live: BTreeMap::new(),
            replies: vec![Reply::default(); world.requests.len()],
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let last = self.world.requests.iter().map(|request| request.arrives).max();
        self.lanes.is_idle() && last.is_none_or(|last| last < self.step)
    }

    pub(super) fn step(&mut self) {
        self.arrive_and_leave();
        let idle = self.lanes.is_idle();
        let deliveries = self.lanes.step();
        assert!(!idle || deliveries.is_empty(), "a delivery out of nothing");
        for delivery in deliveries {
            let live = self.live.get(&delivery.id).expect("a delivery for a sequence that has ended");
            let reply = &mut self.replies[live.request];
            assert!(!delivery.tokens.is_empty() || delivery.finished.is_some(), "an empty delivery");
            reply.tokens.extend_from_slice(&delivery.tokens);
            reply.logprobs.extend_from_slice(&delivery.logprobs);
            reply.origins.extend_from_slice(delivery.tokens.origins());
            if let Some(finished) = &delivery.finished {
                reply.finish = Some(finished.reason.clone());
                reply.statistics = finished.statistics.clone();
                self.live.remove(&delivery.id);
            }
        }
        self.check_progress();
        self.step += 1;
    }

    fn arrive_and_leave(&mut self) {
        for (index, request) in self.world.requests.iter().enumerate() {
            if request.arrives == self.step {
                let new = request.new.clone();
                let submitted = match &request.constraint {
                    Some(constraint) => self.lanes.submit_constrained(new, Box::new(constraint.clone())),
                    None => self.lanes.submit(new),
                };
                let id = submitted.expect("the queue is long enough");
                self.live.insert(id, Live { request: index, rounds: 0, moved: self.step });
            }
            if request.leaves == Some(self.step) {
                let id = self.live.iter().find(|(_, live)| live.request == index).map(|(&id, _)| id);
                if let Some(id) = id {
                    self.live.remove(&id);
                    // Half of them have found a stop string.
                    let left = if index % 2 == 0 { self.lanes.cancel(id) } else { self.lanes.finish(id) };
                    self.replies[index].statistics = left.expect("a live sequence");
                    assert_eq!(self.lanes.cancel(id), None, "it left twice");
                }
            }
        }
    }

    /// No sequence that has begun waits for long, and with rows for all, a reply moves every step.
    fn check_progress(&mut self) {
        let Limits { lanes, rows, .. } = self.world.limits;
        let failures = &self.world.script.failures;
        let mishaps = (failures.rounds.len() + failures.sequences.len()) as u64;
        let patience = if rows > lanes { 1 } else { 2 * lanes as u64 } + mishaps * (lanes as u64 + 2);
        for (id, live) in &mut self.live {
            let statistics = self.lanes.statistics(*id).expect("a live sequence has statistics");
            let rounds = statistics.prompt_rounds + statistics.rounds;
            if rounds > live.rounds || rounds == 0 {
                *live = Live { rounds, moved: self.step, ..*live };
            }
            let waits = self.step - live.moved;
            // Prompts take turns at the chunk.
            let patience = if statistics.rounds == 0 { patience + lanes as u64 } else { patience };
            assert!(waits < patience, "{id} waits for {waits} steps, {patience} are allowed");
        }
        let requests = self.world.requests.iter().map(|request| &request.new);
        let rows: usize = requests.map(|new| new.prompt.len() + new.max_tokens).sum();
        let most = 100 + rows as u64 + mishaps * (lanes as u64 + 2);
        assert!(self.step <= most, "not over after {most} steps");
    }

    pub(super) fn end(self) -> (Vec<Reply>, u64) {
        assert!(self.live.is_empty(), "sequences that never ended");
        assert_eq!(self.lanes.pages_in_use(), 0, "pages in use when idle");
        let totals = self.lanes.totals();
        let ended = totals.finished + totals.cancelled + totals.failed;
        let left = self.replies.iter().filter(|reply| reply.finish.is_none()).count() as u64;
        assert!(
            ended <= self.replies.len() as u64 && ended + left >= self.replies.len() as u64,
            "{totals:?}"
        );
        (self.replies, self.lanes.target().rounds())
    }
}
