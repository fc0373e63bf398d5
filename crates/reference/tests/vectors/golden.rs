//! The reference equals the golden vectors of both demo targets and their drafter, and damaged weights do not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forerunner_checkpoint::{DrafterCheckpoint, MixtureConfig, TargetCheckpoint};
use forerunner_reference::target::{Conv, FeedForward, Mixture, Operator};
use forerunner_reference::{
    DraftedReply, Pick, ReferenceDrafter, ReferenceTarget, ReplyLimit, Round, drafted, greedy, judge,
};
use serde::Deserialize;

use crate::compare::{Vectors, close, equal};

/// How the golden replies were made: base prompts end at `<|endoftext|>`, chats at `<|im_end|>`.
const LIMIT: ReplyLimit<'_> = ReplyLimit { max_tokens: 96, stop_tokens: &[2, 7] };

/// On logits and the drafter's rows.
const TOLERANCE: f32 = 1e-3;

/// On taps, of the largest one of a prompt: the residual stream grows to 2000.
const TAP_TOLERANCE: f32 = 1e-5;

/// On margins, kept with four decimals.
const MARGIN_TOLERANCE: f32 = 1e-3;

/// On confidences, kept with five decimals.
const CONFIDENCE_TOLERANCE: f32 = 1e-4;

/// One prompt of a golden file.
#[derive(Deserialize)]
struct GoldenPrompt {
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
    margins: Vec<f32>,
    rounds: Vec<GoldenRound>,
}

/// One round of its drafted reply.
#[derive(Deserialize)]
struct GoldenRound {
    #[serde(rename = "pos")]
    position: usize,
    drafts: Vec<u32>,
    margins: Vec<f32>,
    confidence: Vec<f32>,
    accepted: usize,
}

/// A golden file: prompts by name, and their tensors.
struct Golden {
    prompts: BTreeMap<String, GoldenPrompt>,
    vectors: Vectors,
}

/// The largest differences met; of the scale for taps.
#[derive(Debug, Default)]
struct Largest {
    first_logits: f32,
    taps: f32,
    margins: f32,
    draft_hidden: f32,
    draft_logits: f32,
    draft_margins: f32,
    confidence: f32,
}

impl Golden {
    fn read(json: &Path) -> Self {
        let text =
            std::fs::read_to_string(json).unwrap_or_else(|error| panic!("{}: {error}", json.display()));
        let prompts =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", json.display()));
        Golden { prompts, vectors: Vectors::read(&json.with_extension("safetensors")) }
    }
}

/// A target and its drafter.
#[derive(Clone)]
struct Pair {
    target: ReferenceTarget,
    drafter: ReferenceDrafter,
}

impl Pair {
    fn load(target: &Path, drafter: &Path) -> Self {
        let target = TargetCheckpoint::open(target).expect("the target opens");
        let drafter = DrafterCheckpoint::open(drafter, target.config()).expect("the drafter opens");
        Pair {
            target: ReferenceTarget::load(&target).expect("the target loads"),
            drafter: ReferenceDrafter::load(&drafter).expect("the drafter loads"),
        }
    }
}

/// Compares everything that `golden` holds; the first difference is the error.
fn compare(pair: &Pair, golden: &Golden) -> Result<Largest, String> {
    let mut largest = Largest::default();
    for (name, prompt) in &golden.prompts {
        let in_prompt = |error| format!("{name}: {error}");
        compare_prompt(pair, golden, name, &mut largest).map_err(in_prompt)?;
        let reply = drafted(&pair.target, &pair.drafter, &prompt.prompt_ids, LIMIT);
        compare_reply(prompt, &reply, &mut largest).map_err(in_prompt)?;
        compare_block(golden, name, &reply.rounds[0], &mut largest).map_err(in_prompt)?;
    }
    Ok(largest)
}

/// The last row of the prompt: its logits and taps.
fn compare_prompt(pair: &Pair, golden: &Golden, name: &str, largest: &mut Largest) -> Result<(), String> {
    let prompt = &golden.prompts[name].prompt_ids;
    let output = pair.target.forward(&mut pair.target.start(), prompt, &pair.drafter.config.taps);
    let last = prompt.len() - 1;
    let logits = pair.target.logits(&output.hidden.slice(last..prompt.len()));
    let expected = golden.vectors.floats(&format!("{name}.first_logits"));
    keep(&mut largest.first_logits, close("first logits", &logits.values, &expected, TOLERANCE)?);
    let expected = golden.vectors.floats(&format!("{name}.taps_last"));
    let scale = expected.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
    let difference = close("taps", output.taps.row(last), &expected, TAP_TOLERANCE * scale)?;
    keep(&mut largest.taps, difference / scale);
    Ok(())
}

/// The first block: its rows and the logits of its first row.
fn compare_block(golden: &Golden, name: &str, round: &Round, largest: &mut Largest) -> Result<(), String> {
    let expected = golden.vectors.floats(&format!("{name}.draft_hidden"));
    let found = &round.draft.hidden.values;
    keep(&mut largest.draft_hidden, close("draft hidden", found, &expected, TOLERANCE)?);
    let expected = golden.vectors.floats(&format!("{name}.draft_first_logits"));
    let found = round.draft.base_logits.row(0);
    keep(&mut largest.draft_logits, close("draft logits", found, &expected, TOLERANCE)?);
    Ok(())
}

/// The drafted reply and its rounds.
fn compare_reply(golden: &GoldenPrompt, reply: &DraftedReply, largest: &mut Largest) -> Result<(), String> {
    equal("reply", tokens(&reply.picks), golden.greedy_ids.clone())?;
    keep(&mut largest.margins, close("margins", &margins(&reply.picks), &golden.margins, MARGIN_TOLERANCE)?);
    for (round, golden) in reply.rounds.iter().zip(&golden.rounds) {
        let position = round.position;
        equal("position", position, golden.position)?;
        equal(&format!("drafts at {position}"), round.draft.tokens(), golden.drafts.clone())?;
        equal(&format!("accepted at {position}"), round.accepted, golden.accepted)?;
        let found = margins(&round.draft.picks);
        keep(&mut largest.draft_margins, close("draft margins", &found, &golden.margins, MARGIN_TOLERANCE)?);
        let found = &round.draft.confidence;
        keep(&mut largest.confidence, close("confidence", found, &golden.confidence, CONFIDENCE_TOLERANCE)?);
    }
    equal("rounds", reply.rounds.len(), golden.rounds.len())
}

fn keep(largest: &mut f32, difference: f32) {
    *largest = largest.max(difference);
}

fn tokens(picks: &[Pick]) -> Vec<u32> {
    picks.iter().map(|pick| pick.token).collect()
}

fn margins(picks: &[Pick]) -> Vec<f32> {
    picks.iter().map(|pick| pick.margin).collect()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn in_repository() -> (Pair, Golden) {
    let demo = workspace().join("assets/demo");
    let pair = Pair::load(&demo.join("target"), &demo.join("drafter"));
    (pair, Golden::read(&demo.join("golden/target.json")))
}

/// llama.cpp#25792: as many drafts are accepted in each round as by another implementation.
#[test]
fn the_quantized_demo_pair_equals_its_golden_vectors() {
    let (pair, golden) = in_repository();
    let largest = compare(&pair, &golden).expect("equal to the golden vectors");
    println!("largest differences: {largest:?}");
}

#[test]
fn the_bf16_demo_pair_equals_its_golden_vectors() {
    let shared = workspace().join("../shared/demo");
    let target = shared.join("demo-target");
    if !target.exists() {
        println!("skipped: {} is not here", target.display());
        return;
    }
    let pair = Pair::load(&target, &shared.join("demo-drafter"));
    let golden = Golden::read(&shared.join("golden/demo-target.json"));
    let largest = compare(&pair, &golden).expect("equal to the golden vectors");
    println!("largest differences: {largest:?}");
}

#[test]
fn plain_replies_are_the_golden_ones_and_judged_without_a_gap() {
    let (pair, golden) = in_repository();
    for name in ["chat", "json", "unicode", "one_token"] {
        let prompt = &golden.prompts[name];
        let reply = greedy(&pair.target, &prompt.prompt_ids, LIMIT);
        assert_eq!(tokens(&reply), prompt.greedy_ids, "{name}");
        for (judgement, pick) in
            judge(&pair.target, &prompt.prompt_ids, &prompt.greedy_ids).iter().zip(&reply)
        {
            assert_eq!((judgement.pick, judgement.gap), (*pick, 0.0), "{name}");
        }
    }
}

#[test]
fn a_foreign_token_is_judged_by_the_gap_to_the_pick() {
    let (pair, golden) = in_repository();
    let prompt = &golden.prompts["math"];
    let mut reply = prompt.greedy_ids[..4].to_vec();
    let logits = golden.vectors.floats("math.first_logits");
    reply[0] = 48;
    let judgements = judge(&pair.target, &prompt.prompt_ids, &reply);
    assert_eq!(judgements.len(), 4);
    assert_eq!((judgements[0].token, judgements[0].pick.token), (48, prompt.greedy_ids[0]));
    let gap = logits[prompt.greedy_ids[0] as usize] - logits[48];
    assert!((judgements[0].gap - gap).abs() < TOLERANCE, "{} and {gap}", judgements[0].gap);
}

#[test]
fn half_split_pairs_of_a_permuted_drafter_draft_the_same() {
    let (mut pair, mut golden) = in_repository();
    golden.prompts.retain(|name, _| name == "json");
    pair.drafter.config.rope_is_neox_style = true;
    for layer in &mut pair.drafter.layers {
        let head_dim = layer.query_norm.len();
        let columns = layer.query.inputs;
        halve(&mut layer.query.values, head_dim, columns);
        halve(&mut layer.key.values, head_dim, columns);
        halve(&mut layer.query_norm, head_dim, 1);
        halve(&mut layer.key_norm, head_dim, 1);
    }
    compare(&pair, &golden).expect("equal to the golden vectors");
}

/// Moves the even rows of each head before its odd ones.
fn halve(values: &mut [f32], head_dim: usize, columns: usize) {
    for head in values.chunks_exact_mut(head_dim * columns) {
        let rows: Vec<Vec<f32>> = head.chunks_exact(columns).map(<[f32]>::to_vec).collect();
        let permuted = rows.iter().step_by(2).chain(rows.iter().skip(1).step_by(2));
        for (row, permuted) in head.chunks_exact_mut(columns).zip(permuted) {
            row.copy_from_slice(permuted);
        }
    }
}

#[test]
fn damaged_weights_do_not_pass() {
    let (pair, golden) = in_repository();
    for (fault, damage) in FAULTS {
        let mut damaged = pair.clone();
        damage(&mut damaged);
        match compare(&damaged, &golden) {
            Ok(largest) => panic!("{fault} passed: {largest:?}"),
            Err(difference) => println!("{fault}: {difference}"),
        }
    }
}

/// A fault's name and what it does to a pair.
type Fault = (&'static str, fn(&mut Pair));

/// Mistakes that an implementation could make, as changes of weights or configuration.
const FAULTS: &[Fault] = &[
    ("expert bias left out", |pair| each_mixture(pair, |mixture| mixture.bias.fill(0.0))),
    ("expert bias on the next expert", |pair| each_mixture(pair, |mixture| mixture.bias.rotate_left(1))),
    ("picked weights not divided by their sum", |pair| routing(pair).normalize = false),
    ("one expert fewer", |pair| routing(pair).picks -= 1),
    ("routed scale", |pair| routing(pair).scale = 1.01),
    ("gate and up exchanged", |pair| {
        each_mixture(pair, |mixture| {
            mixture.experts.iter_mut().for_each(|expert| std::mem::swap(&mut expert.gate, &mut expert.up));
        });
    }),
    ("convolution in reverse", |pair| {
        each_conv(pair, |conv| conv.kernel.chunks_exact_mut(3).for_each(<[f32]>::reverse));
    }),
    ("convolution without the position before", |pair| {
        each_conv(pair, |conv| conv.kernel.chunks_exact_mut(3).for_each(|kernel| kernel[1] = 0.0));
    }),
    ("C and x exchanged", |pair| {
        each_conv(pair, |conv| {
            let third = conv.input.values.len() / 3;
            conv.input.values[third..].rotate_left(third);
        });
    }),
    ("target rope base", |pair| pair.target.config.rope_theta *= 2.0),
    ("norm epsilon", |pair| pair.target.config.norm_epsilon = 1e-3),
    ("final norm left out", |pair| pair.target.final_norm.fill(1.0)),
    ("drafter rope pairs", |pair| pair.drafter.config.rope_is_neox_style = true),
    ("drafter rope base", |pair| pair.drafter.config.rope_theta *= 2.0),
    ("taps one layer early", |pair| pair.drafter.config.taps.iter_mut().for_each(|tap| *tap -= 1)),
    ("context norm left out", |pair| pair.drafter.hidden_norm.fill(1.0)),
    ("mask token", |pair| pair.drafter.config.mask_token += 1),
    ("block one row short", |pair| pair.drafter.config.block -= 1),
    ("Markov bias left out", |pair| pair.drafter.markov_next.values.fill(0.0)),
    ("confidence without the previous token", |pair| {
        let hidden = pair.drafter.config.hidden;
        confidence(pair).0[hidden..].fill(0.0);
    }),
    ("confidence without its bias", |pair| confidence(pair).1 = 0.0),
];

fn routing(pair: &mut Pair) -> &mut MixtureConfig {
    pair.target.config.mixture.as_mut().expect("a mixture")
}

fn confidence(pair: &mut Pair) -> &mut (Vec<f32>, f32) {
    pair.drafter.confidence.as_mut().expect("a confidence head")
}

fn each_mixture(pair: &mut Pair, change: impl Fn(&mut Mixture)) {
    for layer in &mut pair.target.layers {
        if let FeedForward::Mixture(mixture) = &mut layer.feed_forward {
            change(mixture);
        }
    }
}

fn each_conv(pair: &mut Pair, change: impl Fn(&mut Conv)) {
    for layer in &mut pair.target.layers {
        if let Operator::Conv(conv) = &mut layer.operator {
            change(conv);
        }
    }
}
