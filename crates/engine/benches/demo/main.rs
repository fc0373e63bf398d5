//! Speed of the demo pair on this machine's CPU, as ratios within one run: decode against a plain read of the
//! same bytes, drafted replies against plain ones for each kind of prompt and number of streams, a stored prompt
//! against a fresh one. Every speed stands beside an equality: drafted and plain tokens are compared.

#[path = "../../tests/support/mod.rs"]
mod support;

mod bandwidth;
mod kinds;
mod statistics;

use std::time::{Duration, Instant};

use forerunner_cpu::{CpuDevice, CpuOptions};
use forerunner_engine::gates::{GateLanes, GateReply, run_all};
use forerunner_lanes::{NewSequence, SamplingRule, TokenId};
use forerunner_tensor::Device;
use forerunner_text::TextModel;
use serde_json::{Value, json};

use statistics::{Interval, paired_ratio};

/// Fewest alternated pairs of a plain and a drafted run; intervals are over these.
const PAIRS: usize = 9;

/// Most pairs, where the machine is noisy.
const MOST_PAIRS: usize = 49;

/// Width of a ratio's interval at which no more pairs are run.
const WIDTH: f64 = 0.03;

/// Numbers of distinct streams.
const STREAMS: [usize; 4] = [1, 4, 8, 16];

/// Prompts of a kind in one timed run.
const PROMPTS: usize = 16;

/// Tokens of the prompt that is asked twice.
const LONG_PROMPT: usize = 2000;

fn main() {
    // `cargo bench` passes `--bench`. A number is how many threads to use, anything else where a receipt goes.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let threads = arguments.iter().find_map(|argument| argument.parse().ok());
    let receipt = arguments.iter().find(|argument| argument.parse::<usize>().is_err());
    let device = CpuDevice::new(CpuOptions { threads, ..CpuOptions::default() }).expect("a CPU device");
    let name = format!("cpu ({}, {} threads)", device.mode(), device.threads());
    println!("{name}; medians of {PAIRS} to {MOST_PAIRS} alternated pairs, 95% bootstrap intervals");
    let threads = device.threads();
    let mut lanes = support::lanes(support::target(device, 16, 2 * LONG_PROMPT, false), false);
    lanes.measure_costs(8192).expect("costs");
    let costs = cost_table(&lanes);
    let decode = decode_bandwidth(&mut lanes, threads);
    let drafted = drafted_against_plain(&mut lanes);
    let stored = stored_prompt(&mut lanes);
    if let Some(path) = receipt {
        let receipt = json!({
            "device": name, "costs": costs, "decode": decode, "drafted": drafted, "stored_prompt": stored,
        });
        std::fs::write(path, serde_json::to_vec_pretty(&receipt).expect("JSON"))
            .expect("the receipt is written");
    }
}

fn cost_table(lanes: &GateLanes) -> Value {
    let rounds = [1, 2, 4, 8, 10, 16].map(|rows| (rows, lanes.costs().round_ms(rows)));
    let holds = [1, 3, 5, 7, 9].map(|depth| (depth, lanes.costs().hold_ms(1, depth)));
    println!("a round, ms by rows: {}", row(&rounds));
    println!("a hold, ms by depth: {}", row(&holds));
    json!({ "round_ms": rounds, "hold_ms": holds })
}

fn row(entries: &[(usize, f64)]) -> String {
    entries.iter().map(|(key, value)| format!("{key}: {value:.3}  ")).collect()
}

/// Plain decode of one stream against a plain read of as many bytes by as many threads.
fn decode_bandwidth(lanes: &mut GateLanes, threads: usize) -> Value {
    let bytes = bandwidth::decode_bytes();
    let prompt = support::golden().remove(0).0.prompt;
    let mut runs: Vec<(f64, f64)> = (0..PAIRS)
        .map(|_| {
            let read = bandwidth::read_seconds(bytes, threads);
            let (took, replies) = time(lanes, vec![sequence(prompt.clone(), 300, &[], false)]);
            (read, took.as_secs_f64() / replies[0].tokens.len() as f64)
        })
        .collect();
    runs.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (read, token) = runs[runs.len() / 2];
    println!(
        "plain decode: {:.0} tok/s, {:.1} GB/s of weights, {:.0}% of a plain read of the same {:.1} MB ({:.1} GB/s)",
        1.0 / token,
        bytes as f64 / token / 1e9,
        100.0 * read / token,
        bytes as f64 / 1e6,
        bytes as f64 / read / 1e9
    );
    json!({ "weight_bytes": bytes, "read_and_token_seconds": runs, "share_of_plain_read": read / token })
}

/// Wall time of whole replies, drafted over plain, by kind of prompt and number of streams.
fn drafted_against_plain(lanes: &mut GateLanes) -> Vec<Value> {
    let text = TextModel::open(&support::demo("target")).expect("the demo tokenizer");
    let mut cells = Vec::new();
    for (kind, prompts) in kinds::prompts_by_kind(&text) {
        for streams in STREAMS {
            cells.push(cell(lanes, kind, &prompts, streams));
        }
    }
    cells
}

fn cell(lanes: &mut GateLanes, kind: &str, prompts: &[Vec<TokenId>], streams: usize) -> Value {
    let prompts: Vec<_> = prompts.iter().cycle().take(PROMPTS.max(streams)).collect();
    let run = |lanes: &mut GateLanes, draft| {
        let mut total = (Duration::ZERO, Vec::new());
        for group in prompts.chunks(streams) {
            let sequences =
                group.iter().map(|prompt| sequence(prompt.to_vec(), 96, &[2, 7], draft)).collect();
            let (took, replies) = time(lanes, sequences);
            total.0 += took;
            total.1.extend(replies);
        }
        total
    };
    run(lanes, true);
    let (mut pairs, mut tokens_per_round, mut equal) = (Vec::new(), 0.0, true);
    while pairs.len() < PAIRS || pairs.len() < MOST_PAIRS && paired_ratio(&pairs).width() > WIDTH {
        let (plain, expected) = run(lanes, false);
        let (drafted, found) = run(lanes, true);
        equal &= expected.iter().zip(&found).all(|(a, b)| a.tokens == b.tokens);
        pairs.push((plain.as_secs_f64(), drafted.as_secs_f64()));
        let rounds: u64 = found.iter().map(|reply| reply.statistics.rounds).sum();
        tokens_per_round = found.iter().map(|reply| reply.tokens.len()).sum::<usize>() as f64 / rounds as f64;
    }
    let Interval { middle, low, high } = paired_ratio(&pairs);
    println!(
        "{kind:>6}, {streams:>2} streams: drafted / plain time {middle:.3} ({low:.3} to {high:.3}) in {} pairs, \
         {tokens_per_round:.2} tokens a round, {}",
        pairs.len(),
        if equal { "equal" } else { "NOT EQUAL" }
    );
    json!({
        "kind": kind, "streams": streams, "ratio": middle, "low": low, "high": high, "equal": equal,
        "tokens_per_round": tokens_per_round, "plain_and_drafted_seconds": pairs,
    })
}

/// Time to the first token of a long prompt: fresh, and from what its first run left.
fn stored_prompt(lanes: &mut GateLanes) -> Vec<Value> {
    let words: Vec<TokenId> = support::golden().into_iter().flat_map(|(case, _)| case.prompt).collect();
    let mut shares = Vec::new();
    for index in 0..PAIRS as TokenId {
        let own = std::iter::once(100 + index);
        let prompt: Vec<TokenId> = own.chain(words.iter().copied().cycle()).take(LONG_PROMPT).collect();
        let once = |lanes: &mut GateLanes| time(lanes, vec![sequence(prompt.clone(), 1, &[], true)]);
        let (fresh, _) = once(lanes);
        let (stored, replies) = once(lanes);
        let cached = replies[0].statistics.cached_tokens;
        shares.push(
            json!({ "fresh_s": fresh.as_secs_f64(), "stored_s": stored.as_secs_f64(), "cached": cached }),
        );
    }
    let mut ratios: Vec<f64> = shares
        .iter()
        .filter_map(|share| Some(share["stored_s"].as_f64()? / share["fresh_s"].as_f64()?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{LONG_PROMPT} tokens asked twice: the second first token takes {:.1}% of the first",
        100.0 * ratios[ratios.len() / 2]
    );
    shares
}

fn sequence(prompt: Vec<TokenId>, max_tokens: usize, stop_tokens: &[TokenId], draft: bool) -> NewSequence {
    NewSequence {
        prompt,
        max_tokens,
        rule: SamplingRule::default(),
        stop_tokens: stop_tokens.to_vec(),
        draft,
        ..NewSequence::default()
    }
}

/// Runs sequences together to their end; how long it took, and the replies.
fn time(lanes: &mut GateLanes, sequences: Vec<NewSequence>) -> (Duration, Vec<GateReply>) {
    let started = Instant::now();
    let replies = run_all(lanes, sequences);
    (started.elapsed(), replies)
}
