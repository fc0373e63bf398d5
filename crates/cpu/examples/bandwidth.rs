//! How fast projections read their weights, beside a plain read of as many bytes.
//!
//!     cargo run --release -p forerunner-cpu --example bandwidth [MEBIBYTES] [MODE]

use std::hint::black_box;
use std::time::Instant;

use forerunner_cpu::{Buffer, CpuDevice, CpuOptions, Matrix, Mode};
use forerunner_tensor::{AffineValues, Device, HostMatrix, MatrixValues, Scales, bf16};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(8, |text| text.parse().expect("a number of MiB"));
    let mode: Option<Mode> =
        arguments.next().map(|text| text.parse().unwrap_or_else(|error| panic!("{error}")));
    for threads in [1, 2] {
        let device = CpuDevice::new(CpuOptions { mode, threads: Some(threads) }).expect("the device starts");
        let plain = plain_read(megabytes << 20, threads);
        println!("mode {}, {threads} threads, {megabytes} MiB of weights", device.mode());
        println!("  plain read {plain:.1} GB/s");
        for bits in [4, 8, 16] {
            for columns in [256, 768, 2048] {
                report(&device, bits, columns, megabytes << 20, plain);
            }
        }
    }
}

/// One line: GB/s of stored weights for 1, 4, 10 and 32 rows, and the share of a plain read at one row.
fn report(device: &CpuDevice, bits: u32, columns: usize, bytes: usize, plain: f64) {
    let row_bytes = if bits == 16 { columns * 2 } else { columns * bits as usize / 8 + columns / 64 * 4 };
    let rows = bytes / row_bytes;
    let matrix = device.load_matrix(&[weights(rows, columns, bits)]).expect("the matrix fits");
    let stored = (rows * row_bytes) as f64;
    let rates = [1, 4, 10, 32].map(|count| stored / time(device, &matrix, count) / 1e9);
    let text: Vec<String> = rates.iter().map(|rate| format!("{rate:6.1}")).collect();
    println!(
        "  {bits:2} bits, K {columns:4}: {} GB/s with 1, 4, 10, 32 rows; {:3.0}% of the plain read",
        text.join(" "),
        100.0 * rates[0] / plain
    );
}

fn weights(rows: usize, columns: usize, bits: u32) -> HostMatrix<'static> {
    let mut state = 1u32;
    let mut word = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state
    };
    let values = if bits == 16 {
        let value = |_| bf16::from_f32((word() >> 16) as f32 * 1e-5 - 0.3);
        MatrixValues::Bf16((0..rows * columns).map(value).collect())
    } else {
        let scales = || Scales::Bf16(vec![bf16::from_f32(0.01); rows * columns / 64].into());
        let words = (0..rows * columns * bits as usize / 32).map(|_| word()).collect();
        MatrixValues::Affine(AffineValues { bits, group_size: 64, words, scales: scales(), biases: scales() })
    };
    HostMatrix { rows, columns, values }
}

/// Seconds of the fastest of several products with `count` rows.
fn time(device: &CpuDevice, matrix: &Matrix, count: usize) -> f64 {
    let mut x = device.allocate(count * matrix.columns()).expect("x fits");
    x.fill(bf16::from_f32(0.5));
    let mut out: Buffer<bf16> = device.allocate(count * matrix.rows()).expect("sums fit");
    fastest(|| device.linear(matrix, &x, count, &mut out))
}

fn fastest(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..30 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// GB/s of summing words that every thread has a share of.
fn plain_read(bytes: usize, threads: usize) -> f64 {
    let words = vec![1u64; bytes / 8];
    let share = words.len() / threads;
    let seconds = std::thread::scope(|scope| {
        let work = |part: &[u64]| {
            fastest(|| {
                black_box(sum(part));
            })
        };
        let others: Vec<_> =
            words[share..].chunks(share).map(|part| scope.spawn(move || work(part))).collect();
        let mine = work(&words[..share]);
        others.into_iter().map(|other| other.join().expect("a reader ends")).fold(mine, f64::max)
    });
    bytes as f64 / seconds / 1e9
}

/// Independent sums, so that the adds do not bound the loads.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0u64; 32];
    for block in words.as_chunks::<32>().0 {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(0, |total, sum| total.wrapping_add(*sum))
}
