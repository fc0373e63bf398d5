//! Rounds ahead: while a lone lane is plain, its next round is queued before the last one is read, so that the
//! device need not wait for the host between them.

use std::time::Duration;

use crate::allocate::Holding;
use crate::clock::Clock;
use crate::depth::Hold;
use crate::guard::Side;
use crate::guards::GuardKey;
use crate::lanes::Lanes;
use crate::offers::Offered;
use crate::plan::{Judged, Plan, Situation};
use crate::planted::Planted;
use crate::sequence::Sequence;
use crate::target::{PendingSource, Round, Target, Window};

/// A round that was queued behind the one before and is not read yet.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub window: Window,
    pub queued: Duration,
}

impl<T: Target, C: Clock> Lanes<T, C> {
    /// Queues the round after the one in flight, where that needs nothing of what this one draws.
    pub(crate) fn queue_ahead(&mut self) -> Option<Ahead> {
        let window = self.window_ahead()?;
        let queued = self.clock.now();
        let round = Round { tokens: &[], windows: std::slice::from_ref(&window), masks: &[] };
        // A target that refuses is asked again when this round has been read, and then its error counts.
        self.target.queue(&round).ok()?;
        Some(Ahead { window, queued })
    }

    fn window_ahead(&self) -> Option<Window> {
        let [window] = &self.plan.windows[..] else { return None };
        let position = window.position + window.rows();
        let is_plain = window.draws && window.drafts == 0 && window.hold == 0;
        let is_lone = self.waiting.is_empty() && self.running() == 1 && self.plan.decoding == 1;
        // What is done when a page has filled wants its round read.
        let fills_page = position.is_multiple_of(self.limits.page);
        let sequence = self.running[window.lane].as_ref()?;
        // A mask is made of what the round before it draws.
        let is_free = sequence.constrained.is_none();
        let goes_on =
            sequence.tokens_left() > 1 && !sequence.suspect && self.stays_plain(sequence) && is_free;
        let known = self.limits.queues_ahead && is_plain && is_lone && !fills_page && goes_on;
        known.then(|| Window { position, tokens: 0..0, pending: PendingSource::LastDraw, ..window.clone() })
    }

    /// Whether the next round will be plain as well, whatever this one draws.
    fn stays_plain(&self, sequence: &Sequence) -> bool {
        let next = GuardKey::new(1, sequence.tokens.len() + 1);
        let rests = self.plan.side == Side::Plain && self.guards.side(next) == Side::Plain;
        rests || !sequence.may_draft()
    }

    /// Waits for a round ahead that nobody wants any more.
    pub(crate) fn drain(&mut self) {
        if self.ahead.take().is_some() && self.options.planted != Some(Planted::EndsUnread) {
            // Its lane ends, and with it whatever the round did or failed to do.
            let _ = self.target.read(&mut self.drained);
        }
    }
}

impl Plan {
    /// Becomes the plan of a round that was queued ahead.
    pub(crate) fn follow(&mut self, window: Window, situation: &Situation<'_>) {
        let sequence =
            situation.lanes[window.lane].as_ref().expect("a lane with a round ahead runs a sequence");
        self.tokens.clear();
        self.key = GuardKey::new(1, sequence.tokens.len());
        self.side = Side::Plain;
        self.judged = if sequence.may_draft() { Judged::Yes } else { Judged::AsPlain };
        self.holds[0] = Hold { depth: 0, next: sequence.hold_state };
        self.offered[0] = Offered::Nothing;
        self.holding = Holding::default();
        let costs = situation.live_costs.costs(&situation.options.costs, self.key.band);
        self.expected_ms = costs.ms(window.rows(), self.holding);
        self.windows[0] = window;
    }
}
