//! What a load has measured, as a table, with every request that could not be.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::exchange::{Outcome, Sample};
use super::load::{Loaded, Pace};
use crate::bench::statistics::percentile;

/// Rows of the table: a field, and what it is.
const ROWS: [(&str, &str); 13] = [
    ("duration", "seconds"),
    ("completed", "replies measured"),
    ("failed", "requests failed"),
    ("unmeasured", "replies not measured"),
    ("total_input_tokens", "prompt tokens"),
    ("total_output_tokens", "reply tokens"),
    ("request_throughput", "requests a second"),
    ("output_throughput", "reply tok/s, all streams"),
    ("steady_output_throughput", "reply tok/s, while all streams ran"),
    ("total_token_throughput", "prompt and reply tok/s"),
    ("prompt_tokens_per_second", "prompt tok/s of the middle request"),
    ("tokens_per_round", "tokens a round"),
    ("stream_tokens_per_second", "tok/s of the middle stream"),
];

/// Distributions of the table.
const TIMES: [(&str, &str); 4] = [
    ("ttft", "first token, ms"),
    ("tpot", "a token after it, ms"),
    ("itl", "between events, ms"),
    ("e2el", "whole reply, ms"),
];

/// How requests follow one another, in words.
pub(super) fn pace(pace: Pace, requests: usize) -> String {
    match pace {
        Pace::Concurrency(clients) => format!("{requests} requests, {clients} at once"),
        Pace::Rate { per_second, .. } => format!("{requests} requests, {per_second} a second"),
    }
}

/// All figures.
pub(super) fn table(loaded: &Loaded, pace: Pace) -> String {
    let mut fields = super::fields(loaded, pace);
    if let Some(milliseconds) = fields["median_tpot_ms"].as_f64() {
        fields.insert("stream_tokens_per_second".into(), (1e3 / milliseconds).into());
    }
    let rows =
        ROWS.iter().filter_map(|(field, text)| Some(format!("{text:<36}{:>12}", number(&fields, field)?)));
    let heading = format!("{:<36}{:>12}{:>12}{:>12}{:>12}", "", "mean", "median", "p90", "p99");
    let times = TIMES.iter().map(|(name, text)| {
        let at = |prefix: &str| number(&fields, &format!("{prefix}_{name}_ms")).unwrap_or_else(|| "-".into());
        let columns = ["mean", "median", "p90", "p99"].map(|prefix| format!("{:>12}", at(prefix)));
        format!("{text:<36}{}", columns.concat())
    });
    let reasons = loaded.reasons();
    let reasons = reasons.iter().map(|(reason, count)| format!("{count} times: {reason}"));
    rows.chain([heading]).chain(times).chain(reasons).collect::<Vec<_>>().join("\n")
}

fn number(fields: &Map<String, Value>, field: &str) -> Option<String> {
    let value = fields.get(field)?;
    let number = value.as_f64()?;
    Some(if value.is_u64() { number.to_string() } else { format!("{number:.2}") })
}

impl Loaded {
    /// Requests that failed.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Failed { .. }))
    }

    /// Replies that said too little.
    pub(crate) fn unmeasured(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Unmeasured { .. }))
    }

    /// Why requests failed or were not measured, and how many for each reason.
    pub(crate) fn reasons(&self) -> BTreeMap<String, usize> {
        let mut reasons = BTreeMap::new();
        for outcome in &self.outcomes {
            let text = match outcome {
                Outcome::Measured(_) => continue,
                Outcome::Unmeasured { reason, .. } => format!("not measured: {reason}"),
                Outcome::Failed { reason, .. } => format!("failed: {reason}"),
            };
            *reasons.entry(text).or_insert(0) += 1;
        }
        reasons
    }

    /// Prompt tokens that were not stored, over the time to the first token, of the middle request.
    pub(crate) fn prompt_tokens_per_second(&self) -> Option<f64> {
        let speed = |sample: &Sample| {
            let read = sample.timing.input_tokens.saturating_sub(sample.cached_tokens as usize);
            read as f64 / sample.timing.first_token_s
        };
        percentile(&self.samples().map(speed).collect::<Vec<f64>>(), 50.0)
    }

    /// Reply tokens over rounds, of the replies whose rounds the server tells.
    pub(crate) fn tokens_per_round(&self) -> Option<f64> {
        let told = self.samples().filter_map(|sample| {
            let rounds = sample.statistics["rounds"].as_u64().filter(|rounds| *rounds > 0)?;
            Some((sample.timing.output_tokens as u64, rounds))
        });
        let (tokens, rounds) = told.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (rounds > 0).then(|| tokens as f64 / rounds as f64)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::timings::Timing;

    fn loaded() -> Loaded {
        let timing = Timing {
            input_tokens: 30,
            output_tokens: 8,
            first_token_s: 0.5,
            latency_s: 1.2,
            ..Timing::default()
        };
        let sample = Sample {
            timing,
            cached_tokens: 10,
            statistics: json!({"rounds": 4}),
            events_s: vec![0.5, 1.0],
            ..Sample::default()
        };
        let failed = || Outcome::Failed { name: "b".into(), reason: "status 500: out".into() };
        let unmeasured = Outcome::Unmeasured { name: "c".into(), reason: "no event has text".into() };
        let outcomes = vec![Outcome::Measured(Box::new(sample)), failed(), failed(), unmeasured];
        Loaded { outcomes, seconds: 2.0 }
    }

    #[test]
    fn what_was_not_measured_is_counted_by_its_reason() {
        let table = table(&loaded(), Pace::Concurrency(1));
        for part in ["2 times: failed: status 500: out", "1 times: not measured: no event has text"] {
            assert!(table.contains(part), "{part:?} is not in {table}");
        }
        let fields = super::super::fields(&loaded(), Pace::Concurrency(1));
        assert_eq!(
            (&fields["completed"], &fields["failed"], &fields["unmeasured"]),
            (&json!(1), &json!(2), &json!(1))
        );
    }

    #[test]
    fn rounds_and_stored_tokens_count() {
        assert_eq!(loaded().tokens_per_round(), Some(2.0));
        assert_eq!(loaded().prompt_tokens_per_second(), Some(40.0));
        assert!(table(&loaded(), Pace::Concurrency(1)).contains("tok/s of the middle stream"));
    }
}
