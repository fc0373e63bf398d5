//! The measured sizes of the residual stream that the gates are made for.

use forerunner_reference::Rows;
use forerunner_synth::{ResidualSize, residual_size};

use crate::support::{Pair, prompts};

/// The sizes of the middle and of the largest row.
fn summary(mut sizes: Vec<f32>) -> ResidualSize {
    sizes.sort_by(f32::total_cmp);
    ResidualSize { median: sizes[sizes.len() / 2], max: sizes[sizes.len() - 1] }
}

fn size(row: &[f32]) -> f32 {
    (row.iter().map(|value| value * value).sum::<f32>() / row.len() as f32).sqrt()
}

#[test]
fn the_gates_are_made_for_the_residual_stream_as_it_is() {
    let target = Pair::base().target;
    let layers = target.layers.len();
    let taps: Vec<usize> = (0..layers).collect();
    let (mut before, mut after) = (vec![Vec::new(); layers], vec![Vec::new(); layers]);
    for prompt in prompts() {
        let tokens = [prompt.prompt, prompt.reply].concat();
        let mut observe = |layer: usize, x: &Rows| before[layer].extend(x.iter().map(size));
        let output = target.observed(&mut target.start(), &tokens, &taps, &mut observe);
        for row in output.taps.iter() {
            for (after, row) in after.iter_mut().zip(row.chunks_exact(target.config.hidden)) {
                after.push(size(row));
            }
        }
    }
    let found = [before, after].map(|sizes| sizes.into_iter().map(summary).collect::<Vec<ResidualSize>>());
    println!("before the feed-forwards, after the layers: {found:?}");
    for (is_after, found) in [false, true].into_iter().zip(found) {
        for (layer, found) in found.iter().enumerate() {
            let recorded = residual_size(layer, is_after);
            let close = |recorded: f32, found: f32| (recorded / found - 1.0).abs() < 0.2;
            let both = close(recorded.median, found.median) && close(recorded.max, found.max);
            assert!(both, "layer {layer}: recorded {recorded:?}, found {found:?}");
        }
    }
}
