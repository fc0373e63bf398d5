//! The fake target: hashes for tokens, scripted time, injected failures, and faults to be caught.

use super::clock::{ScriptedClock, ScriptedCosts};
use super::contract::{Known, check_round};
use super::drafter::{DraftAt, DrafterScript};
use super::prefixes::{Prefixes, Stored, name};
use super::random::fold;
use crate::allocate::Holding;
use crate::target::{
    HeldDraft, Limits, OpenLane, Round, RoundOut, SamplingRule, Target, TargetError, TokenId, Window,
    WindowOut,
};

/// How a fake behaves.
#[derive(Debug, Clone)]
pub struct FakeScript {
    /// Its tokens are below this.
    pub vocabulary: u32,
    /// Pages that it has.
    pub pages: usize,
    /// Whether it stores the state at page borders of prompts and resumes from it.
    pub stores_prefixes: bool,
    /// Its drafter.
    pub drafter: DrafterScript,
    /// What it charges its clock.
    pub costs: ScriptedCosts,
    /// Where it fails.
    pub failures: Failures,
    #[doc(hidden)]
    pub fault: Option<Fault>,
}

impl Default for FakeScript {
    fn default() -> Self {
        FakeScript {
            vocabulary: 1000,
            pages: 1 << 20,
            stores_prefixes: false,
            drafter: DrafterScript::default(),
            costs: ScriptedCosts::default(),
            failures: Failures::default(),
            fault: None,
        }
    }
}

/// Calls that fail. Counts begin at 0.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    /// Rounds that fail, by count.
    pub rounds: Vec<u64>,
    /// Opens that fail, by count.
    pub opens: Vec<u64>,
    /// (seed, length): every round fails that has a lane with this seed in its rule, from this length on.
    pub sequences: Vec<(u64, usize)>,
}

/// A defect planted in the fake, which a test suite worth its name must notice.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The state after a rejection includes the rejected row.
    KeepsRejectedRow,
    /// Draws are keyed by the row's index in the round instead of its position.
    DrawsByRowIndex,
    /// One draft more is accepted than equals its draw.
    AcceptsOneTooMany,
    /// The first token of the window before gets into a lane's state.
    NeighbourLeaks,
    /// Drafts are made for the position after the one they are for.
    HoldsAtWrongPosition,
    /// A lane that was closed keeps its pages.
    LeaksPages,
    /// State depends on where the prompt was cut.
    RemembersChunks,
    /// Drafting changes the seed of draws.
    DrafterDisturbsDraws,
    /// The state stored at a page border is the one before the chunk's last row.
    StoresStateOfRowBefore,
    /// A prefix is found by its length alone.
    FindsPrefixByLength,
}

/// A target whose next token is a hash of the whole history, the rule and the position.
#[derive(Debug)]
pub struct FakeTarget {
    limits: Limits,
    script: FakeScript,
    lanes: Vec<Option<Lane>>,
    clock: ScriptedClock,
    pages_free: usize,
    rounds: u64,
    opens: u64,
    prefixes: Prefixes,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    known: Known,
    /// Hash of the committed history.
    state: u64,
    /// Hash of the sampling rule.
    key: u64,
    seed: u64,
    pages: usize,
    /// Name of the committed tokens in the stored prefixes.
    name: u64,
}

impl FakeTarget {
    /// A fake with all lanes closed.
    pub fn new(limits: Limits, script: FakeScript) -> Self {
        FakeTarget {
            lanes: vec![None; limits.lanes],
            pages_free: script.pages,
            clock: ScriptedClock::default(),
            rounds: 0,
            opens: 0,
            prefixes: Prefixes::default(),
            limits,
            script,
        }
    }

    /// The clock that it charges.
    pub fn clock(&self) -> ScriptedClock {
        self.clock.clone()
    }

    /// How it behaves.
    pub fn script(&self) -> &FakeScript {
        &self.script
    }

    /// Rounds asked of it, failed ones included.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// What a fake of this vocabulary answers, worked out token by token with no scheduler: up to `max_tokens`,
    /// or to the first stop token.
    pub fn reply(
        vocabulary: u32,
        prompt: &[TokenId],
        rule: &SamplingRule,
        max_tokens: usize,
        stop_tokens: &[TokenId],
    ) -> Vec<TokenId> {
        let key = rule_key(rule);
        let mut state = prompt.iter().fold(0, |state, &token| fold(state, u64::from(token)));
        let mut reply = Vec::new();
        while reply.len() < max_tokens && !reply.last().is_some_and(|last| stop_tokens.contains(last)) {
            let token = draw(state, key, prompt.len() + reply.len(), vocabulary);
            state = fold(state, u64::from(token));
            reply.push(token);
        }
        reply
    }

    fn fault(&self, fault: Fault) -> bool {
        self.script.fault == Some(fault)
    }

    fn check_failures(&self, round: &Round<'_>) -> Result<(), TargetError> {
        let failures = &self.script.failures;
        if failures.rounds.contains(&self.rounds) {
            return Err(TargetError::Failed(format!("round {} was told to fail", self.rounds)));
        }
        for lane in round.windows.iter().filter_map(|window| self.lanes[window.lane].as_ref()) {
            let hit = |&&(seed, length): &&(u64, usize)| seed == lane.seed && lane.known.length >= length;
            if let Some((seed, length)) = failures.sequences.iter().find(hit) {
                return Err(TargetError::Failed(format!(
                    "seed {seed} was told to fail from length {length}"
                )));
            }
        }
        Ok(())
    }

    /// Draws, accepts and keeps one window.
    fn verify(&mut self, round: &Round<'_>, window: &Window, out: &mut RoundOut) -> usize {
        let lane = self.lanes[window.lane].expect("checked to be open");
        let tokens = &round.tokens[window.tokens.clone()];
        let committed_rows = tokens.len() - window.drafts;
        let mut state = lane.state;
        let mut state_before = state;
        for &token in &tokens[..committed_rows] {
            state_before = state;
            state = fold(state, u64::from(token));
        }
        self.store_prefix(
            window,
            tokens,
            if self.fault(Fault::StoresStateOfRowBefore) { state_before } else { state },
        );
        if self.fault(Fault::RemembersChunks) && !window.draws {
            state = fold(state, 0);
        }
        if self.fault(Fault::NeighbourLeaks) && window.tokens.start > 0 {
            state = fold(state, u64::from(round.tokens[window.tokens.start - 1]));
        }
        let accepted =
            if window.draws { self.draw_rows(window, tokens, &mut state, lane.key, out) } else { 0 };
        let lane = self.lanes[window.lane].as_mut().expect("checked to be open");
        lane.state = state;
        lane.known.length = window.position + committed_rows + accepted;
        accepted
    }

    /// Stores the state after a prompt chunk that ends at a page border.
    fn store_prefix(&mut self, window: &Window, tokens: &[TokenId], state: u64) {
        let lane = self.lanes[window.lane].as_mut().expect("checked to be open");
        if !self.script.stores_prefixes || window.position >= lane.known.prompt {
            return;
        }
        lane.name = name(lane.name, tokens);
        let length = window.position + tokens.len();
        if length.is_multiple_of(self.limits.page) {
            self.prefixes.store(Stored { length, name: lane.name, state });
        }
    }

    /// Draws from every row that draws, moves `state` over the accepted drafts and counts them.
    fn draw_rows(
        &self,
        window: &Window,
        tokens: &[TokenId],
        state: &mut u64,
        key: u64,
        out: &mut RoundOut,
    ) -> usize {
        let committed_rows = tokens.len() - window.drafts;
        let mut row_state = *state;
        let mut accepted = 0;
        for row in 0..=window.drafts {
            let mut position = window.position + committed_rows + row;
            if self.fault(Fault::DrawsByRowIndex) {
                position = window.tokens.start + row;
            }
            let drawn = draw(row_state, key, position, self.script.vocabulary);
            out.drawn.push(drawn);
            let Some(&draft) = tokens.get(committed_rows + row) else { break };
            row_state = fold(row_state, u64::from(draft));
            if accepted == row && draft == drawn {
                accepted += 1;
                *state = row_state;
            } else if accepted == row && self.fault(Fault::KeepsRejectedRow) {
                *state = row_state;
            }
        }
        if self.fault(Fault::AcceptsOneTooMany) && accepted < window.drafts {
            accepted += 1;
        }
        accepted
    }

    /// Drafts for a lane's next round, whose pending token is the last draw.
    fn hold(&self, window: &Window, pending: TokenId, out: &mut RoundOut) {
        let lane = self.lanes[window.lane].as_ref().expect("checked to be open");
        let mut state = fold(lane.state, u64::from(pending));
        let wrong_place = usize::from(self.fault(Fault::HoldsAtWrongPosition));
        for depth in 0..window.hold {
            let position = lane.known.length + 1 + depth + wrong_place;
            let (right, confidence) = self.script.drafter.draft(DraftAt { lane: window.lane, depth, state });
            let truth = draw(state, lane.key, position, self.script.vocabulary);
            let token = if right { truth } else { (truth + 1) % self.script.vocabulary };
            let confidence = if self.limits.has_confidence { confidence } else { f32::NAN };
            out.held.push(HeldDraft { token, confidence });
            state = fold(state, u64::from(token));
        }
    }

    fn charge(&self, round: &Round<'_>) {
        let mut holding = Holding::default();
        round.windows.iter().for_each(|window| holding.add(window.hold));
        let costs = &self.script.costs;
        self.clock.charge(costs.round_ms(round.tokens.len()) + costs.hold_ms(holding.lanes, holding.depth));
    }
}

impl Target for FakeTarget {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, lane: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        assert!(lane < self.limits.lanes, "lane {lane} where {} are the most", self.limits.lanes);
        assert!(self.lanes[lane].is_none(), "lane {lane} is open already");
        let (prompt, context) = (open.prompt.len(), open.context);
        assert!(prompt > 0 && prompt < context, "a prompt of {prompt} in a context of {context}");
        assert!(
            context <= self.limits.context,
            "a context of {context} where {} is the most",
            self.limits.context
        );
        assert!(!open.drafted || self.limits.block > 0, "a drafted lane on a target without a drafter");
        self.opens += 1;
        if self.script.failures.opens.contains(&(self.opens - 1)) {
            return Err(TargetError::Failed(format!("open {} was told to fail", self.opens - 1)));
        }
        let pages = context.div_ceil(self.limits.page);
        if pages > self.script.pages {
            return Err(TargetError::TooLarge { pages_needed: pages, pages_total: self.script.pages });
        }
        if pages > self.pages_free {
            return Err(TargetError::Full { pages_needed: pages, pages_free: self.pages_free });
        }
        self.pages_free -= pages;
        let by_length = self.fault(Fault::FindsPrefixByLength);
        let Stored { length, name, state } = self.prefixes.find(open.prompt, self.limits.page, by_length);
        let known = Known { length, prompt, context, drafted: open.drafted };
        let (key, seed) = (rule_key(open.rule), open.rule.seed);
        self.lanes[lane] = Some(Lane { known, state, key, seed, pages, name });
        Ok(length)
    }

    fn round(&mut self, round: &Round<'_>, out: &mut RoundOut) -> Result<(), TargetError> {
        let known = |lane: usize| self.lanes.get(lane).copied().flatten().map(|lane| lane.known);
        check_round(round, &self.limits, self.script.vocabulary, known);
        let failed = self.check_failures(round);
        self.rounds += 1;
        failed?;
        out.clear();
        for window in round.windows {
            let (drawn, held) = (out.drawn.len(), out.held.len());
            let accepted = self.verify(round, window, out);
            if window.hold > 0 {
                self.hold(window, out.drawn[drawn + accepted], out);
                if self.fault(Fault::DrafterDisturbsDraws) {
                    self.lanes[window.lane].as_mut().expect("checked to be open").key += 1;
                }
            }
            let (drawn, held) = (drawn..out.drawn.len(), held..out.held.len());
            out.windows.push(WindowOut { drawn, accepted, held });
        }
        self.charge(round);
        Ok(())
    }

    fn close(&mut self, lane: usize) {
        let closed = self.lanes[lane].take().unwrap_or_else(|| panic!("lane {lane} is closed already"));
        if !self.fault(Fault::LeaksPages) {
            self.pages_free += closed.pages;
        }
    }

    fn pages_in_use(&self) -> usize {
        self.script.pages - self.pages_free
    }
}

/// What of a rule reaches the draws. A greedy lane has no use for a seed.
fn rule_key(rule: &SamplingRule) -> u64 {
    let temperature = u64::from(rule.temperature.to_bits());
    if rule.temperature > 0.0 { fold(fold(temperature, rule.seed), u64::from(rule.choice)) } else { 0 }
}

/// The token that stands at `position` after this history.
fn draw(state: u64, key: u64, position: usize, vocabulary: u32) -> TokenId {
    (fold(fold(state, key), position as u64) % u64::from(vocabulary)) as TokenId
}
