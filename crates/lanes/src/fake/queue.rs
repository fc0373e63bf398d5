//! Rounds that the fake was asked for and that are not read yet.

use std::collections::VecDeque;

use crate::target::{PendingSource, Round, RoundOut, TargetError, Window};

/// A round's outcome, until it is read.
#[derive(Debug, Default)]
pub(super) struct Queued {
    pub(super) out: RoundOut,
    pub(super) milliseconds: f64,
    pub(super) failed: Option<TargetError>,
}

/// What is queued, and memory of what was.
#[derive(Debug, Default)]
pub(super) struct Queue {
    queued: VecDeque<Queued>,
    spare: Vec<Queued>,
    /// What the last round may be followed by: its lane, and the position behind its rows.
    last: Option<(usize, usize)>,
}

impl Queue {
    pub(super) fn is_idle(&self) -> bool {
        self.queued.is_empty()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.queued.iter().any(|queued| queued.failed.is_some())
    }

    /// Panics unless the round may be queued now.
    pub(super) fn check(&self, round: &Round<'_>, page: usize) {
        let last_draw = |window: &Window| window.pending == PendingSource::LastDraw;
        if self.is_idle() {
            return assert!(!round.windows.iter().any(last_draw), "a draw that was read stands for a token");
        }
        assert_eq!(self.queued.len(), 1, "a third round is queued");
        let (lane, position) = self.last.expect("a round is queued behind one that it may not follow");
        let [window] = round.windows else { panic!("{} windows behind a round", round.windows.len()) };
        assert!(last_draw(window), "a round is queued whose token cannot be known");
        assert_eq!((window.lane, window.position), (lane, position), "a round follows another lane's");
        assert!(!position.is_multiple_of(page), "lane {lane}: a round behind one that fills a page");
    }

    pub(super) fn take_spare(&mut self) -> Queued {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn push(&mut self, queued: Queued, round: &Round<'_>) {
        self.last = match round.windows {
            [Window { drafts: 0, hold: 0, draws: true, .. }] => {
                Some((round.windows[0].lane, round.windows[0].position + round.windows[0].rows()))
            }
            _ => None,
        };
        self.queued.push_back(queued);
    }

    /// The first round that is queued.
    pub(super) fn read(&mut self, out: &mut RoundOut) -> Result<f64, TargetError> {
        let mut queued = self.queued.pop_front().expect("a round is read that was not queued");
        if let Some(error) = queued.failed.take() {
            self.spare.push(queued);
            return Err(error);
        }
        std::mem::swap(out, &mut queued.out);
        let milliseconds = queued.milliseconds;
        self.spare.push(queued);
        Ok(milliseconds)
    }
}
