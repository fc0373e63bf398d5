//! One streamed reply: its text, its tokens by the server's own count, and when each event came.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::server::Server;
use super::sse::Events;
use crate::bench::timings::Timing;

/// A request with a name.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) body: Value,
}

/// A reply that was measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub(crate) name: String,
    /// From the load's start until it was sent.
    pub(crate) sent_s: f64,
    pub(crate) timing: Timing,
    /// From when it was sent to each event with text.
    pub(crate) events_s: Vec<f64>,
    /// Content, thoughts and tool calls.
    pub(crate) text: String,
    pub(crate) cached_tokens: u64,
    /// What the server tells of rounds and drafts, if it does.
    pub(crate) statistics: Value,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Measured(Box<Sample>),
    /// A whole reply that says too little to be measured.
    Unmeasured {
        name: String,
        reason: String,
    },
    Failed {
        name: String,
        reason: String,
    },
}

/// A stream as far as it has come.
#[derive(Debug, Default)]
struct Stream {
    events_s: Vec<f64>,
    text: String,
    usage: Value,
    statistics: Value,
    finished: bool,
}

/// Sends a request and reads its reply to the end; `progress` is told how many events with text have come.
pub(crate) async fn exchange(
    server: &Server,
    asked: &Asked,
    load_started: Instant,
    limit: Duration,
    progress: Option<watch::Sender<usize>>,
) -> Outcome {
    let sent = Instant::now();
    let name = asked.name.clone();
    let streamed = match tokio::time::timeout(limit, stream(server, &asked.body, sent, progress)).await {
        Ok(Ok(streamed)) => streamed,
        Ok(Err(error)) => return Outcome::Failed { name, reason: format!("{error:#}") },
        Err(_) => {
            return Outcome::Failed { name, reason: format!("no end within {} s", limit.as_secs()) };
        }
    };
    let latency_s = sent.elapsed().as_secs_f64();
    match streamed.sample(&name, (sent - load_started).as_secs_f64(), latency_s) {
        Ok(sample) => Outcome::Measured(Box::new(sample)),
        Err(error) => Outcome::Unmeasured { name, reason: error.to_string() },
    }
}

async fn stream(
    server: &Server,
    body: &Value,
    sent: Instant,
    progress: Option<watch::Sender<usize>>,
) -> anyhow::Result<Stream> {
    let mut body = server.ask(body).await?;
    let (mut events, mut stream) = (Events::default(), Stream::default());
    while let Some(frame) = body.frame().await {
        let frame = frame.context("the stream broke")?;
        let now_s = sent.elapsed().as_secs_f64();
        for data in events.push(frame.data_ref().map_or(&[][..], AsRef::as_ref)) {
            if data == "[DONE]" {
                ensure!(stream.finished, "the stream ended without a finish_reason");
                return Ok(stream);
            }
            stream.take(&data, now_s)?;
        }
        if let Some(progress) = &progress {
            progress.send_replace(stream.events_s.len());
        }
    }
    bail!("the stream ended without [DONE]")
}

impl Stream {
    fn take(&mut self, data: &str, now_s: f64) -> anyhow::Result<()> {
        let chunk: Value =
            serde_json::from_str(data).with_context(|| format!("an event is no JSON: {data}"))?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            bail!("the stream has an error: {}", error["message"].as_str().unwrap_or(&error.to_string()));
        }
        let choice = &chunk["choices"][0];
        let before = self.text.len();
        for text in texts(&choice["delta"]) {
            self.text.push_str(text);
        }
        if self.text.len() > before {
            self.events_s.push(now_s);
        }
        self.finished |= choice["finish_reason"].is_string();
        for (kept, field) in [(&mut self.usage, "usage"), (&mut self.statistics, "forerunner")] {
            if chunk[field].is_object() {
                *kept = chunk[field].clone();
            }
        }
        Ok(())
    }

    /// The measured reply; an error if it says too little.
    fn sample(self, name: &str, sent_s: f64, latency_s: f64) -> anyhow::Result<Sample> {
        let count = |field: &str| {
            let count = self.usage[field].as_u64();
            count.with_context(|| format!("usage tells no {field}"))
        };
        let (input_tokens, output_tokens) = (count("prompt_tokens")?, count("completion_tokens")?);
        let first_token_s = *self.events_s.first().context("no event has text")?;
        let gaps_s = self.events_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
        Ok(Sample {
            name: name.to_owned(),
            sent_s,
            timing: Timing {
                input_tokens: input_tokens as usize,
                output_tokens: output_tokens as usize,
                first_token_s,
                latency_s,
                gaps_s,
            },
            events_s: self.events_s,
            text: self.text,
            cached_tokens: self.usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0),
            statistics: self.statistics,
        })
    }
}

/// What a piece adds to a reply, of all that a model may write. A call's name and arguments are text too.
fn texts(delta: &Value) -> impl Iterator<Item = &str> {
    let plain = ["content", "reasoning_content", "reasoning"].into_iter().map(move |field| &delta[field]);
    let calls = delta["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.flat_map(|call| ["name", "arguments"].map(move |field| &call["function"][field]));
    plain.chain(calls).filter_map(Value::as_str)
}

/// A chat's request as all servers take it, with what is only said where it differs from their default.
pub(crate) fn chat_body(model: &str, messages: &[Value], max_tokens: usize) -> Value {
    json!({
        "model": model, "messages": messages, "max_tokens": max_tokens,
        "stream": true, "stream_options": { "include_usage": true },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(chunks: &[Value]) -> anyhow::Result<Stream> {
        let mut stream = Stream::default();
        for (index, chunk) in chunks.iter().enumerate() {
            stream.take(&chunk.to_string(), 1.0 + index as f64)?;
        }
        Ok(stream)
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"delta": delta, "finish_reason": null}]})
    }

    #[test]
    fn a_reply_is_timed_by_its_events_with_text() {
        let stream = stream(&[
            delta(json!({"role": "assistant", "content": ""})),
            delta(json!({"content": "a"})),
            delta(json!({"reasoning_content": "b"})),
            delta(json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]})),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "forerunner": {"rounds": 2}}),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}),
        ])
        .unwrap();
        assert!(stream.finished);
        let sample = stream.sample("name", 0.5, 9.0).unwrap();
        assert_eq!((sample.text.as_str(), &sample.events_s), ("abf{}", &vec![2.0, 3.0, 4.0]));
        assert_eq!((sample.timing.first_token_s, &sample.timing.gaps_s), (2.0, &vec![1.0, 1.0]));
        assert_eq!((sample.timing.input_tokens, sample.timing.output_tokens), (7, 5));
        assert_eq!(sample.statistics["rounds"], 2);
    }

    #[test]
    fn what_says_too_little_is_not_measured() {
        let without_usage = stream(&[delta(json!({"content": "a"}))]).unwrap();
        let error = without_usage.sample("name", 0.0, 1.0).unwrap_err();
        assert_eq!(error.to_string(), "usage tells no prompt_tokens");
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}});
        let without_text = stream(&[usage]).unwrap();
        assert_eq!(without_text.sample("name", 0.0, 1.0).unwrap_err().to_string(), "no event has text");
    }

    #[test]
    fn an_error_within_a_stream_is_told() {
        let error = stream(&[json!({"error": {"message": "out of pages"}})]).unwrap_err();
        assert_eq!(error.to_string(), "the stream has an error: out of pages");
        assert!(Stream::default().take("nonsense", 0.0).unwrap_err().to_string().contains("no JSON"));
    }
}
