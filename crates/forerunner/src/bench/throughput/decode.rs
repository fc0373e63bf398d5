//! Plain decode of one stream against a plain read of as many bytes by as many threads.

use std::fmt;

use serde_json::{Value, json};

use crate::bench::bandwidth;
use crate::bench::local::{self, LocalEngine, LocalPrompt, ReplySettings};
use crate::flags::ModelFlags;

/// Reads and decodes in turn.
const PAIRS: usize = 5;

/// Longest reply that is timed.
const TOKENS: usize = 256;

/// Pairs of a read and a decode.
pub(super) struct Decode {
    weight_bytes: usize,
    /// Seconds of a read of the weights, and of a decoded token; sorted by their ratio.
    read_and_token_s: Vec<(f64, f64)>,
}

/// Measures both in turn, on the CPU: how fast other devices read their own memory is not known here.
pub(super) fn against_read(
    engine: &LocalEngine,
    flags: &ModelFlags,
    settings: &ReplySettings,
) -> anyhow::Result<Option<Decode>> {
    let handle = engine.handle();
    if !handle.info().device.starts_with("cpu") {
        return Ok(None);
    }
    let threads = flags.threads.map_or_else(all_threads, usize::from);
    let tokens = engine.text.tokenizer.encode_prompt("Count from one to a hundred: one, two, three,")?;
    let prompt = LocalPrompt { name: "count".into(), kind: "other".into(), tokens };
    let room = handle.info().context.saturating_sub(prompt.tokens.len());
    let settings = ReplySettings { ignore_end: true, max_tokens: TOKENS.min(room), ..*settings };
    let weight_bytes = engine.decode_bytes;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let read = bandwidth::read_seconds(weight_bytes, threads);
        let run = local::answer(&handle, &[&prompt], &settings)?;
        pairs.extend(run.replies[0].timing().seconds_per_token().map(|token| (read, token)));
    }
    pairs.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    Ok((!pairs.is_empty()).then_some(Decode { weight_bytes, read_and_token_s: pairs }))
}

impl Decode {
    fn middle(&self) -> (f64, f64) {
        self.read_and_token_s[self.read_and_token_s.len() / 2]
    }

    /// As a receipt has it.
    pub(super) fn to_json(&self) -> Value {
        let (read, token) = self.middle();
        json!({
            "weight_bytes": self.weight_bytes,
            "read_and_token_seconds": self.read_and_token_s,
            "share_of_plain_read": read / token,
            "tokens_per_second": token.recip(),
        })
    }
}

impl fmt::Display for Decode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((read, token), bytes) = (self.middle(), self.weight_bytes as f64);
        write!(
            f,
            "plain decode: {:.0} tok/s, {:.1} GB/s of weights, {:.0}% of a plain read of the same {:.1} MB ({:.1} GB/s)",
            token.recip(),
            bytes / token / 1e9,
            100.0 * read / token,
            bytes / 1e6,
            bytes / read / 1e9
        )
    }
}

fn all_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
