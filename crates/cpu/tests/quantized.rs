//! Bits that must not move: a quantized matrix and its dequantized twin, a row alone and among others.

use forerunner_cpu::{CpuDevice, CpuOptions, Mode};
use forerunner_tensor::{
    AffineValues, Device, ExpertWeights, HostMatrix, MatrixValues, Routing, Rows, Scales, bf16,
};

/// Random numbers from a fixed seed.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    fn value(&mut self) -> f32 {
        (self.word() % 20_001) as f32 * 1e-4 - 1.0
    }

    fn values(&mut self, len: usize) -> Vec<bf16> {
        (0..len).map(|_| bf16::from_f32(self.value())).collect()
    }

    fn affine(&mut self, rows: usize, columns: usize, bits: u32, group_size: usize) -> HostMatrix<'static> {
        let words =
            (0..rows * columns * bits as usize / 32).map(|_| self.word() ^ self.word() << 16).collect();
        let groups = rows * columns / group_size;
        let scales = (0..groups).map(|_| bf16::from_f32(self.value() * 0.02)).collect::<Vec<_>>();
        let biases = self.values(groups);
        let (scales, biases) = (Scales::Bf16(scales.into()), Scales::Bf16(biases.into()));
        let values = MatrixValues::Affine(AffineValues { bits, group_size, words, scales, biases });
        HostMatrix { rows, columns, values }
    }
}

fn twin(matrix: &HostMatrix<'_>) -> HostMatrix<'static> {
    let values = MatrixValues::Bf16(matrix.to_bf16().into());
    HostMatrix { rows: matrix.rows, columns: matrix.columns, values }
}

fn device(mode: Mode) -> CpuDevice {
    CpuDevice::new(CpuOptions { mode: Some(mode), threads: Some(2) }).expect("a supported mode starts")
}

fn logits(device: &CpuDevice, parts: &[HostMatrix<'_>], x: &[bf16], count: usize) -> Vec<f32> {
    let matrix = device.load_matrix(parts).unwrap();
    let mut input = device.allocate(x.len()).unwrap();
    device.upload(&mut input, 0, x);
    let mut out = device.allocate::<f32>(count * matrix.rows()).unwrap();
    device.logits(&matrix, &input, count, &mut out);
    out.to_vec()
}

const FORMATS: [(u32, usize); 6] = [(4, 32), (4, 64), (4, 128), (8, 32), (8, 64), (8, 128)];

#[test]
fn a_quantized_matrix_equals_its_dequantized_twin() {
    let mut random = Random(1);
    for mode in Mode::supported() {
        let device = device(mode);
        for (bits, group) in FORMATS {
            for (columns, rows, count) in
                [(group, 7, 1), (group * 3, 9, 3), (group * 10, 64, 5), (1024, 21, 13)]
            {
                let matrix = random.affine(rows, columns, bits, group);
                let x = random.values(count * columns);
                let quantized = logits(&device, std::slice::from_ref(&matrix), &x, count);
                let dense = logits(&device, &[twin(&matrix)], &x, count);
                assert_eq!(
                    quantized, dense,
                    "{mode}: {bits} bits, groups of {group}, {rows} x {columns}, {count} rows"
                );
            }
        }
    }
}

#[test]
fn every_code_means_the_same_in_every_path() {
    // Scales over the whole range of exponents, with sums that need rounding and that cancel.
    let mut random = Random(2);
    for mode in Mode::supported() {
        let device = device(mode);
        for (bits, group) in FORMATS {
            let mut matrix = random.affine(32, 4 * group, bits, group);
            if let MatrixValues::Affine(values) = &mut matrix.values {
                let wide = |random: &mut Random| {
                    let value = random.value() * 2f32.powi((random.word() % 60) as i32 - 30);
                    if random.word().is_multiple_of(9) { bf16::ZERO } else { bf16::from_f32(value) }
                };
                let scales: Vec<bf16> = (0..32 * 4).map(|_| wide(&mut random)).collect();
                let biases =
                    scales.iter().map(|scale| bf16::from_f32(scale.to_f32() * -7.3)).collect::<Vec<_>>();
                values.scales = Scales::Bf16(scales.into());
                values.biases = Scales::Bf16(biases.into());
            }
            // One weight at a time: each row of x has a single one.
            let columns = matrix.columns;
            let mut x = vec![bf16::ZERO; columns * columns];
            x.iter_mut().step_by(columns + 1).for_each(|value| *value = bf16::ONE);
            for count in [1, 2, columns] {
                let found = logits(&device, std::slice::from_ref(&matrix), &x, count);
                let weights = matrix.to_bf16();
                for (index, value) in found.iter().enumerate() {
                    let (row, output) = (index / matrix.rows, index % matrix.rows);
                    let weight = weights[output * columns + row].to_f32();
                    assert!(*value == weight, "{mode}: {bits} bits, group {group}: {value} for {weight}");
                }
            }
        }
    }
}

/// Rows `0..count` of `all`, as the device computes them together.
type Together<'a> = &'a dyn Fn(&CpuDevice, usize) -> Vec<f32>;

/// The first row count whose rows differ from the same rows of a smaller forward.
fn first_difference(device: &CpuDevice, together: Together<'_>) -> Option<usize> {
    let most = together(device, 40);
    let width = most.len() / 40;
    (1..40).find(|&count| {
        let some = together(device, count);
        some[..count * width].iter().zip(&most).any(|(some, most)| some.to_bits() != most.to_bits())
    })
}

#[test]
fn rows_are_the_same_alone_and_among_forty() {
    let mut random = Random(3);
    for (bits, group) in [(4, 64), (8, 64), (0, 64)] {
        let mut matrix = random.affine(50, 320, bits.max(4), group);
        if bits == 0 {
            matrix = twin(&matrix);
        }
        let x = random.values(40 * 320);
        for mode in Mode::supported() {
            let linear = |device: &CpuDevice, count| logits(device, std::slice::from_ref(&matrix), &x, count);
            assert_eq!(first_difference(&device(mode), &linear), None, "{mode}, {bits} bits");
        }
    }
}

#[test]
fn a_planted_dependence_on_the_row_count_is_caught() {
    let mut random = Random(4);
    let matrix = random.affine(16, 256, 4, 64);
    let x = random.values(40 * 256);
    let planted = |device: &CpuDevice, count: usize| {
        let mut sums = logits(device, std::slice::from_ref(&matrix), &x, count);
        // As if wide forwards summed in another order: one unit in the last place of one sum.
        if count >= 7 {
            sums[100] = f32::from_bits(sums[100].to_bits() + 1);
        }
        sums
    };
    assert_eq!(first_difference(&device(Mode::Portable), &planted), None, "rows 1..7 do not hold sum 100");
    let planted = |device: &CpuDevice, count: usize| {
        let mut sums = logits(device, std::slice::from_ref(&matrix), &x, count);
        if count >= 7 {
            sums[5] = f32::from_bits(sums[5].to_bits() + 1);
        }
        sums
    };
    assert_eq!(first_difference(&device(Mode::Portable), &planted), Some(1));
}

#[test]
fn modes_agree_within_rounding() {
    let mut random = Random(5);
    let matrix = random.affine(64, 2048, 4, 64);
    let x = random.values(3 * 2048);
    let weights = twin(&matrix).to_bf16();
    let scale = |row: usize, output: usize| -> f32 {
        let products = weights[output * 2048..].iter().zip(&x[row * 2048..(row + 1) * 2048]);
        products.map(|(weight, x)| (weight.to_f32() * x.to_f32()).abs()).sum()
    };
    let portable = logits(&device(Mode::Portable), std::slice::from_ref(&matrix), &x, 3);
    for mode in Mode::supported() {
        let found = logits(&device(mode), std::slice::from_ref(&matrix), &x, 3);
        for (index, (found, expected)) in found.iter().zip(&portable).enumerate() {
            let bound = 1e-5 * scale(index / 64, index % 64);
            assert!((found - expected).abs() <= bound, "{mode}: {found} for {expected}");
        }
    }
}

/// The residual after the experts of one layer, for the first `count` rows.
fn experts(device: &CpuDevice, hosts: &[[HostMatrix<'static>; 3]], x: &[bf16], count: usize) -> Vec<f32> {
    let mut weights = hosts.iter().map(|[gate, up, down]| ExpertWeights {
        gate: gate.clone(),
        up: up.clone(),
        down: down.clone(),
    });
    let (experts, picks, width) = (device.load_experts(&mut weights).unwrap(), 2, hosts[0][0].columns);
    let mut rows = Rows::new(device, count).unwrap();
    rows.count = count;
    let mut routing = Routing::<CpuDevice> {
        experts: device.allocate(count * picks).unwrap(),
        weights: device.allocate(count * picks).unwrap(),
        distinct: device.allocate(1).unwrap(),
    };
    for row in 0..count {
        let first = row * 7 % (hosts.len() - 1);
        device.upload(&mut routing.experts, row * picks, &[first as i32, hosts.len() as i32 - 1]);
        device.upload(&mut routing.weights, row * picks, &[0.3, 0.7]);
    }
    let mut input = device.allocate(count * width).unwrap();
    device.upload(&mut input, 0, &x[..count * width]);
    let mut residual = device.allocate::<bf16>(count * width).unwrap();
    device.upload(&mut residual, 0, &x[..count * width]);
    device.expert_feed_forward(&experts, &routing, picks, &input, &rows, &mut residual);
    residual.iter().map(|value| value.to_f32()).collect()
}

#[test]
fn experts_are_row_invariant_and_equal_their_twins() {
    let mut random = Random(6);
    let hosts: Vec<_> = (0..5)
        .map(|_| {
            [random.affine(64, 128, 4, 64), random.affine(64, 128, 4, 64), random.affine(128, 64, 4, 64)]
        })
        .collect();
    let twins: Vec<_> = hosts.iter().map(|host| host.each_ref().map(twin)).collect();
    let x = random.values(40 * 128);
    for mode in Mode::supported() {
        let device = device(mode);
        let together = |device: &CpuDevice, count: usize| experts(device, &hosts, &x, count);
        assert_eq!(first_difference(&device, &together), None, "{mode}");
        assert_eq!(experts(&device, &hosts, &x, 9), experts(&device, &twins, &x, 9), "{mode}");
    }
}

/// On x86-64 and on aarch64 the same sums, summed in the same order: what one processor's tests show holds for the other.
#[test]
fn avx2_and_neon_give_the_same_bits() {
    for mode in [Mode::Avx2, Mode::Neon].into_iter().filter(|mode| mode.is_supported()) {
        let (mut random, device) = (Random(7), device(mode));
        let mut found = Vec::new();
        for (bits, group) in FORMATS {
            let host = random.affine(21, 3 * group, bits, group);
            found.extend(logits(&device, &[host], &random.values(13 * 3 * group), 13));
        }
        let (values, x) = (random.values(9 * 203), random.values(7 * 203));
        let odd = HostMatrix { rows: 9, columns: 203, values: MatrixValues::Bf16(values.into()) };
        found.extend(logits(&device, &[odd], &x, 7));
        let hosts = [(64, 128), (64, 128), (128, 64)];
        let hosts: Vec<_> =
            (0..3).map(|_| hosts.map(|(rows, columns)| random.affine(rows, columns, 4, 64))).collect();
        found.extend(experts(&device, &hosts, &random.values(9 * 128), 9));
        let mix = |digest: u64, sum: &f32| (digest ^ u64::from(sum.to_bits())).wrapping_mul(0x100_0000_01b3);
        assert_eq!(found.iter().fold(0xcbf2_9ce4_8422_2325, mix), 170_822_207_779_265_014, "{mode}");
    }
}
