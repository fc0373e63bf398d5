//! How many bytes a decoded token reads, and how fast this machine reads as many.

use std::time::Instant;

use forerunner_checkpoint::{FeedForwardWeights, OperatorWeights, TargetCheckpoint};
use forerunner_tensor::{HostMatrix, MatrixValues};

/// Reads of which the fastest counts.
const READS: usize = 20;

/// Bytes of weights that one plain decode step reads: every matrix once, of the experts those that are picked.
pub(crate) fn decode_bytes(checkpoint: &TargetCheckpoint) -> anyhow::Result<usize> {
    let mut total = bytes(&checkpoint.embedding()?);
    for index in 0..checkpoint.config().layers.len() {
        total += layer_bytes(checkpoint, index)?;
    }
    Ok(total)
}

fn layer_bytes(checkpoint: &TargetCheckpoint, index: usize) -> anyhow::Result<usize> {
    let weights = checkpoint.layer(index)?;
    let operator = match &weights.operator {
        OperatorWeights::Attention { query, key, value, output, .. } => {
            bytes(query) + bytes(key) + bytes(value) + bytes(output)
        }
        OperatorWeights::Conv { input, output, .. } => bytes(input) + bytes(output),
    };
    let feed_forward = match weights.feed_forward {
        FeedForwardWeights::Dense { gate, up, down } => bytes(&gate) + bytes(&up) + bytes(&down),
        FeedForwardWeights::Experts { router, mut experts, .. } => {
            let picks = checkpoint.config().mixture.as_ref().map_or(0, |mixture| mixture.picks);
            let expert = experts
                .next()
                .map_or(0, |expert| bytes(&expert.gate) + bytes(&expert.up) + bytes(&expert.down));
            bytes(&router) + picks * expert
        }
    };
    Ok(operator + feed_forward)
}

fn bytes(matrix: &HostMatrix<'_>) -> usize {
    match &matrix.values {
        MatrixValues::Bf16(values) => 2 * values.len(),
        MatrixValues::F16(values) => 2 * values.len(),
        MatrixValues::F32(values) => 4 * values.len(),
        MatrixValues::Affine(values) => {
            4 * values.words.len() + 2 * (values.scales.len() + values.biases.len())
        }
    }
}

/// Fastest of some reads of `bytes` bytes by `threads` threads, in seconds.
pub(crate) fn read_seconds(bytes: usize, threads: usize) -> f64 {
    let words: Vec<u64> = (0..bytes as u64 / 8).collect();
    let parts: Vec<&[u64]> = words.chunks(words.len().div_ceil(threads)).collect();
    (0..READS).map(|_| read_once(&parts)).fold(f64::MAX, f64::min)
}

/// Reads all parts at once; seconds of the slowest, so that starting threads does not count.
fn read_once(parts: &[&[u64]]) -> f64 {
    let barrier = std::sync::Barrier::new(parts.len());
    std::thread::scope(|scope| {
        let read = |part: &'_ &[u64]| {
            barrier.wait();
            let started = Instant::now();
            let sums = part.chunks_exact(32).fold([0u64; 32], |mut sums, chunk| {
                for (sum, word) in sums.iter_mut().zip(chunk) {
                    *sum ^= word;
                }
                sums
            });
            std::hint::black_box(sums);
            started.elapsed().as_secs_f64()
        };
        let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || read(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader")).fold(0.0, f64::max)
    })
}
