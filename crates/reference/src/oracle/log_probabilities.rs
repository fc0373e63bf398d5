//! Log-probabilities of a row's draw and of its likeliest tokens.

use forerunner_tensor::ALTERNATIVES;

/// One row of [`Device::log_probabilities`](forerunner_tensor::Device::log_probabilities), of the row `logits`.
pub(super) fn log_probabilities(logits: &[f32], drawn: i32, tokens: &mut [i32], values: &mut [f32]) {
    let highest = logits.iter().fold(f32::NEG_INFINITY, |highest, value| highest.max(*value));
    let mut sum = 0.0;
    for value in logits {
        sum += (value - highest).exp();
    }
    // Adding 0 makes -0 a 0: they are equal, and a tie.
    let value = |token: usize| logits[token] + 0.0;
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|left, right| value(*right).total_cmp(&value(*left)).then(left.cmp(right)));
    let alternatives = order.into_iter().map(|token| token as i32).chain(std::iter::repeat(-1));
    let named = std::iter::once(drawn).chain(alternatives.take(ALTERNATIVES));
    for ((token, value), named) in tokens.iter_mut().zip(values).zip(named) {
        *token = named;
        let logit = usize::try_from(named).map_or(f32::NEG_INFINITY, |token| logits[token]);
        *value = (logit - highest) - sum.ln();
    }
}
