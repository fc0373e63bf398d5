//! Admission: waiting sequences get lanes, first come first served.

use crate::clock::Clock;
use crate::deliver::{Committed, Delivery, Finish, Finished, Origin};
use crate::lanes::Lanes;
use crate::sequence::Sequence;
use crate::target::{OpenLane, Target, TargetError};

impl<T: Target, C: Clock> Lanes<T, C> {
    /// Opens lanes for waiting sequences while there are lanes and memory. One that does not fit now holds back
    /// those behind it, or a large request would wait for ever behind small ones.
    pub(crate) fn admit(&mut self) {
        while let Some(lane) = self.running.iter().position(Option::is_none) {
            let Some(mut sequence) = self.waiting.pop_front() else { return };
            match self.open(lane, &sequence) {
                Ok(held) => {
                    sequence.resume(held, self.limits.page);
                    sequence.rates = self.rates.clone();
                    sequence.reserve(&self.limits, self.options.copies);
                    self.running[lane] = Some(sequence);
                }
                Err(TargetError::Full { .. }) if self.running() > 0 => {
                    self.waiting.push_front(sequence);
                    return;
                }
                Err(error) => self.fail(sequence, Finish::from(&error)),
            }
        }
    }

    fn open(&mut self, lane: usize, sequence: &Sequence) -> Result<usize, TargetError> {
        let open = OpenLane {
            prompt: &sequence.tokens,
            context: sequence.tokens.len() + sequence.max_tokens,
            rule: &sequence.rule,
            drafted: sequence.drafted,
            logprobs: sequence.logprobs,
        };
        self.target.open(lane, &open)
    }

    /// Ends a sequence that has no lane before its end.
    pub(crate) fn fail(&mut self, sequence: Sequence, reason: Finish) {
        self.totals.failed += 1;
        let finished = Finished { reason, statistics: sequence.statistics };
        let tokens = Committed::new(&[], 0, Origin::Plain);
        self.deliveries.push(Delivery {
            id: sequence.id,
            tokens,
            logprobs: Vec::new(),
            finished: Some(Box::new(finished)),
        });
    }
}
