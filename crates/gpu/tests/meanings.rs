//! What codes mean, each by itself, in every kernel of a product: a row that is one in one place and zero elsewhere has the
//! weights of that place as its sums.

mod support;

use forerunner_gpu::{GpuDevice, GpuOptions, Matrix};
use forerunner_tensor::{AffineValues, Device, DeviceError, HostMatrix, MatrixValues, Scales, bf16, f16};

const INPUTS: usize = 64;
const OUTPUTS: usize = 68;
const GROUP: usize = 32;
const GROUPS: usize = OUTPUTS * INPUTS / GROUP;
/// One for each kernel.
const COUNTS: [usize; 4] = [1, 4, 8, 128];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 32) as u32) % end
    }

    /// With a mantissa of 8 bits, and an exponent of at most `most` and as little below 0.
    fn value(&mut self, most: i32) -> f32 {
        let exponent = self.below(2 * most as u32 + 1) as i32 - most;
        let mantissa = 128 + self.below(128);
        let sign = if self.below(2) == 0 { 1.0 } else { -1.0 };
        sign * mantissa as f32 / 128.0 * 2f32.powi(exponent)
    }

    /// Scales and biases, near enough to each other that both count; zeros, and numbers whose sums are ties.
    fn groups(&mut self, most: i32) -> Vec<(f32, f32)> {
        (0..GROUPS)
            .map(|group| match group % 8 {
                0 => (1.0, 256.0),
                1 => (-1.0, -256.0),
                2 => (0.0, self.value(most)),
                3 => (self.value(most), 0.0),
                4 => (self.value(most), self.value(most)),
                _ => {
                    let scale = self.value(most);
                    (scale, -scale * self.below(16) as f32)
                }
            })
            .map(|(scale, bias)| (bf16::from_f32(scale).to_f32(), bf16::from_f32(bias).to_f32()))
            .collect()
    }
}

fn loaded(
    device: &GpuDevice,
    bits: u32,
    words: &[u32],
    scales: Scales<'static>,
    biases: Scales<'static>,
) -> Result<Matrix, DeviceError> {
    let values = AffineValues { bits, group_size: GROUP, words: words.to_vec().into(), scales, biases };
    device.load_matrix(&[HostMatrix { rows: OUTPUTS, columns: INPUTS, values: MatrixValues::Affine(values) }])
}

fn code(words: &[u32], bits: u32, index: usize) -> u32 {
    let in_word = 32 / bits as usize;
    words[index / in_word] >> (index % in_word * bits as usize) & ((1 << bits) - 1)
}

/// Weights by output and input, as sums of `count` rows at a time.
fn weights(device: &GpuDevice, matrix: &Matrix, count: usize) -> Result<Vec<f32>, DeviceError> {
    let mut found = vec![0.0; OUTPUTS * INPUTS];
    let mut x = device.allocate(count * INPUTS)?;
    let mut sums = device.allocate(count * OUTPUTS)?;
    for first in (0..INPUTS).step_by(count) {
        let mut rows = vec![bf16::ZERO; count * INPUTS];
        (0..count).for_each(|row| rows[row * INPUTS + (first + row) % INPUTS] = bf16::ONE);
        device.upload(&mut x, 0, &rows);
        device.logits(matrix, &x, count, &mut sums);
        let mut values = vec![0f32; count * OUTPUTS];
        device.download(&sums, 0, &mut values)?;
        for (index, value) in values.into_iter().enumerate() {
            found[index % OUTPUTS * INPUTS + (first + index / OUTPUTS) % INPUTS] = value;
        }
    }
    Ok(found)
}

/// Asserts the weights of `groups` in every kernel; for what `meaning` says.
fn check(
    device: &GpuDevice,
    half: bool,
    groups: &[(f32, f32)],
    meaning: impl Fn(f32, f32, f32) -> f32,
) -> Result<(), DeviceError> {
    for bits in [4, 8] {
        let mut random = Random(u64::from(bits));
        let words: Vec<u32> =
            (0..OUTPUTS * INPUTS * bits as usize / 32).map(|_| random.below(u32::MAX)).collect();
        let stored = |values: Vec<f32>| {
            if half {
                Scales::F16(values.into_iter().map(f16::from_f32).collect())
            } else {
                Scales::Bf16(values.into_iter().map(bf16::from_f32).collect())
            }
        };
        let scales = stored(groups.iter().map(|group| group.0).collect());
        let biases = stored(groups.iter().map(|group| group.1).collect());
        let matrix = loaded(device, bits, &words, scales, biases)?;
        for count in COUNTS {
            for (index, found) in weights(device, &matrix, count)?.into_iter().enumerate() {
                let (scale, bias) = groups[index / GROUP];
                let code = code(&words, bits, index);
                let expected = meaning(scale, code as f32, bias);
                assert!(
                    found == expected,
                    "{bits} bits, {count} rows: {scale} * {code} + {bias} is {expected}, not {found}"
                );
            }
        }
    }
    Ok(())
}

fn rounded(scale: f32, code: f32, bias: f32) -> f32 {
    bf16::from_f32(scale.mul_add(code, bias)).to_f32()
}

#[test]
fn codes_mean_what_the_contract_says() -> Result<(), DeviceError> {
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    check(&device, false, &Random(1).groups(90), rounded)?;
    check(&device, false, &Random(2).groups(6), rounded)?;
    check(&device, true, &Random(3).groups(4), rounded)
}

/// Such scales and biases are below anything that a checkpoint has; what they mean must be no number that is not small.
#[test]
fn tiny_scales_and_biases_mean_zero() -> Result<(), DeviceError> {
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    let tiny: Vec<(f32, f32)> = (0..GROUPS)
        .map(|group| (f32::from_bits((group as u32 % 27) << 23 | 0x10000), f32::from_bits(0x10000)))
        .collect();
    check(&device, false, &tiny, |_, _, _| 0.0)
}

/// A code that is read as another is noticed.
#[test]
#[should_panic(expected = "4 bits, 1 rows")]
fn another_meaning_is_noticed() {
    let Some(device) = support::device(&GpuOptions::default()) else { panic!("4 bits, 1 rows: no adapter") };
    let cut = |scale: f32, code: f32, bias: f32| {
        // Cut off, not rounded.
        f32::from_bits(scale.mul_add(code, bias).to_bits() & 0xffff_0000)
    };
    check(&device, false, &Random(1).groups(6), cut).expect("it runs");
}
