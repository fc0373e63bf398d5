//! The round loop: what waits, what runs, and one step of it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::absorbing::Absorbing;
use crate::ahead::Ahead;
use crate::band::band;
use crate::calibrate::ConfidenceSample;
use crate::chances::{Calibration, Rates};
use crate::clock::{Clock, SystemClock};
use crate::constraint::{Constraint, Masks, Obstacle};
use crate::cost::CostTable;
use crate::deliver::Delivery;
use crate::guard::Side;
use crate::guards::{GuardState, Guards};
use crate::live_costs::LiveCosts;
use crate::offers::Offered;
use crate::overhead::Overheads;
use crate::plan::{Plan, Situation};
use crate::planted::Planted;
use crate::sequence::{NewSequence, Sequence, SequenceId, SubmitError};
use crate::statistics::{SequenceStatistics, Totals};
use crate::target::{Limits, Round, RoundOut, Target, TargetError, Window};
use crate::turns::NextTurns;

/// How the scheduler runs. None of this changes a reply's text.
#[derive(Debug, Clone)]
pub struct Options {
    /// Most prompt rows of a round, over all prompts: long chunks are cheaper by token, and running replies
    /// wait for them.
    pub prompt_chunk: usize,
    /// The same while no reply is running; as many where none is named.
    pub idle_prompt_chunk: Option<usize>,
    /// Sequences that may wait for a lane.
    pub max_waiting: usize,
    /// What rounds and holds cost.
    pub costs: CostTable,
    /// Temperatures of the drafter's confidences.
    pub calibration: Calibration,
    /// Whether sequences may copy from their own earlier tokens.
    pub copies: bool,
    /// Every lane holds as deep as it can and every draft is verified, with no copies and no guards, whatever it
    /// costs; forced tokens are, too: for measuring acceptance where the guards would not draft.
    pub force_drafts: bool,
    #[doc(hidden)]
    pub planted: Option<Planted>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            prompt_chunk: 256,
            idle_prompt_chunk: None,
            max_waiting: 64,
            costs: CostTable::default(),
            calibration: Calibration::default(),
            copies: true,
            force_drafts: false,
            planted: None,
        }
    }
}

/// Time that a measurement of the cost table may take.
const MEASURE_BUDGET: Duration = Duration::from_millis(900);

/// Runs sequences on a target, round by round.
pub struct Lanes<T: Target, C: Clock = SystemClock> {
    pub(crate) target: T,
    pub(crate) clock: C,
    pub(crate) limits: Limits,
    pub(crate) options: Options,
    pub(crate) waiting: VecDeque<Sequence>,
    /// What each of the target's lanes runs.
    pub(crate) running: Vec<Option<Sequence>>,
    pub(crate) plan: Plan,
    masks: Masks,
    pub(crate) out: RoundOut,
    /// The round behind the one that is read next, and what it leaves when nobody wants it.
    pub(crate) ahead: Option<Ahead>,
    pub(crate) drained: RoundOut,
    pub(crate) overheads: Overheads,
    pub(crate) absorbing: Absorbing,
    pub(crate) live_costs: LiveCosts,
    pub(crate) guards: Guards,
    /// How the drafts of all lanes have fared, with which a new one begins.
    pub(crate) rates: Rates,
    /// What the drafter said and what became of it, until its capacity is full.
    pub(crate) confidences: Vec<ConfidenceSample>,
    pub(crate) next_turns: NextTurns,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) totals: Totals,
    pub(crate) round: u64,
    /// When the last round ended, if lanes have been live since.
    round_ended: Option<Duration>,
    next_id: u64,
}

impl<T: Target> Lanes<T> {
    /// A scheduler on the machine's clock.
    pub fn new(target: T, options: Options) -> Self {
        Lanes::with_clock(target, options, SystemClock::default())
    }
}

impl<T: Target, C: Clock> Lanes<T, C> {
    /// A scheduler on a given clock. All lanes of the target are closed.
    pub fn with_clock(target: T, options: Options, clock: C) -> Self {
        let limits = target.limits().clone();
        assert!(
            limits.lanes > 0 && limits.rows > 0 && limits.page > 0,
            "a target without lanes, rows or pages: {limits:?}"
        );
        assert!(options.prompt_chunk > 0, "a prompt chunk has at least one row");
        let out = RoundOut {
            windows: Vec::with_capacity(limits.lanes),
            drawn: Vec::with_capacity(limits.rows),
            held: Vec::with_capacity(limits.lanes * limits.block),
            ..RoundOut::default()
        };
        let absorbing = Absorbing::new(options.costs.absorb_ms(1));
        Lanes {
            target,
            clock,
            options,
            waiting: VecDeque::new(),
            running: (0..limits.lanes).map(|_| None).collect(),
            plan: Plan::with_capacity(&limits),
            masks: Masks::default(),
            drained: out.clone(),
            out,
            ahead: None,
            overheads: Overheads::new(limits.lanes),
            absorbing,
            live_costs: LiveCosts::default(),
            guards: Guards::default(),
            rates: Rates::default(),
            confidences: Vec::new(),
            next_turns: NextTurns::default(),
            deliveries: Vec::with_capacity(limits.lanes),
            totals: Totals::default(),
            round: 0,
            round_ended: None,
            next_id: 0,
            limits,
        }
    }

    /// Takes a sequence; it begins with the next step that has a lane and memory for it, in order of submission.
    pub fn submit(&mut self, sequence: NewSequence) -> Result<SequenceId, SubmitError> {
        self.check(&sequence)?;
        let id = SequenceId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back(Sequence::new(id, sequence, &self.limits));
        Ok(id)
    }

    /// Takes a sequence whose reply is held to a form, from its first token on.
    pub fn submit_constrained(
        &mut self,
        sequence: NewSequence,
        constraint: Box<dyn Constraint>,
    ) -> Result<SequenceId, SubmitError> {
        let id = self.submit(sequence)?;
        self.waiting.back_mut().expect("just pushed").constrain(constraint);
        Ok(id)
    }

    fn check(&self, new: &NewSequence) -> Result<(), SubmitError> {
        let (prompt_tokens, max_tokens, context) = (new.prompt.len(), new.max_tokens, self.limits.context);
        if prompt_tokens == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if max_tokens == 0 {
            return Err(SubmitError::NoTokensAsked);
        }
        if prompt_tokens.saturating_add(max_tokens) > context {
            return Err(SubmitError::ContextExceeded { prompt_tokens, max_tokens, context });
        }
        // Sequences that the next step can give a lane do not count as waiting.
        let waiting = self.waiting.len().saturating_sub(self.limits.lanes - self.running());
        let limit = self.options.max_waiting;
        if self.waiting.len() >= limit + self.limits.lanes - self.running() {
            return Err(SubmitError::QueueFull { waiting, limit });
        }
        Ok(())
    }

    /// Ends a sequence that nobody waits for any more. Its lane is free at once and nothing more is delivered.
    /// What it took until now, if it was still alive.
    pub fn cancel(&mut self, id: SequenceId) -> Option<SequenceStatistics> {
        let ended = self.remove(id);
        self.totals.cancelled += u64::from(ended.is_some());
        ended
    }

    /// Ends a sequence whose reply is complete for a reason that only the caller knows, such as a stop string.
    /// Like [`Lanes::cancel`], but counted as finished.
    pub fn finish(&mut self, id: SequenceId) -> Option<SequenceStatistics> {
        let ended = self.remove(id);
        self.totals.finished += u64::from(ended.is_some());
        ended
    }

    fn remove(&mut self, id: SequenceId) -> Option<SequenceStatistics> {
        if let Some(index) = self.waiting.iter().position(|sequence| sequence.id == id) {
            return self.waiting.remove(index).map(|sequence| sequence.statistics);
        }
        let is = |slot: &Option<Sequence>| slot.as_ref().is_some_and(|sequence| sequence.id == id);
        let lane = self.running.iter().position(is)?;
        Some(self.release(lane).statistics)
    }

    /// Frees a lane; what ran in it.
    pub(crate) fn release(&mut self, lane: usize) -> Sequence {
        self.drain();
        self.target.close(lane);
        self.running[lane].take().expect("a lane that is released runs a sequence")
    }

    /// One round: admits, plans, runs, commits. Returns at most one delivery a sequence, none when there is
    /// nothing to do.
    pub fn step(&mut self) -> &[Delivery] {
        self.deliveries.clear();
        let queued = match self.ahead.take() {
            Some(Ahead { window, queued }) => {
                self.plan(Some(window));
                Some(queued)
            }
            None => {
                self.admit();
                self.plan_masked();
                self.queue()
            }
        };
        if let Some(queued) = queued {
            self.read(queued);
        }
        if self.running() == 0 {
            self.round_ended = None;
            if self.options.planted == Some(Planted::GuardForgets) {
                self.guards = Guards::default();
            }
        }
        &self.deliveries
    }

    /// Plans the next round, or takes over the round ahead.
    fn plan(&mut self, ahead: Option<Window>) {
        let situation = Situation {
            lanes: &self.running,
            limits: &self.limits,
            options: &self.options,
            overheads: &self.overheads,
            live_costs: &self.live_costs,
            guards: &self.guards,
            next_turns: self.next_turns,
            round: self.round,
        };
        match ahead {
            Some(window) => self.plan.follow(window, &situation),
            None => self.plan.make(&situation),
        }
    }

    /// Plans the next round and its masks. A reply whose constraint cannot go on ends here, and drafts that would lead it
    /// there are none.
    fn plan_masked(&mut self) {
        self.plan(None);
        while let Err((lane, obstacle)) = self.mask() {
            match obstacle {
                Obstacle::End(error) => {
                    let sequence = self.release(lane);
                    self.fail(sequence, error.into());
                }
                Obstacle::Draft(count) => {
                    let sequence = self.running[lane].as_mut().expect("a planned lane runs a sequence");
                    sequence.cut_drafts(count);
                }
            }
            self.plan(None);
        }
    }

    /// Makes the masks of the planned round; the lane whose window cannot have them, if there is one.
    fn mask(&mut self) -> Result<(), (usize, Obstacle)> {
        self.masks.clear();
        for (index, window) in self.plan.windows.iter().enumerate().filter(|(_, window)| window.draws) {
            let sequence = self.running[window.lane].as_mut().expect("a planned lane runs a sequence");
            let forced = self.plan.offered[index] == Offered::Forced;
            if forced && self.options.planted == Some(Planted::ForcedUnmasked) {
                continue;
            }
            if let Some(constrained) = &mut sequence.constrained {
                let drafts = &self.plan.tokens[window.tokens.end - window.drafts..window.tokens.end];
                let added = self.masks.add(index, window, drafts, constrained);
                added.map_err(|obstacle| (window.lane, obstacle))?;
            }
        }
        Ok(())
    }

    /// Queues the planned round, if there is something to do; when it was queued.
    fn queue(&mut self) -> Option<Duration> {
        if self.plan.windows.is_empty() {
            return None;
        }
        if self.options.planted == Some(Planted::MasksShifted) {
            self.masks.shift();
        }
        let masks = self.masks.rows();
        let queued = self.clock.now();
        let round = Round { tokens: &self.plan.tokens, windows: &self.plan.windows, masks: &masks };
        if let Err(error) = self.target.queue(&round) {
            self.end_round(queued);
            self.blame(&error);
            return None;
        }
        Some(queued)
    }

    /// Reads the planned round, with the next one queued behind it where that is possible.
    fn read(&mut self, queued: Duration) {
        self.ahead = self.queue_ahead();
        let result = self.target.read(&mut self.out);
        let took = self.end_round(queued);
        match result {
            Ok(()) => self.commit(took),
            Err(error) => {
                self.ahead = None;
                self.blame(&error);
            }
        }
    }

    /// Notes the gap before a round, during which the target had nothing to do; what the round took by itself.
    fn end_round(&mut self, queued: Duration) -> Duration {
        let ended = self.clock.now();
        let before = self.round_ended.replace(ended);
        if let Some(before) = before {
            self.totals.round_gap += queued.saturating_sub(before);
            self.totals.round_gaps += 1;
        }
        self.round += 1;
        ended.saturating_sub(before.unwrap_or_default().max(queued))
    }

    /// Measures the cost table on the idle target, within about a second.
    pub fn measure_costs(&mut self, vocabulary: usize) -> Result<&CostTable, TargetError> {
        assert!(self.running() == 0, "costs are measured while nothing runs");
        self.options.costs = CostTable::measure(&mut self.target, &self.clock, vocabulary, MEASURE_BUDGET)?;
        Ok(&self.options.costs)
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running() == 0
    }

    /// Sequences that have a lane.
    pub fn running(&self) -> usize {
        self.running.iter().flatten().count()
    }

    /// Sequences that wait for a lane.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What a live sequence took until now.
    pub fn statistics(&self, id: SequenceId) -> Option<&SequenceStatistics> {
        let all = self.running.iter().flatten().chain(&self.waiting);
        all.into_iter().find(|sequence| sequence.id == id).map(|sequence| &sequence.statistics)
    }

    /// Counts over all sequences.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What the guards have found, for each kind of round that has been seen.
    pub fn guards(&self) -> impl Iterator<Item = GuardState> {
        self.guards.states()
    }

    /// Puts every guard on a side, as if it had been found to be the cheaper one, and forgets what was measured: for
    /// gates, since no text may depend on it.
    pub fn rest_guards(&mut self, side: Side) {
        self.guards = Guards::resting(side);
        // What earlier rounds took on a busy machine would say that drafts do not pay, and a gate of the drafted side
        // would see none.
        self.live_costs = LiveCosts::default();
        self.overheads = Overheads::new(self.limits.lanes);
        self.absorbing = Absorbing::new(self.options.costs.absorb_ms(1));
    }

    /// Sets [`Options::force_drafts`]; what it was.
    pub fn force_drafts(&mut self, force: bool) -> bool {
        std::mem::replace(&mut self.options.force_drafts, force)
    }

    /// Records the confidences of the next `most` windows that verify drafts.
    pub fn record_confidences(&mut self, most: usize) {
        self.confidences = Vec::with_capacity(most);
    }

    /// The confidences that were recorded, for [`Calibration::fit`]; recording ends.
    pub fn take_confidences(&mut self) -> Vec<ConfidenceSample> {
        std::mem::take(&mut self.confidences)
    }

    /// Distinct experts of rounds of so many rows at this context length, in proportion to those that the cost
    /// table was timed with; nothing before there were such rounds.
    pub fn experts_share(&self, context: usize, rows: usize) -> Option<f64> {
        self.live_costs.experts_share(band(context), rows)
    }

    /// What rounds and holds cost.
    pub fn costs(&self) -> &CostTable {
        &self.options.costs
    }

    /// What the target can hold and do.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Pages that running sequences hold: 0 when idle.
    pub fn pages_in_use(&self) -> usize {
        self.target.pages_in_use()
    }

    /// Pages that the target has.
    pub fn pages_total(&self) -> usize {
        self.target.pages_total()
    }

    /// The target.
    pub fn target(&self) -> &T {
        &self.target
    }
}
