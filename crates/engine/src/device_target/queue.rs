//! Rounds that are queued and not read yet, and what their read-backs say.

use std::collections::VecDeque;

use forerunner_lanes::{HeldDraft, Limits, RoundOut, TokenId, TokenLogprob, WindowOut};
use forerunner_tensor::{Accepted, Device};

use super::staging::{LOGPROB_WIDTH, Staging};

/// Rounds in the order of their reads, and memory of those that were read.
pub(super) struct Queue<D: Device> {
    queued: VecDeque<QueuedRound<D>>,
    spare: Vec<(Staging, Outcome)>,
    /// Rounds queued until now.
    pub(super) count: u64,
}

/// A round on its way.
pub(super) struct QueuedRound<D: Device> {
    pub(super) staging: Staging,
    pub(super) outcome: Outcome,
    pub(super) read_back: D::ReadBack,
}

impl<D: Device> Default for Queue<D> {
    fn default() -> Self {
        Queue { queued: VecDeque::with_capacity(2), spare: Vec::with_capacity(2), count: 0 }
    }
}

impl<D: Device> Queue<D> {
    /// Memory for the next round.
    pub(super) fn take_spare(&mut self) -> (Staging, Outcome) {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn give_back(&mut self, staging: Staging, outcome: Outcome) {
        self.spare.push((staging, outcome));
    }

    pub(super) fn push(&mut self, round: QueuedRound<D>) {
        self.queued.push_back(round);
    }

    /// The round to be read next.
    pub(super) fn pop(&mut self) -> Option<QueuedRound<D>> {
        self.queued.pop_front()
    }
}

/// A round's read-back: 32-bit words, part after part in the order of the methods.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) words: Vec<u32>,
    shape: Shape,
}

/// Lengths of the parts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    pub(super) draws: usize,
    pub(super) windows: usize,
    pub(super) layers: usize,
    /// Drafts of all blocks, and as many confidences.
    pub(super) slots: usize,
    /// Tokens whose log-probabilities are told.
    pub(super) told: usize,
}

const ACCEPTED_WORDS: usize = size_of::<Accepted>() / size_of::<u32>();

impl Outcome {
    /// Makes room for a round's parts.
    pub(super) fn reshape(&mut self, shape: Shape) {
        self.shape = shape;
        let Shape { draws, windows, layers, slots, told } = shape;
        self.words.resize(draws + windows * ACCEPTED_WORDS + layers + 2 * slots + 2 * told, 0);
    }

    /// The parts' lengths.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    fn part(&self, start: usize, len: usize) -> &[u32] {
        &self.words[start..start + len]
    }

    /// Drawn ids.
    pub(super) fn drawn(&self) -> &[i32] {
        bytemuck::cast_slice(self.part(0, self.shape.draws))
    }

    /// The windows' outcomes.
    pub(super) fn accepted(&self) -> &[Accepted] {
        bytemuck::cast_slice(self.part(self.shape.draws, self.shape.windows * ACCEPTED_WORDS))
    }

    /// Distinct experts by layer.
    pub(super) fn distinct(&self) -> &[i32] {
        bytemuck::cast_slice(self.part(self.distinct_start(), self.shape.layers))
    }

    /// Held drafts, block after block.
    pub(super) fn drafts(&self) -> &[i32] {
        bytemuck::cast_slice(self.part(self.distinct_start() + self.shape.layers, self.shape.slots))
    }

    /// Their confidences.
    pub(super) fn confidence(&self) -> &[f32] {
        let start = self.distinct_start() + self.shape.layers + self.shape.slots;
        bytemuck::cast_slice(self.part(start, self.shape.slots))
    }

    /// The log-probabilities of so many draws, from number `first` on of those that ask for them.
    fn logprobs(
        &self,
        first: usize,
        draws: usize,
        alternatives: usize,
    ) -> impl Iterator<Item = TokenLogprob> {
        let told = self.shape.told;
        let start = self.distinct_start() + self.shape.layers + 2 * self.shape.slots;
        let tokens: &[i32] = bytemuck::cast_slice(self.part(start, told));
        let values: &[f32] = bytemuck::cast_slice(self.part(start + told, told));
        let of_draws = tokens.chunks(LOGPROB_WIDTH).zip(values.chunks(LOGPROB_WIDTH)).skip(first).take(draws);
        of_draws.flat_map(move |(tokens, values)| {
            let told = tokens.iter().zip(values).take(1 + alternatives);
            told.map(|(token, logprob)| TokenLogprob { token: *token as TokenId, logprob: *logprob })
        })
    }

    fn distinct_start(&self) -> usize {
        self.shape.draws + self.shape.windows * ACCEPTED_WORDS
    }

    /// What it says of a round, in the scheduler's words.
    pub(super) fn report(&self, staging: &Staging, limits: &Limits, out: &mut RoundOut) {
        out.clear();
        out.drawn.extend(self.drawn().iter().map(|token| *token as TokenId));
        out.distinct_experts = self.distinct().iter().map(|count| *count as usize).sum();
        let rows = staging.planned.iter().zip(&staging.windows).zip(self.accepted());
        let mut draws_told = 0;
        for (((window, row), accepted), alternatives) in rows.zip(&staging.alternatives) {
            let drawn = if window.draws { row.first_draw as usize } else { 0 };
            let draws = if window.draws { window.drafts + 1 } else { 0 };
            let (held, logprobs) = (out.held.len(), out.logprobs.len());
            if row.block >= 0 {
                let first = row.block as usize * limits.block;
                out.held.extend((first..first + window.hold).map(|slot| HeldDraft {
                    token: self.drafts()[slot] as TokenId,
                    confidence: if limits.has_confidence { self.confidence()[slot] } else { f32::NAN },
                }));
            }
            if let Some(alternatives) = alternatives {
                out.logprobs.extend(self.logprobs(draws_told, draws, *alternatives));
                draws_told += draws;
            }
            out.windows.push(WindowOut {
                drawn: drawn..drawn + draws,
                accepted: accepted.drafts as usize,
                held: held..out.held.len(),
                logprobs: logprobs..out.logprobs.len(),
            });
        }
    }
}
