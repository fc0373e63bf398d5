//! Greedy replies of the reference, plain and drafted, and what it would pick along a given reply.

use crate::drafter::{Draft, DrafterState, ReferenceDrafter};
use crate::math::{Pick, Rows};
use crate::target::{ReferenceTarget, TargetState};

/// When a reply ends.
#[derive(Debug, Clone, Copy)]
pub struct ReplyLimit<'a> {
    /// At this many tokens.
    pub max_tokens: usize,
    /// Or after one of these tokens, which is the reply's last.
    pub stop_tokens: &'a [u32],
}

impl ReplyLimit<'_> {
    fn is_reached(&self, reply: &[Pick]) -> bool {
        reply.len() >= self.max_tokens
            || reply.last().is_some_and(|last| self.stop_tokens.contains(&last.token))
    }
}

/// One round of a drafted reply (docs/dspark.md section 6).
#[derive(Debug, Clone)]
pub struct Round {
    /// Where the anchor stands: the number of positions before it.
    pub position: usize,
    /// What the drafter proposed.
    pub draft: Draft,
    /// How many of the drafts, from the first, became part of the reply.
    pub accepted: usize,
}

/// A drafted reply and how it came about.
#[derive(Debug, Clone)]
pub struct DraftedReply {
    /// The reply's tokens with the target's margins.
    pub picks: Vec<Pick>,
    /// The rounds after the first token.
    pub rounds: Vec<Round>,
}

/// The reference's view of one token of a given reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The token of the reply.
    pub token: u32,
    /// What the reference picks after the same history.
    pub pick: Pick,
    /// Logit of the pick minus logit of the token; 0 when they are the same.
    pub gap: f32,
}

/// The greedy reply to `prompt`, one token a forward.
///
/// # Panics
/// If the prompt is empty or holds a token outside the vocabulary.
pub fn greedy(target: &ReferenceTarget, prompt: &[u32], limit: ReplyLimit<'_>) -> Vec<Pick> {
    let mut state = target.start();
    let mut reply = Vec::new();
    let mut next = prompt.to_vec();
    while !limit.is_reached(&reply) {
        let hidden = target.forward(&mut state, &next, &[]).hidden;
        let pick = *last_picks(target, &hidden, 1).last().expect("one row");
        next = vec![pick.token];
        reply.push(pick);
    }
    reply
}

/// The greedy reply to `prompt` with `drafter` running ahead: equal to [`greedy`]'s, token for token.
///
/// # Panics
/// As [`greedy`].
pub fn drafted(
    target: &ReferenceTarget,
    drafter: &ReferenceDrafter,
    prompt: &[u32],
    limit: ReplyLimit<'_>,
) -> DraftedReply {
    let mut session = Session { target, drafter, state: target.start(), context: drafter.start() };
    let mut picks = Vec::new();
    let mut rounds = Vec::new();
    if limit.max_tokens > 0 {
        picks.push(session.prefill(prompt));
    }
    while !limit.is_reached(&picks) {
        let position = session.state.length();
        let anchor = picks[picks.len() - 1].token;
        let draft = drafter.draft(&session.context, &target.embedding, anchor);
        let verified = session.verify(anchor, &draft);
        let (before, agreed) = (picks.len(), verified.len() - 1);
        for pick in verified {
            if !limit.is_reached(&picks) {
                picks.push(pick);
            }
        }
        let accepted = agreed.min(picks.len() - before);
        rounds.push(Round { position, draft, accepted });
    }
    DraftedReply { picks, rounds }
}

/// What the reference picks at each token of `reply`, always after the given history: explains a difference as
/// a near-tie, or not.
///
/// # Panics
/// If the prompt is empty or a token is outside the vocabulary.
pub fn judge(target: &ReferenceTarget, prompt: &[u32], reply: &[u32]) -> Vec<Judgement> {
    assert!(!prompt.is_empty(), "a prompt has at least one token");
    let Some((_, before_last)) = reply.split_last() else { return Vec::new() };
    let history = [prompt, before_last].concat();
    let hidden = target.forward(&mut target.start(), &history, &[]).hidden;
    let logits = target.logits(&hidden.slice(prompt.len() - 1..history.len()));
    let judge_row = |(&token, logits): (&u32, &[f32])| {
        let pick = Pick::from_logits(logits);
        Judgement { token, pick, gap: logits[pick.token as usize] - logits[token as usize] }
    };
    reply.iter().zip(logits.iter()).map(judge_row).collect()
}

/// A drafted sequence: target and drafter stand at the same position.
struct Session<'a> {
    target: &'a ReferenceTarget,
    drafter: &'a ReferenceDrafter,
    state: TargetState,
    context: DrafterState,
}

impl Session<'_> {
    /// Computes the prompt, absorbs all of its rows and picks the first token.
    fn prefill(&mut self, prompt: &[u32]) -> Pick {
        let output = self.target.forward(&mut self.state, prompt, &self.drafter.config.taps);
        self.drafter.absorb(&mut self.context, &output.taps);
        last_picks(self.target, &output.hidden, 1)[0]
    }

    /// Computes the anchor and the drafts as one window, keeps the rows up to the last accepted draft and
    /// returns the target's picks after them.
    fn verify(&mut self, anchor: u32, draft: &Draft) -> Vec<Pick> {
        let position = self.state.length();
        let window: Vec<u32> = std::iter::once(anchor).chain(draft.tokens()).collect();
        let output = self.target.forward(&mut self.state, &window, &self.drafter.config.taps);
        let mut picks = last_picks(self.target, &output.hidden, window.len());
        let accepted =
            picks.iter().zip(&draft.picks).take_while(|(pick, draft)| pick.token == draft.token).count();
        picks.truncate(accepted + 1);
        self.state.truncate(position + picks.len());
        self.drafter.absorb(&mut self.context, &output.taps.slice(0..picks.len()));
        picks
    }
}

/// Picks of the last `count` rows.
fn last_picks(target: &ReferenceTarget, hidden: &Rows, count: usize) -> Vec<Pick> {
    assert!(hidden.count() >= count, "a prompt has at least one token");
    let rows = hidden.slice(hidden.count() - count..hidden.count());
    target.logits(&rows).iter().map(Pick::from_logits).collect()
}
