//! Speed of the demo pair on this machine's CPU, as ratios within one run: decode against a plain read of the
//! same bytes, drafted replies against plain ones.

#[path = "../../tests/support/mod.rs"]
mod support;

mod bandwidth;
mod kinds;

use std::time::{Duration, Instant};

use forerunner_cpu::{CpuDevice, CpuOptions};
use forerunner_engine::gates::GateLanes;
use forerunner_lanes::{NewSequence, SamplingRule, TokenId};
use forerunner_tensor::Device;
use forerunner_text::TextModel;

/// Alternated rounds of plain and drafted runs; medians are over these.
const ROUNDS: usize = 5;

/// Prompts timed of each kind.
const PROMPTS_PER_KIND: usize = 6;

fn main() {
    // `cargo bench` passes `--bench`; a number is how many threads to use.
    let threads = std::env::args().find_map(|argument| argument.parse().ok());
    let device = CpuDevice::new(CpuOptions { threads, ..CpuOptions::default() }).expect("a CPU device");
    let (mode, threads) = (device.mode().to_owned(), device.threads());
    println!("cpu, mode {mode}, {threads} threads; {ROUNDS} alternated rounds, medians");
    let mut lanes = support::lanes(support::target(device, 16));
    lanes.measure_costs(8192).expect("costs");
    println!(
        "cost of a round, ms by rows: {}",
        table(&[1, 2, 4, 8, 10, 16], |rows| lanes.costs().round_ms(rows))
    );
    println!(
        "cost of a hold, ms by depth: {}",
        table(&[1, 3, 5, 7, 9], |depth| lanes.costs().hold_ms(1, depth))
    );
    decode_bandwidth(&mut lanes, threads);
    drafted_against_plain(&mut lanes);
}

fn table(keys: &[usize], value: impl Fn(usize) -> f64) -> String {
    keys.iter().map(|key| format!("{key}: {:.3}  ", value(*key))).collect()
}

/// Plain decode of one stream against a plain read of as many bytes by as many threads.
fn decode_bandwidth(lanes: &mut GateLanes, threads: usize) {
    let bytes = bandwidth::decode_bytes();
    let case = support::golden().remove(0).0;
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let read = bandwidth::read_seconds(bytes, threads);
        let sequence = sequence(case.prompt.clone(), 200, &[], false);
        let (took, tokens) = time(lanes, vec![sequence]);
        let token_seconds = took.as_secs_f64() / tokens as f64;
        println!(
            "plain decode: {:.0} tok/s, {:.1} GB/s of weights; a plain read of the same {:.1} MB: {:.1} GB/s",
            1.0 / token_seconds,
            bytes as f64 / token_seconds / 1e9,
            bytes as f64 / 1e6,
            bytes as f64 / read / 1e9
        );
        ratios.push(read / token_seconds);
    }
    println!("decode reads its weights at {:.0}% of a plain read", 100.0 * median(&mut ratios));
}

/// Wall time of whole replies, drafted over plain, by kind of prompt.
fn drafted_against_plain(lanes: &mut GateLanes) {
    let text = TextModel::open(&support::demo("target")).expect("the demo tokenizer");
    for (kind, prompts) in kinds::prompts_by_kind(&text) {
        let prompts = &prompts[..prompts.len().min(PROMPTS_PER_KIND)];
        let run = |lanes: &mut GateLanes, draft| {
            let mut total = (Duration::ZERO, 0, 0);
            for prompt in prompts {
                let rounds = lanes.totals().rounds;
                let (took, tokens) = time(lanes, vec![sequence(prompt.clone(), 96, &[2, 7], draft)]);
                total = (total.0 + took, total.1 + tokens, total.2 + lanes.totals().rounds - rounds);
            }
            total
        };
        run(lanes, true);
        let (mut ratios, mut tokens_per_round) = (Vec::new(), 0.0);
        for _ in 0..ROUNDS {
            let (plain, tokens, _) = run(lanes, false);
            let (drafted, drafted_tokens, rounds) = run(lanes, true);
            assert_eq!(tokens, drafted_tokens, "a drafted reply has another length");
            ratios.push(drafted.as_secs_f64() / plain.as_secs_f64());
            tokens_per_round = tokens as f64 / rounds as f64;
        }
        let spread =
            (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
        println!(
            "{kind:>7}: drafted / plain time {:.2} ({:.2} to {:.2}), {tokens_per_round:.2} tokens a round, {} prompts",
            median(&mut ratios),
            spread.0,
            spread.1,
            prompts.len()
        );
    }
}

fn sequence(prompt: Vec<TokenId>, max_tokens: usize, stop_tokens: &[TokenId], draft: bool) -> NewSequence {
    NewSequence {
        prompt,
        max_tokens,
        rule: SamplingRule::default(),
        stop_tokens: stop_tokens.to_vec(),
        draft,
    }
}

/// Runs sequences to their end; how long it took and how many tokens they have.
fn time(lanes: &mut GateLanes, sequences: Vec<NewSequence>) -> (Duration, usize) {
    let started = Instant::now();
    let replies = forerunner_engine::gates::replies(lanes, sequences);
    (started.elapsed(), replies.iter().map(Vec::len).sum())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
