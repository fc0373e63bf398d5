//! What is grown computes what its base computes: the same tokens, drafts, accepted counts, and picks but for copies.

use forerunner_reference::math::rms_norm_rows;
use forerunner_reference::target::{FeedForward, route};
use forerunner_reference::{Pick, ReferenceTarget, Round, Rows, drafted};
use forerunner_synth::Copies;

use crate::support::{LIMIT, Pair, Prompt, grown, prompts};

/// Copies of each expert in the shape `mid`.
pub(crate) const COPIES: usize = 2;

/// Largest difference of a logit: the rows that stand for two are rounded anew in 4 bits.
const TOLERANCE: f32 = 0.25;

/// Experts by layer and row.
pub(crate) type Picks = Vec<Vec<Vec<usize>>>;

/// The experts that every row picks.
pub(crate) fn picks(target: &ReferenceTarget, tokens: &[u32]) -> Picks {
    let config = target.config.mixture.as_ref().expect("a mixture");
    let mut picks = Vec::new();
    let mut observe = |index: usize, x: &Rows| {
        let layer = &target.layers[index];
        if let FeedForward::Mixture(mixture) = &layer.feed_forward {
            let normed = rms_norm_rows(x, &layer.ffn_norm, target.config.norm_epsilon);
            let of_row = |logits: &[f32]| {
                route(config, logits, &mixture.bias).into_iter().map(|(expert, _)| expert).collect()
            };
            picks.push(mixture.router.apply(&normed).iter().map(of_row).collect());
        }
    };
    target.observed(&mut target.start(), tokens, &[], &mut observe);
    picks
}

/// Compares logits and picks along `prompt`; the first difference is the error.
pub(crate) fn compare(
    base: &ReferenceTarget,
    grown: &ReferenceTarget,
    prompt: &Prompt,
) -> Result<(), String> {
    let tokens = &prompt.prompt;
    let known = base.config.vocabulary;
    let logits =
        |target: &ReferenceTarget| target.logits(&target.forward(&mut target.start(), tokens, &[]).hidden);
    for (position, (base, grown)) in logits(base).iter().zip(logits(grown).iter()).enumerate() {
        let differences = base.iter().zip(grown).map(|(base, grown)| (base - grown).abs());
        let largest = differences.max_by(f32::total_cmp).unwrap_or(f32::NAN);
        if largest.is_nan() || largest > TOLERANCE {
            return Err(format!("logits at {position} differ by {largest}"));
        }
        let highest = |logits: &[f32]| logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (unknown, picked) = (highest(&grown[known..]), highest(base));
        if unknown > picked - 15.0 {
            return Err(format!("at {position} an unknown token has the logit {unknown}, the pick {picked}"));
        }
    }
    let copies = Copies::new(COPIES, None).expect("even");
    let experts = base.config.mixture.as_ref().map_or(0, |mixture| mixture.experts);
    let of_copy = |picks: &[Vec<usize>]| -> Vec<Vec<usize>> {
        let row = |(picks, token): (&Vec<usize>, &u32)| {
            picks.iter().map(|expert| expert + experts * copies.of(*token)).collect()
        };
        picks.iter().zip(tokens).map(row).collect()
    };
    let found = picks(grown, tokens);
    let expected: Vec<_> = picks(base, tokens).iter().map(|layer| of_copy(layer)).collect();
    // Where layers are too many, the base's are among the grown ones in their order.
    let mut rest = found.iter();
    match expected.iter().all(|expected| rest.any(|found| found == expected)) {
        true => Ok(()),
        false => Err("picks differ by more than copies".into()),
    }
}

#[test]
fn tokens_drafts_and_accepted_counts_are_the_bases() {
    let base = Pair::base();
    let (target, drafter) = grown("mid");
    let grown = Pair::load(&target, &drafter);
    for prompt in prompts().iter().filter(|prompt| ["json", "chat"].contains(&prompt.name.as_str())) {
        compare(&base.target, &grown.target, prompt)
            .unwrap_or_else(|error| panic!("{}: {error}", prompt.name));
        let expected = drafted(&base.target, &base.drafter, &prompt.prompt, LIMIT);
        let found = drafted(&grown.target, &grown.drafter, &prompt.prompt, LIMIT);
        let tokens = |picks: &[Pick]| -> Vec<u32> { picks.iter().map(|pick| pick.token).collect() };
        assert_eq!(tokens(&found.picks), tokens(&expected.picks), "{}", prompt.name);
        let accepted = |rounds: &[Round]| -> Vec<(usize, usize)> {
            rounds.iter().map(|round| (round.position, round.accepted)).collect()
        };
        assert_eq!(accepted(&found.rounds), accepted(&expected.rounds), "{}", prompt.name);
        let drafts = expected.rounds.iter().flat_map(|round| round.draft.tokens());
        let same = drafts.zip(found.rounds.iter().flat_map(|round| round.draft.tokens()));
        let (same, all) = same.fold((0, 0), |(same, all), (a, b)| (same + usize::from(a == b), all + 1));
        println!(
            "{}: {} tokens, {} rounds, {same} of {all} drafts",
            prompt.name,
            found.picks.len(),
            found.rounds.len()
        );
        assert!(same * 20 >= all * 19, "{same} of {all} drafts");
    }
}
