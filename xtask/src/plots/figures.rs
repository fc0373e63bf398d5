//! The charts that receipts give.

use std::collections::BTreeMap;

use serde_json::Value;

use super::chart::{Chart, Series};
use super::receipt::Receipt;

/// The sides of a comparison, as receipts name them.
const SIDES: [&str; 2] = ["plain", "drafted"];

/// A series' name, and its value at a place if there is one.
type Named = (&'static str, Option<f64>);

/// All charts that have something to show.
pub(super) fn charts(receipts: &[Receipt]) -> Vec<Chart> {
    let of = |bench: &str| receipts.iter().filter(|receipt| receipt.bench() == bench).collect::<Vec<_>>();
    let (throughput, serve) = (of("throughput"), of("serve"));
    let (forced, latency): (Vec<_>, Vec<_>) =
        of("latency").into_iter().partition(|receipt| receipt.is_set("force_drafts"));
    // Speeds compare within a run only, so a line is of one.
    let has_a_line = |receipt: &&Receipt| totals(receipt, "plain").len() > 1;
    let is_served = |receipt: &&Receipt| !receipt.is_set("force_drafts") && has_a_line(receipt);
    let served: Vec<&Receipt> = throughput.iter().copied().filter(is_served).collect();
    let charts = [
        aggregate(&served),
        users(&served),
        acceptance(&throughput),
        lengths(
            &forced,
            "acceptance-by-context",
            "Accepted drafts against context",
            "% of all drafts",
            accepted,
        ),
        lengths(&latency, "decode", "Decode against context", "tok/s", decode),
        lengths(&latency, "first-token", "Time to the first token against prompt length", "ms", first_token),
        lengths(&latency, "memory", "Peak memory against prompt length", "MiB", memory),
        entering(&serve),
    ];
    charts.into_iter().filter(Chart::has_points).collect()
}

fn chart(
    name: &'static str,
    title: &str,
    x: &str,
    y: &str,
    places: Vec<String>,
    series: Vec<Series>,
) -> Chart {
    Chart { name, title: title.into(), x: x.into(), y: y.into(), places, series }
}

/// Tokens and seconds of a receipt's cells, over all kinds, by number of streams and side.
fn totals(receipt: &Receipt, side: &str) -> BTreeMap<u64, (f64, f64)> {
    let mut totals: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for cell in receipt.list("cells") {
        let number = |field: &str| cell[side][field].as_f64().unwrap_or_default();
        let sum = totals.entry(cell["streams"].as_u64().unwrap_or_default()).or_default();
        *sum = (sum.0 + number("total_output_tokens"), sum.1 + number("duration"));
    }
    totals
}

fn prompts_of(receipt: &Receipt) -> &'static str {
    if receipt.is_set("same_prompt") { "same prompt" } else { "distinct prompts" }
}

/// The model, and the mode of the device where the receipt tells it: speeds of two modes do not compare.
fn model_and_mode(receipt: &Receipt) -> String {
    let model = receipt.json["model_id"].as_str().unwrap_or("unnamed");
    let device = receipt.json["device"].as_str().unwrap_or_default();
    let mode = device.split_once('(').and_then(|(_, of)| of.split([',', ')']).next());
    mode.map_or_else(|| model.into(), |mode| format!("{model} in {mode}"))
}

/// A series for each receipt and side, with a point a number of streams.
fn by_streams(receipts: &[&Receipt], point: impl Fn(u64, f64) -> (f64, f64)) -> Vec<Series> {
    let mut series = Vec::new();
    for receipt in receipts {
        let what = model_and_mode(receipt);
        for side in SIDES {
            let points = totals(receipt, side)
                .into_iter()
                .map(|(streams, (tokens, seconds))| point(streams, tokens / seconds));
            let name = format!("{what}: {side}, {}", prompts_of(receipt));
            series.push(Series { name, points: points.collect() });
        }
    }
    series
}

fn aggregate(receipts: &[&Receipt]) -> Chart {
    let mut streams: Vec<u64> =
        receipts.iter().flat_map(|receipt| totals(receipt, "plain").into_keys()).collect();
    streams.sort_unstable();
    streams.dedup();
    let place = |count: &u64| streams.iter().position(|known| known == count).unwrap_or_default() as f64;
    let point = |streams: u64, speed: f64| (place(&streams), speed);
    let series = by_streams(receipts, point);
    let places = streams.iter().map(u64::to_string).collect();
    chart("aggregate", "All streams together, all kinds of prompt", "streams", "tok/s", places, series)
}

/// A point a number of streams: what all get together, and what each gets.
fn users(receipts: &[&Receipt]) -> Chart {
    let series = by_streams(receipts, |streams, speed| (speed, speed / streams.max(1) as f64));
    chart(
        "users",
        "A user's speed against that of all",
        "tok/s, all streams",
        "tok/s, a stream",
        Vec::new(),
        series,
    )
}

/// Of one stream with drafts in every round: what a position accepts is a property of model and prompt.
fn acceptance(receipts: &[&Receipt]) -> Chart {
    let forced = receipts.iter().find(|receipt| receipt.is_set("force_drafts"));
    let cells = forced.map_or(&[][..], |receipt| receipt.list("cells"));
    let mut series = Vec::new();
    for cell in cells.iter().filter(|cell| cell["streams"] == 1) {
        let positions = cell["drafted"]["draft_by_position"].as_array().into_iter().flatten();
        let share = |(index, counts): (usize, &Value)| {
            let verified = counts[0].as_f64().filter(|verified| *verified > 0.0)?;
            Some(((index + 1) as f64, 100.0 * counts[1].as_f64()? / verified))
        };
        let points = positions.enumerate().filter_map(share).collect();
        series.push(Series { name: cell["kind"].as_str().unwrap_or_default().into(), points });
    }
    let (x, y) = ("position of the draft in its window", "% of the verified drafts accepted");
    chart("acceptance", "Accepted drafts by position and kind of prompt", x, y, Vec::new(), series)
}

/// A chart over the lengths of all latency receipts.
fn lengths(
    receipts: &[&Receipt],
    name: &'static str,
    title: &str,
    y: &str,
    values: fn(&Value) -> Vec<Named>,
) -> Chart {
    let Some(receipt) = receipts.first() else {
        return chart(name, title, "", y, Vec::new(), Vec::new());
    };
    let rows = receipt.list("lengths");
    let places = rows.iter().map(|row| row["prompt_tokens"].to_string()).collect();
    let mut series: Vec<Series> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (name, value) in values(row) {
            let point = value.map(|value| (index as f64, value));
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.extend(point),
                None => series.push(Series { name: name.into(), points: point.into_iter().collect() }),
            }
        }
    }
    chart(name, title, "tokens of the prompt", y, places, series)
}

fn median(row: &Value, side: &str, field: &str) -> Option<f64> {
    row[side][field]["median"].as_f64()
}

fn accepted(row: &Value) -> Vec<Named> {
    let counts = row["drafted"]["drafts_and_accepted"].as_array().into_iter().flatten();
    let sum = |index: usize| counts.clone().filter_map(|count| count[index].as_f64()).sum::<f64>();
    let share = (sum(0) > 0.0).then(|| 100.0 * sum(1) / sum(0));
    vec![("drafts in every round", share)]
}

fn decode(row: &Value) -> Vec<Named> {
    SIDES.map(|side| (side, median(row, side, "decode_tokens_per_second"))).to_vec()
}

fn first_token(row: &Value) -> Vec<Named> {
    let milliseconds = |side, field| median(row, side, field).map(|seconds| seconds * 1e3);
    vec![
        ("plain, cold", milliseconds("plain", "cold_first_token_s")),
        ("drafted, cold", milliseconds("drafted", "cold_first_token_s")),
        ("plain, cached", milliseconds("plain", "cached_first_token_s")),
        ("drafted, cached", milliseconds("drafted", "cached_first_token_s")),
    ]
}

fn memory(row: &Value) -> Vec<Named> {
    vec![("peak of the process", row["peak_memory_bytes"].as_f64().map(|bytes| bytes / f64::from(1 << 20)))]
}

/// Gaps of one stream over time, with the time in which the long prompt was read.
fn entering(receipts: &[&Receipt]) -> Chart {
    let mixed = receipts.iter().map(|receipt| &receipt.json["mixed"]).find(|mixed| mixed.is_object());
    let mut series = Vec::new();
    if let Some(mixed) = mixed {
        let events: Vec<f64> =
            mixed["event_times_s"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        let gaps: Vec<(f64, f64)> =
            events.windows(2).map(|pair| (pair[1], 1e3 * (pair[1] - pair[0]))).collect();
        let top = gaps.iter().map(|gap| gap.1).fold(0.0, f64::max);
        series.push(Series { name: "between two events".into(), points: gaps });
        for (name, field) in [("the prompt enters", "entered_s"), ("its first token", "first_token_s")] {
            let at = mixed[field].as_f64().unwrap_or_default();
            series.push(Series { name: name.into(), points: vec![(at, 0.0), (at, top)] });
        }
    }
    let title = "One stream while a long prompt enters";
    chart("entering", title, "seconds", "ms between two events", Vec::new(), series)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn throughput(same: bool) -> Receipt {
        let side = |tokens: u64| json!({"total_output_tokens": tokens, "duration": 2.0, "draft_by_position": [[4, 3]]});
        let cell = |streams: u64| json!({"kind": "math", "streams": streams, "plain": side(10 * streams), "drafted": side(20 * streams)});
        let json = json!({
            "bench": "throughput", "model_id": "m", "cells": [cell(1), cell(4)], "settings": {"same_prompt": same, "force_drafts": false},
        });
        Receipt { file: "t".into(), json }
    }

    #[test]
    fn streams_add_up_over_kinds() {
        let charts = charts(&[throughput(false), throughput(true)]);
        let names: Vec<&str> = charts.iter().map(|chart| chart.name).collect();
        assert_eq!(names, ["aggregate", "users"]);
        assert_eq!(charts[0].places, ["1", "4"]);
        assert_eq!(charts[0].series[1].name, "m: drafted, distinct prompts");
        assert_eq!(charts[0].series[1].points, [(0.0, 10.0), (1.0, 40.0)]);
        assert_eq!(charts[1].series[3].points, [(10.0, 10.0), (40.0, 10.0)]);
    }

    #[test]
    fn a_mode_is_told_where_it_is_known() {
        let mut receipt = throughput(false);
        receipt.json["device"] = json!("cpu (amx, 2 threads)");
        assert_eq!(charts(&[receipt])[0].series[0].name, "m in amx: plain, distinct prompts");
    }

    #[test]
    fn a_lone_number_of_streams_is_no_line() {
        let mut receipt = throughput(false);
        receipt.json["cells"].as_array_mut().unwrap().truncate(1);
        assert!(charts(&[receipt]).is_empty());
    }

    #[test]
    fn acceptance_is_of_forced_drafts() {
        let mut receipt = throughput(false);
        receipt.json["settings"]["force_drafts"] = json!(true);
        let charts = charts(&[receipt]);
        assert_eq!((charts[0].name, &charts[0].series[0].points), ("acceptance", &vec![(1.0, 75.0)]));
    }

    #[test]
    fn acceptance_against_context_is_of_forced_drafts() {
        let row = json!({"prompt_tokens": 24, "drafted": {"drafts_and_accepted": [[6, 3], [2, 1]]}, "peak_memory_bytes": 1});
        let latency = |force: bool| {
            let json = json!({"bench": "latency", "lengths": [row], "settings": {"force_drafts": force}});
            Receipt { file: "l".into(), json }
        };
        let forced = charts(&[latency(true)]);
        assert_eq!((forced.len(), forced[0].name), (1, "acceptance-by-context"));
        assert_eq!(forced[0].series[0].points, [(0.0, 50.0)]);
        assert_eq!(charts(&[latency(false)])[0].name, "memory");
    }

    #[test]
    fn lengths_without_a_value_have_no_point() {
        let row = |tokens: u64, cached: Value| json!({"prompt_tokens": tokens, "plain": {"cached_first_token_s": cached}, "peak_memory_bytes": 1 << 21});
        let rows = json!([row(24, Value::Null), row(600, json!({"median": 0.5}))]);
        let receipt = Receipt { file: "l".into(), json: json!({"bench": "latency", "lengths": rows}) };
        let charts = charts(&[receipt]);
        let names: Vec<&str> = charts.iter().map(|chart| chart.name).collect();
        assert_eq!(names, ["first-token", "memory"]);
        assert_eq!(charts[0].series[2].points, [(1.0, 500.0)]);
        assert_eq!(charts[1].series[0].points, [(0.0, 2.0), (1.0, 2.0)]);
    }
}
