//! What a stream notices of a long prompt that enters while it decodes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::exchange::{Asked, Outcome, Sample, chat_body, exchange};
use super::server::Server;
use super::{Requests, timings};
use crate::bench::statistics::percentile;

/// Events of the stream before the long prompt enters.
const EVENTS_BEFORE: usize = 32;

/// Tokens of the stream: enough to decode before, while and after the prompt is read.
const STREAM_TOKENS: usize = 768;

/// Tokens of the long prompt's own reply.
const LONG_TOKENS: usize = 8;

/// The stream, and when the long prompt entered and had its first token.
#[derive(Debug)]
pub(super) struct Mixed {
    stream: Sample,
    long: Sample,
}

/// Lets a long prompt of so many words enter while the first prompt's reply decodes.
pub(super) async fn run(
    server: &Arc<Server>,
    requests: &Requests,
    words: usize,
    limit: Duration,
) -> anyhow::Result<Mixed> {
    let mut stream = requests.asked.first().context("there are no requests")?.clone();
    stream.body["max_tokens"] = json!(STREAM_TOKENS);
    stream.body["ignore_eos"] = json!(true);
    let long = Asked { name: "long".into(), body: long_body(&requests.model, words) };
    let started = Instant::now();
    let (progress, mut events) = watch::channel(0);
    let decoding = {
        let server = server.clone();
        tokio::spawn(async move { exchange(&server, &stream, started, limit, Some(progress)).await })
    };
    // A stream that ends before has dropped its end of the channel.
    let is_decoding = events.wait_for(|count| *count >= EVENTS_BEFORE).await.is_ok();
    if !is_decoding {
        let outcome = decoding.await.context("the stream's task failed")?;
        bail!("--mixed: the stream ended before its event {EVENTS_BEFORE}: {}", told(&outcome));
    }
    let long = exchange(server, &long, started, limit, None).await;
    let stream = decoding.await.context("the stream's task failed")?;
    Ok(Mixed { stream: measured(stream)?, long: measured(long)? })
}

fn measured(outcome: Outcome) -> anyhow::Result<Sample> {
    match outcome {
        Outcome::Measured(sample) => Ok(*sample),
        other => bail!("--mixed: {}", told(&other)),
    }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured(sample) => format!("{} had {} events", sample.name, sample.events_s.len()),
        Outcome::Unmeasured { name, reason } | Outcome::Failed { name, reason } => {
            format!("{name}: {reason}")
        }
    }
}

/// Words that no other prompt begins with, so that nothing of it is stored.
fn long_body(model: &str, words: usize) -> Value {
    let text: Vec<String> = (0..words).map(|index| format!("item{}", index * 7919 % 10007)).collect();
    let message = json!({"role": "user", "content": format!("Repeat the last word: {}", text.join(" "))});
    let mut body = chat_body(model, &[message], LONG_TOKENS);
    body["temperature"] = json!(0);
    body
}

/// The gaps of a stream, by where they lie.
#[derive(Debug, Default, PartialEq)]
struct Gaps {
    before: Vec<f64>,
    during: Vec<f64>,
    after: Vec<f64>,
}

/// A gap is during the prompt's reading if any of it is.
fn gaps(stream: &Sample, entered_s: f64, read_s: f64) -> Gaps {
    let mut gaps = Gaps::default();
    for pair in stream.events_s.windows(2) {
        let (begin, end) = (stream.sent_s + pair[0], stream.sent_s + pair[1]);
        let place = if end <= entered_s {
            &mut gaps.before
        } else if begin >= read_s {
            &mut gaps.after
        } else {
            &mut gaps.during
        };
        place.push(pair[1] - pair[0]);
    }
    gaps
}

impl Mixed {
    fn gaps(&self) -> Gaps {
        gaps(&self.stream, self.long.sent_s, self.read_s())
    }

    /// When the long prompt had its first token.
    fn read_s(&self) -> f64 {
        self.long.sent_s + self.long.timing.first_token_s
    }

    /// As a receipt has it.
    pub(super) fn to_json(&self) -> Value {
        let Gaps { before, during, after } = self.gaps();
        let events = self.stream.events_s.iter().map(|event| timings::rounded(self.stream.sent_s + event));
        json!({
            "prompt_tokens": self.long.timing.input_tokens,
            "entered_s": timings::rounded(self.long.sent_s),
            "first_token_s": timings::rounded(self.read_s()),
            "event_times_s": events.collect::<Vec<f64>>(),
            "before": summed(&before), "while": summed(&during), "after": summed(&after),
        })
    }
}

fn summed(gaps: &[f64]) -> Value {
    let at = |percent| percentile(gaps, percent).map(|gap| gap * 1e3);
    json!({
        "events": gaps.len(), "median_itl_ms": at(50.0), "p99_itl_ms": at(99.0), "max_itl_ms": at(100.0),
    })
}

impl fmt::Display for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gaps { before, during, after } = self.gaps();
        write!(f, "a prompt of {} tokens enters:", self.long.timing.input_tokens)?;
        for (name, gaps) in [("before", before), ("while", during), ("after", after)] {
            let at = |percent| percentile(&gaps, percent).unwrap_or_default() * 1e3;
            let (middle, most) = (at(50.0), at(100.0));
            write!(f, " ITL {name} {middle:.2} ms, at most {most:.2} ms ({} events);", gaps.len())?;
        }
        write!(f, " its first token after {:.1} ms", self.long.timing.first_token_s * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_belongs_to_the_prompt_if_any_of_it_does() {
        let stream =
            Sample { sent_s: 1.0, events_s: vec![0.0, 1.0, 2.0, 4.0, 5.0, 6.0], ..Sample::default() };
        // The prompt enters at 3.5 and is read at 5.5; the stream's events are at 1, 2, 3, 5, 6 and 7.
        let found = gaps(&stream, 3.5, 5.5);
        assert_eq!(found, Gaps { before: vec![1.0, 1.0], during: vec![2.0, 1.0], after: vec![1.0] });
    }

    #[test]
    fn a_long_prompt_is_as_long_as_asked() {
        let body = long_body("m", 50);
        let text = body["messages"][0]["content"].as_str().unwrap();
        assert_eq!(text.split(' ').count(), 54);
    }
}
