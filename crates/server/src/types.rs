//! Replies as OpenAI clients read them.

use forerunner_engine::TokenId;
use forerunner_engine::{FinishReason, Statistics};
use serde::Serialize;

/// A reply written at once, or one chunk of a streamed one.
#[derive(Debug, Clone, Serialize)]
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
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Choice {
    pub(crate) index: usize,
    #[serde(flatten)]
    pub(crate) content: Content,
    /// Always null so far; clients expect the key.
    pub(crate) logprobs: Option<()>,
    pub(crate) finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_ids: Option<Vec<TokenId>>,
}

/// Where a choice has its text.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Content {
    /// A whole chat reply.
    Message { message: Message },
    /// A piece of a chat reply.
    Delta { delta: Message },
    /// A completion, whole or a piece of it.
    Text { text: String },
}

/// A chat message, or what a chunk adds to it.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Message {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<String>,
}

/// Tokens as a bill would list them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptTokensDetails,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct PromptTokensDetails {
    cached_tokens: usize,
}

/// How a reply went, as the `forerunner` block of every reply.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StatisticsBlock {
    /// Drafts verified.
    pub(crate) draft_n: u64,
    /// Drafts accepted. May exceed what was emitted when a stop string cuts a window.
    pub(crate) draft_n_accepted: u64,
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

impl From<&Statistics> for Usage {
    fn from(statistics: &Statistics) -> Self {
        Usage {
            prompt_tokens: statistics.prompt_tokens,
            completion_tokens: statistics.reply_tokens,
            total_tokens: statistics.prompt_tokens + statistics.reply_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens: statistics.cached_tokens },
        }
    }
}

impl From<&Statistics> for StatisticsBlock {
    fn from(statistics: &Statistics) -> Self {
        StatisticsBlock {
            draft_n: statistics.drafts,
            draft_n_accepted: statistics.accepted_drafts,
            draft_rounds: statistics.drafted_rounds,
            rounds: statistics.rounds,
            tokens_per_round: statistics.reply_tokens as f64 / statistics.rounds.max(1) as f64,
            draft_off_reason: statistics.draft_off_reason.clone(),
            prompt_ms: statistics.time_to_first_token.as_secs_f64() * 1e3,
            decode_ms: statistics.decode_time.as_secs_f64() * 1e3,
        }
    }
}

/// A finish reason in the API's words.
pub(crate) fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_block_has_ratios_and_milliseconds() {
        let statistics = Statistics {
            reply_tokens: 12,
            rounds: 4,
            drafted_rounds: 3,
            drafts: 12,
            accepted_drafts: 8,
            time_to_first_token: Duration::from_millis(20),
            ..Statistics::default()
        };
        let block = StatisticsBlock::from(&statistics);
        assert_eq!((block.tokens_per_round, block.prompt_ms), (3.0, 20.0));
        let nothing = StatisticsBlock::from(&Statistics::default());
        assert_eq!(nothing.tokens_per_round, 0.0);
    }
}
