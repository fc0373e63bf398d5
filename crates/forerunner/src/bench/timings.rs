//! Times of requests, summed up under the names that vLLM's benchmarks use, so that what reads theirs reads ours.

use serde_json::{Map, Value, json};

use super::statistics::{deviation, mean, percentile};

/// Percentiles beside the median.
const PERCENTILES: [u32; 3] = [90, 95, 99];

/// How one request went. Seconds are from when it was sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Timing {
    pub(crate) input_tokens: usize,
    pub(crate) output_tokens: usize,
    /// To the first token.
    pub(crate) first_token_s: f64,
    /// To the end of the reply.
    pub(crate) latency_s: f64,
    /// Between two events with text. An event of a drafted reply may have several tokens.
    pub(crate) gaps_s: Vec<f64>,
}

impl Timing {
    /// Seconds a token after the first; nothing for a reply of one token.
    pub(crate) fn seconds_per_token(&self) -> Option<f64> {
        let others = self.output_tokens.checked_sub(1).filter(|others| *others > 0)?;
        Some((self.latency_s - self.first_token_s) / others as f64)
    }
}

/// The requests of a run of so many seconds, in vLLM's fields. What was not measured is null.
pub(crate) fn summary(timings: &[Timing], failed: usize, seconds: f64) -> Map<String, Value> {
    let input: usize = timings.iter().map(|timing| timing.input_tokens).sum();
    let output: usize = timings.iter().map(|timing| timing.output_tokens).sum();
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.into(), value);
    set("duration", json!(seconds));
    set("completed", json!(timings.len()));
    set("failed", json!(failed));
    set("total_input_tokens", json!(input));
    set("total_output_tokens", json!(output));
    set("request_throughput", json!(timings.len() as f64 / seconds));
    set("output_throughput", json!(output as f64 / seconds));
    set("total_token_throughput", json!((input + output) as f64 / seconds));
    let each = |value: fn(&Timing) -> f64| timings.iter().map(value).collect::<Vec<f64>>();
    let per_token: Vec<f64> = timings.iter().filter_map(Timing::seconds_per_token).collect();
    let gaps: Vec<f64> = timings.iter().flat_map(|timing| timing.gaps_s.iter().copied()).collect();
    for (name, seconds) in [
        ("ttft", each(|timing| timing.first_token_s)),
        ("tpot", per_token),
        ("itl", gaps),
        ("e2el", each(|timing| timing.latency_s)),
    ] {
        fields.extend(distribution(name, &seconds));
    }
    fields
}

/// Every request's own figures, as vLLM writes them with `--save-detailed`.
pub(crate) fn raw(timings: &[Timing]) -> Map<String, Value> {
    let list =
        |value: fn(&Timing) -> Value| -> Value { timings.iter().map(value).collect::<Vec<Value>>().into() };
    let mut fields = Map::new();
    fields.insert("input_lens".into(), list(|timing| json!(timing.input_tokens)));
    fields.insert("output_lens".into(), list(|timing| json!(timing.output_tokens)));
    fields.insert("ttfts".into(), list(|timing| json!(rounded(timing.first_token_s))));
    fields.insert("latencies".into(), list(|timing| json!(rounded(timing.latency_s))));
    let gaps = |timing: &Timing| json!(timing.gaps_s.iter().map(|gap| rounded(*gap)).collect::<Vec<_>>());
    fields.insert("itls".into(), list(gaps));
    fields
}

/// Seconds to the microsecond: what is finer is noise, and doubles the size of a receipt.
pub(crate) fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn distribution(name: &str, seconds: &[f64]) -> Map<String, Value> {
    let milliseconds = |value: Option<f64>| json!(value.map(|seconds| seconds * 1e3));
    let mut fields = Map::new();
    fields.insert(format!("mean_{name}_ms"), milliseconds(mean(seconds)));
    fields.insert(format!("median_{name}_ms"), milliseconds(percentile(seconds, 50.0)));
    fields.insert(format!("std_{name}_ms"), milliseconds(deviation(seconds)));
    for percent in PERCENTILES {
        fields.insert(format!("p{percent}_{name}_ms"), milliseconds(percentile(seconds, f64::from(percent))));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(output_tokens: usize, first_token_s: f64, latency_s: f64) -> Timing {
        Timing { input_tokens: 10, output_tokens, first_token_s, latency_s, gaps_s: vec![0.25, 0.75] }
    }

    #[test]
    fn a_token_takes_what_is_left_after_the_first() {
        assert_eq!(timing(5, 1.0, 3.0).seconds_per_token(), Some(0.5));
        assert_eq!(timing(1, 1.0, 1.0).seconds_per_token(), None);
        assert_eq!(timing(0, 1.0, 1.0).seconds_per_token(), None);
    }

    #[test]
    fn the_fields_are_those_of_vllm() {
        let fields = summary(&[timing(5, 1.0, 3.0), timing(3, 2.0, 3.0)], 1, 4.0);
        let number = |name: &str| fields[name].as_f64().unwrap_or_else(|| panic!("{name} in {fields:?}"));
        assert_eq!((number("completed"), number("failed")), (2.0, 1.0));
        assert_eq!((number("request_throughput"), number("output_throughput")), (0.5, 2.0));
        assert_eq!(number("total_token_throughput"), 7.0);
        assert_eq!((number("mean_ttft_ms"), number("median_ttft_ms")), (1500.0, 1500.0));
        assert_eq!((number("mean_tpot_ms"), number("mean_itl_ms")), (500.0, 500.0));
        assert_eq!((number("p99_ttft_ms"), number("std_ttft_ms")), (1990.0, 500.0));
        assert_eq!(raw(&[timing(5, 1.0, 3.0)])["itls"], json!([[0.25, 0.75]]));
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let fields = summary(&[], 3, 1.0);
        assert_eq!((&fields["mean_ttft_ms"], &fields["failed"]), (&Value::Null, &json!(3)));
    }
}
