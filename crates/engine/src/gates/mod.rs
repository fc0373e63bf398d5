//! The equalities that the product promises, run on this machine: drafted = plain whatever the guards say, shared =
//! alone, after and beside a cancel = alone, resumed = fresh, after an eviction too, and the same of log-probabilities.
//!
//! A gate compares token ids reply by reply and stops at nothing: it reports the first differing token of the
//! first differing reply and how many replies differ.

mod cancels;
mod constrained;
mod first;
mod guards;
mod logprobs;
mod planted;
mod replies;
mod resumed;

use forerunner_lanes::{SamplingRule, TokenId};

pub use constrained::{GateGrammar, gate_grammars};
pub use first::{FirstRound, PromptDrafts, first_round};
pub use planted::{Planted, PlantedFault};
pub use replies::{GateLanes, GateReply, GateSequence, replies, replies_after_cancel, run_all};

/// One prompt of the gates.
#[derive(Debug, Clone)]
pub struct GateCase {
    /// Name, for reports.
    pub name: String,
    /// The prompt.
    pub prompt: Vec<TokenId>,
}

/// What the gates' replies have in common.
#[derive(Debug, Clone)]
pub struct GateSettings {
    /// Longest reply.
    pub max_tokens: usize,
    /// Tokens that end a reply.
    pub stop_tokens: Vec<TokenId>,
    /// Keys the sampled gates.
    pub seed: u64,
    /// Numbers of lanes to share, such as 4, 8 and 16; those above the engine's lanes are left out.
    pub shared: Vec<usize>,
    /// Pages that the target stores of earlier prompts at most; 0 when it resumes none.
    pub prompt_cache_pages: usize,
    /// What constrained replies are held to, each the next one; without any there are none.
    pub grammars: Vec<GateGrammar>,
}

/// A gate's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateOutcome {
    /// What was compared, such as `drafted = plain, greedy`.
    pub name: String,
    /// Replies compared.
    pub replies: usize,
    /// Tokens compared.
    pub tokens: usize,
    /// Replies that differ.
    pub differing: usize,
    /// The first difference, when there is one.
    pub first: Option<Difference>,
}

/// The first token at which two replies part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Whose reply.
    pub case: String,
    /// Index into the reply.
    pub index: usize,
    /// The token that the yardstick has there, and what else is compared; `None` past its end.
    pub expected: Option<String>,
    /// What the reply under test has there.
    pub found: Option<String>,
}

impl GateOutcome {
    /// Whether all replies are equal, and there were any.
    pub fn passed(&self) -> bool {
        self.differing == 0 && self.tokens > 0
    }
}

impl std::fmt::Display for GateOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.passed() { "ok  " } else { "FAIL" };
        write!(f, "{verdict} {}: {} replies, {} tokens", self.name, self.replies, self.tokens)?;
        if let Some(Difference { case, index, expected, found }) = &self.first {
            let token = |token: &Option<String>| {
                token.as_ref().map_or("the end".into(), |token| format!("token {token}"))
            };
            write!(
                f,
                ", {} differ; first in {case} at reply token {index}: {} instead of {}",
                self.differing,
                token(found),
                token(expected)
            )?;
        }
        Ok(())
    }
}

/// Runs every gate for one sampling temperature (0 for greedy).
pub fn run(
    lanes: &mut GateLanes,
    cases: &[GateCase],
    settings: &GateSettings,
    temperature: f32,
) -> Vec<GateOutcome> {
    let manner = if temperature == 0.0 { "greedy".to_owned() } else { format!("T={temperature}") };
    let rules: Vec<SamplingRule> = (0..cases.len())
        .map(|index| SamplingRule {
            temperature,
            seed: settings.seed + index as u64,
            ..SamplingRule::default()
        })
        .collect();
    let sequences = |draft| replies::sequences(cases, &rules, settings, draft);
    let alone = |lanes: &mut GateLanes, draft| -> Vec<Vec<TokenId>> {
        sequences(draft).into_iter().flat_map(|sequence| replies(lanes, vec![sequence])).collect()
    };
    let plain = alone(lanes, false);
    let drafted = alone(lanes, true);
    let mut outcomes = vec![compare(format!("drafted = plain, {manner}"), cases, &plain, &drafted)];
    let most = lanes.limits().lanes;
    for count in settings.shared.iter().filter(|count| **count <= most) {
        let distinct: Vec<_> =
            sequences(true).chunks(*count).flat_map(|group| replies(lanes, group.to_vec())).collect();
        let name = format!("alone = among {count} lanes, distinct prompts, {manner}");
        outcomes.push(compare(name, cases, &plain, &distinct));
        let same: Vec<_> = sequences(true)
            .into_iter()
            .flat_map(|sequence| agree(replies(lanes, vec![sequence; *count])))
            .collect();
        let name = format!("alone = among {count} lanes, same prompt, {manner}");
        outcomes.push(compare(name, cases, &plain, &same));
    }
    let after_cancel: Vec<_> = sequences(true)
        .into_iter()
        .enumerate()
        .map(|(rounds, sequence)| replies_after_cancel(lanes, sequence, rounds % 8))
        .collect();
    outcomes.push(compare(format!("after a cancel = alone, {manner}"), cases, &plain, &after_cancel));
    outcomes.extend(constrained::constrained(lanes, cases, settings, &sequences(true), &plain, &manner));
    let yardstick = Yardstick { rules: &rules, plain: &plain, manner: &manner };
    outcomes.push(cancels::at_every_round(lanes, cases, settings, &yardstick));
    outcomes.extend(guards::guarded(lanes, cases, settings, &yardstick));
    outcomes.push(logprobs::logprobs(lanes, cases, settings, &rules, &manner));
    if settings.prompt_cache_pages > 0 {
        outcomes.extend(resumed::resumed(lanes, cases, settings, temperature, &manner));
    }
    outcomes
}

/// What replies are compared with.
struct Yardstick<'a> {
    /// One rule a case.
    rules: &'a [SamplingRule],
    /// The replies of each case alone, without drafts.
    plain: &'a [Vec<TokenId>],
    /// How tokens are drawn, for names.
    manner: &'a str,
}

/// Replies to one prompt as one: the first that differs from the others, so that a comparison finds it.
fn agree(copies: Vec<Vec<TokenId>>) -> Option<Vec<TokenId>> {
    let odd = copies.iter().position(|copy| *copy != copies[0]).unwrap_or(0);
    copies.into_iter().nth(odd)
}

/// Compares replies, or what else is counted of them, with their yardsticks.
pub fn compare<T: PartialEq + ToString>(
    name: String,
    cases: &[GateCase],
    expected: &[Vec<T>],
    found: &[Vec<T>],
) -> GateOutcome {
    assert_eq!((cases.len(), cases.len()), (expected.len(), found.len()), "one reply a case");
    let mut outcome = GateOutcome { name, replies: cases.len(), tokens: 0, differing: 0, first: None };
    for (case, (expected, found)) in cases.iter().zip(expected.iter().zip(found)) {
        outcome.tokens += expected.len();
        if expected == found {
            continue;
        }
        outcome.differing += 1;
        let index = expected.iter().zip(found).take_while(|(expected, found)| expected == found).count();
        outcome.first.get_or_insert_with(|| Difference {
            case: case.name.clone(),
            index,
            expected: expected.get(index).map(T::to_string),
            found: found.get(index).map(T::to_string),
        });
    }
    outcome
}
