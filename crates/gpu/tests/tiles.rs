//! Products around the numbers of rows from which another kernel takes them, and where its last tile begins, is half full
//! and ends: the bits of each row alone. The suites' forwards have all kernels; these have all edges.

mod support;

use forerunner_gpu::{GpuDevice, GpuOptions, Matrix};
use forerunner_tensor::{Device, DeviceError, HostMatrix, MatrixValues, bf16};

/// So many that sums have 32 lanes, and one lane a chunk more.
const INPUTS: usize = 33 * 32;
const OUTPUTS: usize = 70;
const MOST_ROWS: usize = 193;
const COUNTS: [usize; 14] = [2, 4, 5, 8, 9, 127, 128, 129, 159, 160, 161, 191, 192, MOST_ROWS];

fn values(len: usize, step: usize) -> Vec<bf16> {
    (0..len).map(|index| bf16::from_f32((index * step % 1021) as f32 / 512.0 - 1.0)).collect()
}

/// The bits of the first `count` rows' sums.
fn sums(device: &GpuDevice, matrix: &Matrix, rows: &[bf16]) -> Result<Vec<u32>, DeviceError> {
    let count = rows.len() / INPUTS;
    let mut x = device.allocate(rows.len())?;
    device.upload(&mut x, 0, rows);
    let mut out = device.allocate(count * OUTPUTS)?;
    device.logits(matrix, &x, count, &mut out);
    let mut sums = vec![0.0f32; count * OUTPUTS];
    device.download(&out, 0, &mut sums)?;
    Ok(sums.into_iter().map(f32::to_bits).collect())
}

/// The first row whose sums are not those that it has alone.
fn first_difference(alone: &[u32], together: &[u32]) -> Option<usize> {
    together.iter().zip(alone).position(|(together, alone)| together != alone).map(|at| at / OUTPUTS)
}

#[test]
fn every_kernel_makes_the_sums_of_a_row_alone() -> Result<(), DeviceError> {
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    let weights = MatrixValues::Bf16(values(OUTPUTS * INPUTS, 7).into());
    let matrix = device.load_matrix(&[HostMatrix { rows: OUTPUTS, columns: INPUTS, values: weights }])?;
    let rows = values(MOST_ROWS * INPUTS, 11);
    let mut alone = Vec::new();
    for row in rows.chunks_exact(INPUTS) {
        alone.extend(sums(&device, &matrix, row)?);
    }
    for count in COUNTS {
        let together = sums(&device, &matrix, &rows[..count * INPUTS])?;
        assert_eq!(first_difference(&alone, &together), None, "the first differing row of {count}");
    }
    // A neighbour's inputs in a row's place are noticed.
    let mut planted = rows[..128 * INPUTS].to_vec();
    planted.copy_within(0..INPUTS, 127 * INPUTS);
    assert_eq!(first_difference(&alone, &sums(&device, &matrix, &planted)?), Some(127));
    Ok(())
}
