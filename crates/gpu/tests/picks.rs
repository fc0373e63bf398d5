//! Picks of more experts than the suites have, with equal scores: by themselves, and on the way into one row's experts.

mod support;

use forerunner_gpu::{GpuDevice, GpuOptions};
use forerunner_tensor::{
    Device, DeviceError, ExpertWeights, HostMatrix, MatrixValues, RouteRule, Routing, Rows, bf16,
};

const HIDDEN: usize = 64;
const MOST_ROWS: usize = 9;
/// Around the bits of a word, what one row's kernel takes at most, and what any does.
const EXPERTS: [usize; 6] = [31, 33, 64, 97, 128, 256];
/// Routers' outputs of which some experts have the same.
const DISTINCT: usize = 29;

fn values(len: usize, step: usize) -> Vec<bf16> {
    (0..len).map(|index| bf16::from_f32((index * step % 1021) as f32 / 512.0 - 1.0)).collect()
}

fn matrix(rows: usize, values: &[bf16]) -> HostMatrix<'_> {
    HostMatrix { rows, columns: HIDDEN, values: MatrixValues::Bf16(values.into()) }
}

fn routing(device: &GpuDevice, picks: usize) -> Result<Routing<GpuDevice>, DeviceError> {
    Ok(Routing {
        experts: device.allocate(MOST_ROWS * picks)?,
        weights: device.allocate(MOST_ROWS * picks)?,
        distinct: device.allocate(1)?,
    })
}

/// Experts and the bits of weights of the first `rows` rows, and how many experts there are.
fn picked(
    device: &GpuDevice,
    routing: &Routing<GpuDevice>,
    entries: usize,
) -> Result<(Vec<i32>, Vec<u32>, i32), DeviceError> {
    let (mut experts, mut weights, mut distinct) = (vec![0; entries], vec![0f32; entries], [0]);
    device.download(&routing.experts, 0, &mut experts)?;
    device.download(&routing.weights, 0, &mut weights)?;
    device.download(&routing.distinct, 0, &mut distinct)?;
    Ok((experts, weights.into_iter().map(f32::to_bits).collect(), distinct[0]))
}

/// The first of those with the highest scores, in ascending order.
fn expected(logits: &[f32], bias: &[f32], picks: usize) -> Vec<i32> {
    let score = |expert: usize| 1.0 / (1.0 + (-f64::from(logits[expert])).exp()) + f64::from(bias[expert]);
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
    let mut first: Vec<i32> = order[..picks].iter().map(|expert| *expert as i32).collect();
    first.sort_unstable();
    first
}

fn check(device: &GpuDevice, experts: usize, picks: usize) -> Result<(), DeviceError> {
    let kinds = values(DISTINCT * HIDDEN, 37);
    let router: Vec<bf16> =
        (0..experts).flat_map(|expert| kinds[expert % DISTINCT * HIDDEN..][..HIDDEN].to_vec()).collect();
    let router = device.load_matrix(&[matrix(experts, &router)])?;
    let biases: Vec<f32> = (0..experts).map(|expert| (expert % 3) as f32 * 0.125).collect();
    let mut bias = device.allocate(experts)?;
    device.upload(&mut bias, 0, &biases);
    let mut x = device.allocate(MOST_ROWS * HIDDEN)?;
    device.upload(&mut x, 0, &values(MOST_ROWS * HIDDEN, 11));
    let mut logits = device.allocate(MOST_ROWS * experts)?;
    device.logits(&router, &x, MOST_ROWS, &mut logits);
    let mut scores = vec![0f32; MOST_ROWS * experts];
    device.download(&logits, 0, &mut scores)?;
    let mut rows = Rows::new(device, MOST_ROWS)?;
    device.upload(&mut rows.lane, 0, &[0; MOST_ROWS]);
    let rule = RouteRule { picks, normalize: true, scale: 1.0 };
    let mut first = routing(device, picks)?;
    for count in [MOST_ROWS, 8, 1] {
        rows.count = count;
        device.route(&router, &bias, rule, &x, &rows, 0, &mut first);
        let (found, _, distinct) = picked(device, &first, count * picks)?;
        let wanted: Vec<i32> =
            scores.chunks(experts).take(count).flat_map(|row| expected(row, &biases, picks)).collect();
        assert_eq!(found, wanted, "{picks} of {experts} experts, {count} rows");
        let mut touched = wanted;
        touched.sort_unstable();
        touched.dedup();
        assert_eq!(distinct as usize, touched.len(), "{picks} of {experts} experts, {count} rows");
    }
    let weights = values(HIDDEN * HIDDEN, 7);
    let expert = |_| {
        let [gate, up, down] = [(); 3].map(|()| matrix(HIDDEN, &weights));
        ExpertWeights { gate, up, down }
    };
    let loaded = device.load_experts(&mut (0..experts).map(expert))?;
    let mut second = routing(device, picks)?;
    let mut residual = device.allocate(HIDDEN)?;
    device.mixture(&router, &bias, rule, &loaded, &x, &rows, 0, &mut second, &mut residual);
    assert_eq!(picked(device, &second, picks)?, picked(device, &first, picks)?, "of {experts} on the way");
    Ok(())
}

#[test]
fn equal_scores_go_to_lower_numbers_and_all_experts_are_counted() -> Result<(), DeviceError> {
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    for experts in EXPERTS {
        for picks in [1, 4, 31] {
            check(&device, experts, picks)?;
        }
    }
    Ok(())
}
