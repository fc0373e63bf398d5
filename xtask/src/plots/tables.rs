//! The table of a receipt.

use serde_json::Value;

use super::receipt::Receipt;

/// In Markdown, by the receipt's benchmark.
pub(super) fn table(receipt: &Receipt) -> String {
    match receipt.bench() {
        "throughput" => throughput(receipt),
        "latency" => latency(receipt),
        "serve" => serve(&receipt.json),
        "peers" => peers(&receipt.json),
        _ => compare(&receipt.json),
    }
}

fn markdown(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    // What an engine says of itself may have the character that parts cells.
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let rule = vec!["---".to_owned(); heads.len()];
    let lines = [line(&heads), line(&rule)].into_iter().chain(rows.iter().map(|row| line(row)));
    lines.collect::<Vec<_>>().join("\n")
}

/// An object's fields in the order of their names: whether its own is kept depends on what else is built.
fn by_name(object: &Value) -> Vec<(&String, &Value)> {
    let mut fields: Vec<(&String, &Value)> = object.as_object().into_iter().flatten().collect();
    fields.sort_by_key(|(name, _)| *name);
    fields
}

/// A number with so many decimals; a dash where nothing was measured.
fn number(value: &Value, decimals: usize) -> String {
    value.as_f64().map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
}

/// A median with what is around it.
fn around(spread: &Value, [low, high]: [&str; 2], decimals: usize) -> String {
    let part = |name: &str| number(&spread[name], decimals);
    match spread.is_object() {
        true => format!("{} ({} to {})", part("median"), part(low), part(high)),
        false => "-".into(),
    }
}

fn equality(equality: &Value) -> String {
    let compared = equality["compared"].as_u64().unwrap_or_default();
    match (compared, equality["differing"].as_array().map_or(0, Vec::len)) {
        (0, _) => "-".into(),
        (_, 0) => "equal".into(),
        (_, differing) => format!("**{differing} DIFFER**"),
    }
}

fn throughput(receipt: &Receipt) -> String {
    let heads = [
        "kind",
        "streams",
        "plain tok/s",
        "drafted tok/s",
        "a drafted stream",
        "time",
        "tokens a round",
        "drafted = plain",
        "shared = alone",
    ];
    let row = |cell: &Value| {
        let (plain, drafted) = (&cell["plain"], &cell["drafted"]);
        vec![
            cell["kind"].as_str().unwrap_or_default().to_owned(),
            cell["streams"].to_string(),
            around(&plain["aggregate_tokens_per_second"], ["min", "max"], 0),
            around(&drafted["aggregate_tokens_per_second"], ["min", "max"], 0),
            number(&drafted["stream_tokens_per_second"], 0),
            around(&cell["drafted_over_plain_time"], ["low", "high"], 3),
            number(&drafted["tokens_per_round"], 2),
            equality(&cell["drafted_is_plain"]),
            equality(&cell["shared_is_alone"]),
        ]
    };
    let table = markdown(&heads, receipt.list("cells").iter().map(row).collect());
    let decode = &receipt.json["decode"];
    match decode["share_of_plain_read"].as_f64() {
        Some(share) => format!(
            "{table}\n\nPlain decode of one stream: {} tok/s, {:.0}% of a plain read of the same {:.1} MB of weights.",
            number(&decode["tokens_per_second"], 0),
            100.0 * share,
            decode["weight_bytes"].as_f64().unwrap_or_default() / 1e6
        ),
        None => table,
    }
}

fn latency(receipt: &Receipt) -> String {
    let heads = [
        "prompt",
        "first token, cold, ms",
        "cached, ms",
        "drafted: cold, ms",
        "cached, ms",
        "prompt tok/s",
        "decode tok/s",
        "drafted tok/s",
        "tokens a round",
        "round gap, ms",
        "peak, MiB",
        "drafted = plain",
        "cached = cold",
    ];
    let milliseconds = |spread: &Value| {
        spread["median"].as_f64().map_or_else(|| "-".into(), |seconds| format!("{:.1}", 1e3 * seconds))
    };
    let row = |row: &Value| {
        let (plain, drafted) = (&row["plain"], &row["drafted"]);
        vec![
            row["prompt_tokens"].to_string(),
            milliseconds(&plain["cold_first_token_s"]),
            milliseconds(&plain["cached_first_token_s"]),
            milliseconds(&drafted["cold_first_token_s"]),
            milliseconds(&drafted["cached_first_token_s"]),
            around(&plain["prompt_tokens_per_second"], ["min", "max"], 0),
            around(&plain["decode_tokens_per_second"], ["min", "max"], 0),
            around(&drafted["decode_tokens_per_second"], ["min", "max"], 0),
            number(&drafted["tokens_per_round"], 2),
            number(&row["round_gap_ms"], 4),
            row["peak_memory_bytes"].as_u64().map_or_else(|| "-".into(), |bytes| (bytes >> 20).to_string()),
            equality(&row["drafted_is_plain"]),
            equality(&row["cached_is_cold"]),
        ]
    };
    markdown(&heads, receipt.list("lengths").iter().map(row).collect())
}

fn serve(json: &Value) -> String {
    let pace = match (&json["max_concurrency"], &json["request_rate"]) {
        (Value::Null, rate) => format!("{rate} a second"),
        (clients, _) => format!("{clients} at once"),
    };
    let times = |name: &str| {
        let at = |prefix: &str| number(&json[format!("{prefix}_{name}_ms")], 2);
        format!("{} / {}", at("median"), at("p99"))
    };
    let heads = [
        "load",
        "measured",
        "failed",
        "not measured",
        "first token, ms (median / p99)",
        "a token, ms",
        "between events, ms",
        "tok/s",
        "steady tok/s",
        "prompt tok/s",
        "tokens a round",
        "shared = alone",
        "drafted = plain",
    ];
    let row = vec![
        pace,
        json["completed"].to_string(),
        json["failed"].to_string(),
        json["unmeasured"].to_string(),
        times("ttft"),
        times("tpot"),
        times("itl"),
        number(&json["output_throughput"], 0),
        number(&json["steady_output_throughput"], 0),
        number(&json["prompt_tokens_per_second"], 0),
        number(&json["tokens_per_round"], 2),
        equality(&json["equality"]["shared_is_alone"]),
        equality(&json["equality"]["drafted_is_plain"]),
    ];
    let table = markdown(&heads, vec![row]);
    match mixed(&json["mixed"]) {
        Some(mixed) => format!("{table}\n\n{mixed}"),
        None => table,
    }
}

fn mixed(mixed: &Value) -> Option<String> {
    let part = |place: &str| {
        let gaps = &mixed[place];
        let (middle, most) = (number(&gaps["median_itl_ms"], 2), number(&gaps["max_itl_ms"], 2));
        format!("{place} {middle} ms, at most {most} ms")
    };
    let tokens = mixed["prompt_tokens"].as_u64()?;
    let parts = ["before", "while", "after"].map(part).join("; ");
    Some(format!("One stream while a prompt of {tokens} tokens enters, between two events: {parts}."))
}

fn compare(json: &Value) -> String {
    let rows = by_name(&json["ratios"])
        .into_iter()
        .map(|(name, spread)| vec![name.clone(), around(spread, ["min", "max"], 3)])
        .collect();
    let table = markdown(&["figure", "B / A"], rows);
    format!("{table}\n\nA = B: {}.", equality(&json["a_equals_b"]))
}

/// Tokens a second: a large model's are few.
fn speed(value: &Value) -> String {
    number(value, if value.as_f64().is_some_and(|value| value < 100.0) { 1 } else { 0 })
}

/// An engine's median speed with that of its slowest and of its fastest round, of so many tokens each.
fn speed_of_rounds(peer: &Value, what: &str, tokens: f64) -> String {
    let rounds = peer["rounds"].as_array().into_iter().flatten();
    let mut speeds: Vec<f64> =
        rounds.filter_map(|r| Some(tokens / r[format!("{what}_s")].as_f64()?)).collect();
    speeds.sort_by(f64::total_cmp);
    let median = speed(&peer[format!("{what}_tokens_per_second")]);
    match speeds[..] {
        [slowest, .., fastest] => {
            format!("{median} ({} to {})", speed(&slowest.into()), speed(&fastest.into()))
        }
        _ => median,
    }
}

/// How many of the drafts that an engine made for the golden prompts are in its replies, over all rounds.
fn accepted(peer: &Value) -> String {
    let rounds = peer["rounds"].as_array().into_iter().flatten();
    let replies: Vec<&Value> =
        rounds.flat_map(|round| by_name(&round["replies"])).map(|(_, reply)| reply).collect();
    let sum = |name: &str| replies.iter().filter_map(|reply| reply[name].as_u64()).sum::<u64>();
    match sum("draft_n") {
        0 => "-".into(),
        made => format!("{} of {made}", sum("draft_n_accepted")),
    }
}

/// A row an engine, then a row a golden prompt.
fn peers(json: &Value) -> String {
    let peers = by_name(&json["peers"]);
    let golden = peers.first().map_or(&Value::Null, |(_, peer)| &peer["golden_tokens_per_second"]);
    let prompts: Vec<&String> = by_name(golden).into_iter().map(|(name, _)| name).collect();
    let settings = |name: &str| json["settings"][name].as_f64().unwrap_or_default();
    let row = |(name, peer): &(&String, &Value)| {
        let equal = peer["golden_equal"].as_array().map_or(0, Vec::len);
        vec![
            (*name).clone(),
            speed_of_rounds(peer, "prompt", settings("prompt_tokens")),
            speed_of_rounds(peer, "decode", settings("reply_tokens") - 1.0),
            format!("{equal} of {}", prompts.len()),
            accepted(peer),
            equality(&peer["drafted_is_plain"]),
            peer["about"].as_str().unwrap_or_default().to_owned(),
        ]
    };
    let heads = [
        "engine",
        "prompt tok/s",
        "decode tok/s",
        "golden replies",
        "drafts accepted",
        "drafted = plain",
        "what ran",
    ];
    let engines = markdown(&heads, peers.iter().map(row).collect());
    let of_prompt = |prompt: &&String| {
        let cell = |(_, peer): &(&String, &Value)| {
            let equal =
                peer["golden_equal"].as_array().is_some_and(|equal| equal.iter().any(|name| name == *prompt));
            let speed = speed(&peer["golden_tokens_per_second"][prompt.as_str()]);
            if equal { speed } else { format!("({speed})") }
        };
        [(*prompt).clone()].into_iter().chain(peers.iter().map(cell)).collect()
    };
    let heads: Vec<&str> =
        ["decode tok/s"].into_iter().chain(peers.iter().map(|(name, _)| name.as_str())).collect();
    let golden = markdown(&heads, prompts.iter().map(of_prompt).collect());
    format!("{engines}\n\nIn parentheses: another reply than the golden one.\n\n{golden}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_measured_is_a_dash() {
        assert_eq!((number(&Value::Null, 2), number(&json!(1.256), 2)), ("-".into(), "1.26".into()));
        let spread = json!({"median": 2.0, "min": 1.0, "max": 3.0});
        assert_eq!(around(&spread, ["min", "max"], 1), "2.0 (1.0 to 3.0)");
        assert_eq!(around(&Value::Null, ["min", "max"], 1), "-");
    }

    #[test]
    fn replies_that_differ_stand_out() {
        assert_eq!(equality(&json!({"compared": 2, "differing": ["a"]})), "**1 DIFFER**");
        assert_eq!(equality(&json!({"compared": 2, "differing": []})), "equal");
        assert_eq!(equality(&Value::Null), "-");
    }

    #[test]
    fn a_reply_that_is_not_golden_is_in_parentheses() {
        let peer = |equal: &[&str]| {
            json!({
                "prompt_tokens_per_second": 10.4, "decode_tokens_per_second": 20.0, "about": "v1 | x",
                "golden_tokens_per_second": {"chat": 30.0}, "golden_equal": equal,
            })
        };
        let table = peers(&json!({"peers": {"a": peer(&["chat"]), "b": peer(&[])}}));
        for part in [
            "| a | 10.4 | 20.0 | 1 of 1 | - | - | v1 \\| x |",
            "| b | 10.4 | 20.0 | 0 of 1 | ",
            "| chat | 30.0 | (30.0) |",
        ] {
            assert!(table.contains(part), "{part} is not in {table}");
        }
    }

    #[test]
    fn an_engine_has_its_slowest_and_fastest_round_and_its_drafts() {
        let round = |seconds: f64| {
            let reply = json!({"draft_n": 9, "draft_n_accepted": 4});
            json!({"prompt_s": seconds, "decode_s": 1.0, "replies": {"chat": reply, "math": {}}})
        };
        let peer = json!({
            "rounds": [round(0.5), round(1.0)], "prompt_tokens_per_second": 768.0,
            "drafted_is_plain": {"compared": 3, "differing": ["chat"]},
        });
        let table =
            peers(&json!({"peers": {"a": peer}, "settings": {"prompt_tokens": 512, "reply_tokens": 64}}));
        let row = "| a | 768 (512 to 1024) | - (63.0 to 63.0) | 0 of 0 | 8 of 18 | **1 DIFFER** |  |";
        assert!(table.contains(row), "{row} is not in {table}");
    }

    #[test]
    fn a_load_says_its_pace_and_its_failures() {
        let load = json!({"max_concurrency": null, "request_rate": 2.5, "completed": 3, "failed": 1, "unmeasured": 0});
        let table = serve(&load);
        assert!(
            table.ends_with("| 2.5 a second | 3 | 1 | 0 | - / - | - / - | - / - | - | - | - | - | - | - |"),
            "{table}"
        );
    }
}
