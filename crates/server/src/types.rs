//! Replies as OpenAI clients read them.

use std::time::Duration;

use forerunner_engine::{Statistics, TokenId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::parts::{Call, Ending, Parts};
use crate::telling::{Logprobs, TokenOrigin};

/// A reply written at once, or one chunk of a streamed one.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Completion {
    pub(crate) id: String,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    /// The seed that was used: sent again with the same request, it draws the same reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forerunner: Option<StatisticsBlock>,
}

/// One choice, or what a chunk adds to it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Choice {
    pub(crate) index: usize,
    #[serde(flatten)]
    pub(crate) content: Content,
    /// Null unless asked for; clients expect the key.
    pub(crate) logprobs: Option<Logprobs>,
    pub(crate) finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<u32>>)]
    pub(crate) token_ids: Option<Vec<TokenId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_origins: Option<Vec<TokenOrigin>>,
}

/// Where a choice has its text.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    /// A whole chat reply.
    Message { message: Message },
    /// A piece of a chat reply.
    Delta { delta: Delta },
    /// A completion, whole or a piece of it.
    Text { text: String },
}

/// A whole chat message of the model.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Message {
    role: &'static str,
    /// Null when the reply is nothing but tool calls.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

/// A complete tool call.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct ToolCall {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
struct Function {
    name: String,
    arguments: String,
}

/// What a chunk adds to a chat message.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(crate) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_calls: Option<[CallDelta; 1]>,
}

/// What a chunk adds to a tool call. The first one of a call says all but the arguments, the others add to these.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct CallDelta {
    pub(crate) index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    pub(crate) function: FunctionDelta,
}

/// What a chunk adds to the function of a tool call.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct FunctionDelta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) arguments: String,
}

impl Choice {
    /// A choice, unfinished.
    pub(crate) fn new(index: usize, content: Content) -> Self {
        Choice { index, content, logprobs: None, finish_reason: None, token_ids: None, token_origins: None }
    }
}

impl From<Parts> for Message {
    fn from(parts: Parts) -> Self {
        let only_calls = parts.content.is_empty() && !parts.calls.is_empty();
        Message {
            role: "assistant",
            content: (!only_calls).then_some(parts.content),
            reasoning_content: Some(parts.thought).filter(|thought| !thought.is_empty()),
            tool_calls: parts.calls.into_iter().map(ToolCall::from).collect(),
        }
    }
}

impl From<Call> for ToolCall {
    fn from(call: Call) -> Self {
        let function = Function { name: call.name, arguments: call.arguments };
        ToolCall { id: call.id, kind: "function", function }
    }
}

impl Delta {
    /// More content.
    pub(crate) fn content(text: String) -> Self {
        Delta { content: Some(text), ..Delta::default() }
    }

    /// More of a call.
    pub(crate) fn call(call: CallDelta) -> Self {
        Delta { tool_calls: Some([call]), ..Delta::default() }
    }
}

/// Tokens as a bill would list them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptTokensDetails,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
struct PromptTokensDetails {
    cached_tokens: usize,
}

/// How a reply went, as the `forerunner` block of every reply.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct StatisticsBlock {
    /// Drafts verified.
    pub(crate) draft_n: u64,
    /// Drafts accepted. May exceed what was emitted when a stop string cuts a window.
    pub(crate) draft_n_accepted: u64,
    /// Copies of earlier text among the drafts verified.
    pub(crate) copy_n: u64,
    /// Copies among the drafts accepted.
    pub(crate) copy_n_accepted: u64,
    /// What the drafter's drafts came to, by their position in a window: verified, accepted.
    pub(crate) draft_by_position: Vec<[u64; 2]>,
    /// Rounds with drafts in them.
    pub(crate) draft_rounds: u64,
    /// All rounds that committed tokens of the reply.
    pub(crate) rounds: u64,
    /// Reply tokens a round; 1 without drafts.
    pub(crate) tokens_per_round: f64,
    /// Why the reply, or its end, ran without drafts.
    pub(crate) draft_off_reason: Option<String>,
    /// From submission to the first token.
    pub(crate) prompt_ms: f64,
    /// From the first token to the last.
    pub(crate) decode_ms: f64,
}

impl Usage {
    /// Of all choices of a request, which share its prompt.
    pub(crate) fn of_choices(choices: &[Statistics]) -> Self {
        let prompt_tokens = choices.first().map_or(0, |choice| choice.prompt_tokens);
        let completion_tokens = choices.iter().map(|choice| choice.reply_tokens).sum();
        let cached_tokens = choices.iter().map(|choice| choice.cached_tokens).min().unwrap_or(0);
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
        }
    }
}

impl StatisticsBlock {
    /// Of a request's only reply.
    pub(crate) fn of_one(statistics: &Statistics) -> Self {
        StatisticsBlock::of_choices(std::slice::from_ref(statistics))
    }

    /// Of all choices of a request: counts add up, times are the longest.
    pub(crate) fn of_choices(choices: &[Statistics]) -> Self {
        let sum = |count: fn(&Statistics) -> u64| choices.iter().map(count).sum::<u64>();
        let longest = |time: fn(&Statistics) -> Duration| choices.iter().map(time).max().unwrap_or_default();
        let rounds = sum(|choice| choice.rounds);
        StatisticsBlock {
            draft_n: sum(|choice| choice.drafts),
            draft_n_accepted: sum(|choice| choice.accepted_drafts),
            copy_n: sum(|choice| choice.copies),
            copy_n_accepted: sum(|choice| choice.accepted_copies),
            draft_by_position: by_position(choices),
            draft_rounds: sum(|choice| choice.drafted_rounds),
            rounds,
            tokens_per_round: sum(|choice| choice.reply_tokens as u64) as f64 / rounds.max(1) as f64,
            draft_off_reason: choices.iter().find_map(|choice| choice.draft_off_reason.clone()),
            prompt_ms: longest(|choice| choice.time_to_first_token).as_secs_f64() * 1e3,
            decode_ms: longest(|choice| choice.decode_time).as_secs_f64() * 1e3,
        }
    }
}

/// Sums over choices, up to the last position that had a draft.
fn by_position(choices: &[Statistics]) -> Vec<[u64; 2]> {
    let mut sums: Vec<[u64; 2]> = Vec::new();
    for choice in choices {
        let positions = choice.by_position.iter().take_while(|(verified, _)| *verified > 0);
        for (index, (verified, accepted)) in positions.enumerate() {
            sums.resize(sums.len().max(index + 1), [0, 0]);
            let [sum_verified, sum_accepted] = &mut sums[index];
            *sum_verified += verified;
            *sum_accepted += accepted;
        }
    }
    sums
}

/// A finish reason in the API's words.
pub(crate) fn finish_reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Stop | Ending::StopString(_) => "stop",
        Ending::Length => "length",
        Ending::ToolCalls => "tool_calls",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_ratios_and_milliseconds() {
        let statistics = Statistics {
            reply_tokens: 12,
            rounds: 4,
            drafted_rounds: 3,
            drafts: 12,
            accepted_drafts: 8,
            by_position: vec![(3, 3), (3, 1), (0, 0)],
            time_to_first_token: Duration::from_millis(20),
            ..Statistics::default()
        };
        let block = StatisticsBlock::of_choices(std::slice::from_ref(&statistics));
        assert_eq!((block.tokens_per_round, block.prompt_ms), (3.0, 20.0));
        assert_eq!(block.draft_by_position, [[3, 3], [3, 1]]);
        let other = Statistics { by_position: vec![(1, 0)], ..Statistics::default() };
        assert_eq!(StatisticsBlock::of_choices(&[other, statistics]).draft_by_position, [[4, 3], [3, 1]]);
        let nothing = StatisticsBlock::of_choices(&[]);
        assert_eq!(nothing.tokens_per_round, 0.0);
    }
}
