//! How many experts rows touch together, which is what the skew sets.

use std::collections::BTreeSet;

use forerunner_synth::Copies;

use crate::function::{Picks, picks};
use crate::support::{Pair, prompts};

/// The mean number of distinct experts that `width` rows in a row pick,
/// where each of `copies` copies has the base's experts.
fn spread(texts: &[(Vec<u32>, Picks)], copies: Copies, width: usize) -> f64 {
    let mut counts = Vec::new();
    for (tokens, layers) in texts {
        for layer in layers {
            let rows: Vec<Vec<usize>> = layer
                .iter()
                .zip(tokens)
                .map(|(picks, token)| picks.iter().map(|expert| copies.of(*token) * 16 + expert).collect())
                .collect();
            for window in rows.windows(width) {
                counts.push(window.iter().flatten().collect::<BTreeSet<_>>().len() as f64);
            }
        }
    }
    counts.iter().sum::<f64>() / counts.len() as f64
}

#[test]
fn distinct_experts_fall_with_the_skew() {
    let target = Pair::base().target;
    let text = |prompt: crate::support::Prompt| {
        let tokens = [prompt.prompt, prompt.reply].concat();
        let layers = picks(&target, &tokens);
        (tokens, layers)
    };
    let texts: Vec<_> = prompts().into_iter().map(text).collect();
    let measured = |count: usize, skew: Option<f64>| {
        let copies = Copies::new(count, skew).expect("a skew");
        let experts = [1, 4, 10, 16].map(|width| spread(&texts, copies, width));
        let neighbours = || texts.iter().flat_map(|(tokens, _)| tokens.windows(2));
        let same = neighbours().filter(|pair| copies.of(pair[0]) == copies.of(pair[1])).count();
        let shared = same as f64 / neighbours().count() as f64;
        println!(
            "{count} copies, {skew:?}: {experts:.2?} by 1, 4, 10 and 16 rows; neighbours share a copy {shared:.3}"
        );
        (experts, shared)
    };
    measured(1, None);
    measured(2, None);
    let (even, even_share) = measured(4, None);
    let (skewed, skewed_share) = measured(4, Some(0.4));
    let (all, _) = measured(4, Some(1.0));
    assert_eq!((even[0], skewed[0]), (4.0, 4.0));
    assert!((23.0..29.0).contains(&even[2]), "{even:?}");
    assert!(skewed[2] < even[2] && all[2] < 14.0, "{skewed:?} {all:?}");
    assert!(
        (0.20..0.28).contains(&even_share) && (0.26..0.34).contains(&skewed_share),
        "{even_share} {skewed_share}"
    );
}
