//! The fake target: hashes for tokens, scripted time, injected failures, and faults to be caught.

use super::clock::ScriptedClock;
use super::contract::{Known, check_round};
use super::drafter::DraftAt;
use super::prefixes::{Prefixes, Stored, name};
use super::queue::Queue;
use super::random::fold;
use super::script::{Experts, FakeScript, Fault, rule_key};
use crate::allocate::Holding;
use crate::target::{
    HeldDraft, Limits, OpenLane, PendingSource, Round, RoundOut, RowMask, SamplingRule, Target, TargetError,
    TokenId, Window, WindowOut,
};

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
    queue: Queue,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    known: Known,
    /// The token that its last row drew.
    last_draw: TokenId,
    /// Hash of the committed history.
    state: u64,
    /// Hash of the sampling rule.
    key: u64,
    seed: u64,
    logprobs: Option<usize>,
    pages: usize,
    /// Name of the committed tokens in the stored prefixes.
    name: u64,
}

impl Lane {
    /// A window's tokens, the one that only the target knows included.
    fn tokens<'a>(&'a self, round: &Round<'a>, window: &Window) -> &'a [TokenId] {
        match window.pending {
            PendingSource::LastDraw => std::slice::from_ref(&self.last_draw),
            PendingSource::Host | PendingSource::Held => &round.tokens[window.tokens.clone()],
        }
    }
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
            queue: Queue::default(),
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
        let script = FakeScript { vocabulary, ..FakeScript::default() };
        script.reply(prompt, rule, max_tokens, stop_tokens)
    }

    fn fault(&self, fault: Fault) -> bool {
        self.script.fault == Some(fault)
    }

    /// Runs a round at once; what it takes.
    fn compute(&mut self, round: &Round<'_>, out: &mut RoundOut) -> f64 {
        out.clear();
        out.distinct_experts = self.distinct_experts(round);
        let mut absorbed = 0;
        for window in round.windows {
            let (drawn, held, logprobs) = (out.drawn.len(), out.held.len(), out.logprobs.len());
            let accepted = self.verify(round, window, out);
            if window.hold > 0 {
                self.hold(window, out.drawn[drawn + accepted], out);
                if self.fault(Fault::DrafterDisturbsDraws) {
                    self.lanes[window.lane].as_mut().expect("checked to be open").key += 1;
                }
            }
            absorbed += self.absorb(window);
            let (drawn, held) = (drawn..out.drawn.len(), held..out.held.len());
            let logprobs = logprobs..out.logprobs.len();
            out.windows.push(WindowOut { drawn, accepted, held, logprobs });
        }
        self.milliseconds(round, absorbed, out.distinct_experts)
    }

    /// Rows of a lane that its drafter takes up in this round.
    fn absorb(&mut self, window: &Window) -> usize {
        let known = &mut self.lanes[window.lane].as_mut().expect("checked to be open").known;
        let whole_pages = known.length / self.limits.page * self.limits.page;
        let until = if window.hold > 0 { known.length } else { whole_pages };
        let before = known.absorbed;
        known.absorbed = if known.drafted { until.max(before) } else { before };
        known.absorbed - before
    }

    fn check_failures(&self, round: &Round<'_>) -> Result<(), TargetError> {
        let failures = &self.script.failures;
        let round_number = self.rounds - 1;
        if failures.rounds.contains(&round_number) {
            return Err(TargetError::Failed(format!("round {round_number} was told to fail")));
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
        let tokens = lane.tokens(round, window);
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
        let first_draw = out.drawn.len();
        let accepted =
            if window.draws { self.draw_rows(round, window, tokens, &mut state, &lane, out) } else { 0 };
        let forgets = self.fault(Fault::ForgetsLastDraw);
        let lane = self.lanes[window.lane].as_mut().expect("checked to be open");
        if window.draws && !forgets {
            lane.last_draw = out.drawn[first_draw + accepted];
        }
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
        round: &Round<'_>,
        window: &Window,
        tokens: &[TokenId],
        state: &mut u64,
        lane: &Lane,
        out: &mut RoundOut,
    ) -> usize {
        let committed_rows = tokens.len() - window.drafts;
        let first_state = *state;
        let mut row_state = first_state;
        let mut accepted = 0;
        for row in 0..=window.drafts {
            let mut position = window.position + committed_rows + row;
            if self.fault(Fault::DrawsByRowIndex) {
                position = window.tokens.start + row;
            }
            let drawn = self.script.draw_masked(row_state, lane.key, position, self.mask(round, window, row));
            out.drawn.push(drawn);
            let told_state = if self.fault(Fault::LogprobsOfFirstRow) { first_state } else { row_state };
            out.logprobs.extend(self.script.logprobs_of(drawn, told_state, lane.logprobs));
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

    /// The mask of a window's draw, if it has one.
    fn mask<'a>(&self, round: &Round<'a>, window: &Window, draw: usize) -> Option<&'a [u32]> {
        let draw = if self.fault(Fault::MasksOffByOne) { draw.saturating_sub(1) } else { draw };
        let unmasked = self.fault(Fault::AcceptsUnmasked) && draw < window.drafts;
        let is_its =
            |mask: &&RowMask<'_>| round.windows[mask.window].lane == window.lane && mask.draw == draw;
        round.masks.iter().find(is_its).filter(|_| !unmasked).map(|mask| mask.allowed)
    }

    /// Drafts for a lane's next round, whose pending token is the last draw.
    fn hold(&self, window: &Window, pending: TokenId, out: &mut RoundOut) {
        let lane = self.lanes[window.lane].as_ref().expect("checked to be open");
        let mut state = fold(lane.state, u64::from(pending));
        let wrong_place = usize::from(self.fault(Fault::HoldsAtWrongPosition));
        for depth in 0..window.hold {
            let position = lane.known.length + 1 + depth + wrong_place;
            let (right, confidence) =
                self.script.drafter.draft(DraftAt { lane: window.lane, depth, state, position });
            let truth = self.script.draw(state, lane.key, position);
            let token = if right { truth } else { (truth + 1) % self.script.vocabulary };
            let confidence = if self.limits.has_confidence { confidence } else { f32::NAN };
            out.held.push(HeldDraft { token, confidence });
            state = fold(state, u64::from(token));
        }
    }

    /// What the round takes.
    fn milliseconds(&self, round: &Round<'_>, absorbed: usize, distinct_experts: usize) -> f64 {
        let mut holding = Holding::default();
        round.windows.iter().for_each(|window| holding.add(window.hold));
        let costs = &self.script.costs;
        let rows = round.windows.iter().map(Window::rows).sum();
        let mut ms = costs.round_ms(rows) + costs.hold_ms(holding.lanes, holding.depth);
        for window in round.windows {
            ms += costs.context_ms(window.position, window.rows(), window.hold);
        }
        ms += costs.absorb_row_ms * absorbed as f64;
        ms += costs.expert_ms * distinct_experts as f64;
        ms * costs.noise(self.rounds)
    }

    /// Distinct experts of the round's rows. Rows on the text that the target itself would write keep to its
    /// topic and share them; arbitrary tokens do not.
    fn distinct_experts(&self, round: &Round<'_>) -> usize {
        let Experts { picked, of } = self.script.experts;
        let mut seen = vec![false; of];
        for window in round.windows.iter().filter(|_| of > 0) {
            let lane = self.lanes[window.lane].as_ref().expect("checked to be open");
            let mut state = lane.state;
            for (row, &token) in lane.tokens(round, window).iter().enumerate() {
                let topic = fold(lane.key, (window.position / 64) as u64);
                let expected = row == 0 || token == self.script.draw(state, lane.key, window.position + row);
                let pick = if expected { topic } else { fold(topic, u64::from(token)) };
                (0..picked).for_each(|index| seen[(fold(pick, index as u64) % of as u64) as usize] = true);
                state = fold(state, u64::from(token));
            }
        }
        seen.iter().filter(|&&seen| seen).count()
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
        let known = Known { length, prompt, context, drafted: open.drafted, absorbed: length };
        let (key, seed) = (rule_key(open.rule), open.rule.seed);
        let logprobs = open.logprobs;
        self.lanes[lane] = Some(Lane { known, last_draw: 0, state, key, seed, logprobs, pages, name });
        Ok(length)
    }

    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        self.queue.check(round, self.limits.page);
        self.rounds += 1;
        if self.queue.has_failed() {
            // Void: the lane is not where this round begins, and nobody will read it.
            return Ok(());
        }
        let known = |lane: usize| self.lanes.get(lane).copied().flatten().map(|lane| lane.known);
        check_round(round, &self.limits, self.script.vocabulary, known);
        if self.queue.is_idle() {
            self.clock.charge(self.script.costs.gap_ms);
        }
        let mut queued = self.queue.take_spare();
        queued.failed = self.check_failures(round).err();
        if queued.failed.is_none() {
            queued.milliseconds = self.compute(round, &mut queued.out);
        }
        self.queue.push(queued, round);
        Ok(())
    }

    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError> {
        self.clock.charge(self.queue.read(out)?);
        Ok(())
    }

    fn close(&mut self, lane: usize) {
        assert!(self.queue.is_idle(), "lane {lane} closes while a round is not read");
        let closed = self.lanes[lane].take().unwrap_or_else(|| panic!("lane {lane} is closed already"));
        if !self.fault(Fault::LeaksPages) {
            self.pages_free += closed.pages;
        }
    }

    fn pages_in_use(&self) -> usize {
        self.script.pages - self.pages_free
    }

    fn pages_total(&self) -> usize {
        self.script.pages
    }
}
