//! One prompt length: first tokens cold and cached, decode plain and drafted, gaps between rounds, memory.

use forerunner_engine::EngineHandle;
use forerunner_tensor::MemoryMeter;
use serde_json::{Value, json};

use super::Source;
use crate::bench::equality::Equality;
use crate::bench::local::{self, LocalEngine, LocalPrompt, LocalReply, ReplySettings};

use crate::bench::statistics::{Spread, percentile};
use crate::bench::timings::{self, Timing};
use crate::machine;

/// Above the rows.
pub(super) const COLUMNS: &str = "  prompt  first token, ms: cold  cached  drafted: cold  cached  prompt tok/s  decode tok/s  drafted  tokens/round  gap, ms  peak, MiB  on the device  drafted = plain  cached = cold";

/// What a length has found.
pub(super) struct Length {
    tokens: usize,
    plain: Side,
    drafted: Side,
    pub(super) drafted_is_plain: Equality,
    pub(super) cached_is_cold: Equality,
    /// Mean host time between two rounds, in milliseconds.
    round_gap_ms: Option<f64>,
    peak_memory_bytes: Option<u64>,
    peak_device_memory_bytes: Option<u64>,
}

/// The plain replies of a length, or the drafted ones.
#[derive(Default)]
struct Side {
    replies: Vec<LocalReply>,
}

impl Length {
    /// Each round has a new prompt for each side, asked twice, and one of them by the other side too.
    pub(super) fn run(
        local: &LocalEngine,
        tokens: usize,
        rounds: usize,
        source: &mut Source,
        settings: &ReplySettings,
    ) -> anyhow::Result<Length> {
        machine::forget_peak_memory();
        if let Some(memory) = local.memory() {
            memory.forget_most();
        }
        let engine = local.handle();
        let before = engine.counts().totals;
        let mut length = Length {
            tokens,
            plain: Side::default(),
            drafted: Side::default(),
            drafted_is_plain: Equality::default(),
            cached_is_cold: Equality::default(),
            round_gap_ms: None,
            peak_memory_bytes: None,
            peak_device_memory_bytes: None,
        };
        for _ in 0..rounds {
            let prompts = [source.next(tokens), source.next(tokens)];
            length.round(&engine, &prompts, settings)?;
        }
        let totals = engine.counts().totals;
        let gaps = totals.round_gaps - before.round_gaps;
        let time = totals.round_gap.saturating_sub(before.round_gap);
        length.round_gap_ms = (gaps > 0).then(|| time.as_secs_f64() * 1e3 / gaps as f64);
        length.peak_memory_bytes = machine::peak_memory_bytes();
        length.peak_device_memory_bytes = local.memory().map(MemoryMeter::most);
        Ok(length)
    }

    fn round(
        &mut self,
        engine: &EngineHandle,
        [first, second]: &[LocalPrompt; 2],
        settings: &ReplySettings,
    ) -> anyhow::Result<()> {
        let ask = |prompt: &LocalPrompt, draft| -> anyhow::Result<LocalReply> {
            let settings = ReplySettings { draft, ..*settings };
            Ok(local::answer(engine, &[prompt], &settings)?.replies.remove(0))
        };
        let (plain_cold, drafted_cold) = (ask(first, false)?, ask(second, true)?);
        let (plain_cached, drafted_cached) = (ask(first, false)?, ask(second, true)?);
        let crossed = ask(first, true)?;
        self.cached_is_cold.compare(&first.name, &plain_cold.hash, &plain_cached.hash);
        self.cached_is_cold.compare(&second.name, &drafted_cold.hash, &drafted_cached.hash);
        self.drafted_is_plain.compare(&first.name, &plain_cold.hash, &crossed.hash);
        self.plain.replies.extend([plain_cold, plain_cached]);
        self.drafted.replies.extend([drafted_cold, drafted_cached, crossed]);
        Ok(())
    }

    /// As it is printed.
    pub(super) fn row(&self) -> String {
        let cell = |spread: Option<Spread>, scale: f64, decimals: usize| match spread {
            Some(Spread { median, .. }) => format!("{:.decimals$}", median * scale),
            None => "-".into(),
        };
        let gap = self.round_gap_ms.map_or_else(|| "-".into(), |gap| format!("{gap:.4}"));
        let mebibytes =
            |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), |bytes: u64| (bytes >> 20).to_string());
        let peak = mebibytes(self.peak_memory_bytes);
        let on_device = mebibytes(self.peak_device_memory_bytes);
        format!(
            "{:>8} {:>22} {:>7} {:>14} {:>7} {:>13} {:>13} {:>8} {:>13.2} {gap:>8} {peak:>10} {on_device:>14}  {:>15}  {:>13}",
            self.tokens,
            cell(self.plain.first_token(false), 1e3, 1),
            cell(self.plain.first_token(true), 1e3, 1),
            cell(self.drafted.first_token(false), 1e3, 1),
            cell(self.drafted.first_token(true), 1e3, 1),
            cell(self.drafted.prompt_speed(), 1.0, 0),
            cell(self.plain.decode_speed(), 1.0, 0),
            cell(self.drafted.decode_speed(), 1.0, 0),
            self.drafted.tokens_per_round(),
            self.drafted_is_plain,
            self.cached_is_cold,
        )
    }

    /// As a receipt has it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "prompt_tokens": self.tokens,
            "plain": self.plain.to_json(),
            "drafted": self.drafted.to_json(),
            "drafted_is_plain": self.drafted_is_plain.to_json(),
            "cached_is_cold": self.cached_is_cold.to_json(),
            "round_gap_ms": self.round_gap_ms,
            "peak_memory_bytes": self.peak_memory_bytes,
            "peak_device_memory_bytes": self.peak_device_memory_bytes,
        })
    }
}

impl Side {
    /// Seconds to the first token of the replies whose prompts were stored, or of those whose were not at all.
    fn first_token(&self, cached: bool) -> Option<Spread> {
        let own = self.replies.iter().filter(|reply| (reply.statistics.cached_tokens > 0) == cached);
        Spread::of(&own.map(|reply| reply.timing().first_token_s).collect::<Vec<f64>>())
    }

    /// Prompt tokens a second of the prompts that were not stored.
    fn prompt_speed(&self) -> Option<Spread> {
        let cold = self.replies.iter().filter(|reply| reply.statistics.cached_tokens == 0);
        let speed = |reply: &LocalReply| {
            let timing = reply.timing();
            timing.input_tokens as f64 / timing.first_token_s
        };
        Spread::of(&cold.map(speed).collect::<Vec<f64>>())
    }

    fn decode_speed(&self) -> Option<Spread> {
        let speeds = self.replies.iter().filter_map(|reply| reply.timing().seconds_per_token());
        Spread::of(&speeds.map(f64::recip).collect::<Vec<f64>>())
    }

    fn tokens_per_round(&self) -> f64 {
        let rounds: u64 = self.replies.iter().map(|reply| reply.statistics.rounds).sum();
        let tokens: usize = self.replies.iter().map(|reply| reply.statistics.reply_tokens).sum();
        tokens as f64 / rounds.max(1) as f64
    }

    fn to_json(&self) -> Value {
        let timing = |reply: &LocalReply| Timing { gaps_s: reply.gaps_s.clone(), ..reply.timing() };
        let timings: Vec<Timing> = self.replies.iter().map(timing).collect();
        let seconds = timings.iter().map(|timing| timing.latency_s).sum();
        let mut fields = timings::summary(&timings, 0, seconds);
        fields.extend(timings::raw(&timings));
        // Decode has hundreds of events a reply; their distribution is above, and here their largest.
        fields.remove("itls");
        let largest =
            percentile(&timings.iter().flat_map(|timing| timing.gaps_s.clone()).collect::<Vec<_>>(), 100.0);
        let cached: Vec<usize> = self.replies.iter().map(|reply| reply.statistics.cached_tokens).collect();
        let spread = |spread: Option<Spread>| json!(spread.map(Spread::to_json));
        let accepted: Vec<(u64, u64)> = self
            .replies
            .iter()
            .map(|reply| (reply.statistics.drafts, reply.statistics.accepted_drafts))
            .collect();
        let ours: [(&str, Value); 8] = [
            ("max_itl_ms", json!(largest.map(|gap| gap * 1e3))),
            ("cached_tokens", json!(cached)),
            ("cold_first_token_s", spread(self.first_token(false))),
            ("cached_first_token_s", spread(self.first_token(true))),
            ("prompt_tokens_per_second", spread(self.prompt_speed())),
            ("decode_tokens_per_second", spread(self.decode_speed())),
            ("tokens_per_round", json!(self.tokens_per_round())),
            ("drafts_and_accepted", json!(accepted)),
        ];
        fields.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        fields.into()
    }
}
