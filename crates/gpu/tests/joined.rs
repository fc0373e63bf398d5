//! A norm of one row and what reads it: in one kernel, the bits that they have one after the other.

mod support;

use forerunner_gpu::{Buffer, GpuDevice, GpuOptions, Matrix};
use forerunner_tensor::{
    AffineValues, CONV_RING, ConvRing, Device, DeviceError, Element, ExpertWeights, HostMatrix, MatrixValues,
    NO_LANE, RouteRule, Routing, Rows, Scales, bf16,
};

/// So many that sums have 32 lanes, and one lane a chunk more.
const INPUTS: usize = 33 * 32;
/// Not all fours are full.
const CHANNELS: usize = 70;
const POSITIONS: usize = 4;
/// Of a feed-forward.
const WIDTH: usize = 96;

/// What reads normed rows.
struct Weights {
    project: Matrix,
    gate_up: Matrix,
    down: Matrix,
}

fn values(len: usize, step: usize) -> Vec<bf16> {
    (0..len).map(|index| bf16::from_f32((index * step % 1021) as f32 / 512.0 - 1.0)).collect()
}

fn uploaded(device: &GpuDevice, values: &[bf16]) -> Result<Buffer<bf16>, DeviceError> {
    let mut buffer = device.allocate(values.len())?;
    device.upload(&mut buffer, 0, values);
    Ok(buffer)
}

fn downloaded<T: Element>(device: &GpuDevice, buffer: &Buffer<T>, len: usize) -> Result<Vec<T>, DeviceError> {
    let mut values = vec![T::zeroed(); len];
    device.download(buffer, 0, &mut values)?;
    Ok(values)
}

/// Dense weights, 8-bit or 4-bit codes.
fn matrix(rows: usize, columns: usize, bits: u32) -> HostMatrix<'static> {
    let values = if bits == 16 {
        MatrixValues::Bf16(values(rows * columns, 7).into())
    } else {
        let groups = rows * columns / 32;
        let word = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9);
        MatrixValues::Affine(AffineValues {
            bits,
            group_size: 32,
            words: (0..rows * columns * bits as usize / 32).map(word).collect::<Vec<_>>().into(),
            scales: Scales::Bf16(values(groups, 3).into()),
            biases: Scales::Bf16(values(groups, 5).into()),
        })
    };
    HostMatrix { rows, columns, values }
}

/// What norms leave, and a product, a convolution and a feed-forward of them: each norm queued by itself where `apart` says so.
fn outcome(
    device: &GpuDevice,
    weights: &Weights,
    epsilon: f32,
    apart: bool,
) -> Result<Vec<Vec<bf16>>, DeviceError> {
    let weight = uploaded(device, &values(INPUTS, 13))?;
    let kernel = uploaded(device, &values(3 * CHANNELS, 17))?;
    let mut rows = Rows::new(device, 1)?;
    rows.count = 1;
    device.upload(&mut rows.lane, 0, &[0]);
    let mut ring = ConvRing { gated: device.allocate(CONV_RING * CHANNELS)? };
    let mut normed = device.allocate(INPUTS)?;
    let mut projected = device.allocate(3 * CHANNELS)?;
    let mut out = device.allocate(CHANNELS)?;
    let mut left = Vec::new();
    for position in 0..POSITIONS {
        device.upload(&mut rows.position, 0, &[position as i32]);
        let x = uploaded(device, &values(INPUTS, 11 + position))?;
        let norm = |normed: &mut Buffer<bf16>| {
            device.rms_norm(&x, &weight, epsilon, 1, INPUTS, normed);
            if apart {
                downloaded(device, normed, 1)?;
            }
            Ok::<_, DeviceError>(())
        };
        norm(&mut normed)?;
        device.linear(&weights.project, &normed, 1, &mut projected);
        left.push(downloaded(device, &projected, 3 * CHANNELS)?);
        left.push(downloaded(device, &normed, INPUTS)?);
        norm(&mut normed)?;
        let (matrix, ring) = (&weights.project, &mut ring);
        device.project_short_conv(matrix, &normed, &kernel, CHANNELS, &rows, ring, &mut projected, &mut out);
        left.push(downloaded(device, &out, CHANNELS)?);
        left.push(downloaded(device, &normed, INPUTS)?);
        let mut residual = uploaded(device, &values(INPUTS, 19))?;
        norm(&mut normed)?;
        device.feed_forward(&weights.gate_up, &weights.down, &normed, 1, &mut residual);
        left.push(downloaded(device, &residual, INPUTS)?);
    }
    left.push(downloaded(device, &ring.gated, CONV_RING * CHANNELS)?);
    Ok(left)
}

#[test]
fn a_norm_on_the_way_has_the_bits_of_one_before() -> Result<(), DeviceError> {
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    for bits in [16, 8, 4] {
        let load = |rows, columns| device.load_matrix(&[matrix(rows, columns, bits)]);
        let weights = Weights {
            project: load(3 * CHANNELS, INPUTS)?,
            gate_up: load(2 * WIDTH, INPUTS)?,
            down: load(INPUTS, WIDTH)?,
        };
        let apart = outcome(&device, &weights, 1e-5, true)?;
        let joined = outcome(&device, &weights, 1e-5, false)?;
        for (index, (joined, apart)) in joined.iter().zip(&apart).enumerate() {
            assert_eq!(joined, apart, "{bits} bits, output {index}");
        }
        // Another norm is noticed.
        assert_ne!(outcome(&device, &weights, 1.0, false)?, apart);
    }
    Ok(())
}

/// What comes between a norm and a product finds the normed row, and so does what is read back at once.
#[test]
fn a_norm_that_waits_is_there_for_others() -> Result<(), DeviceError> {
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    let (x, weight) = (uploaded(&device, &values(INPUTS, 11))?, uploaded(&device, &values(INPUTS, 13))?);
    let mut normed = device.allocate(INPUTS)?;
    device.rms_norm(&x, &weight, 1e-5, 1, INPUTS, &mut normed);
    let read = downloaded(&device, &normed, INPUTS)?;
    let mut again = device.allocate(INPUTS)?;
    device.rms_norm(&x, &weight, 1e-5, 1, INPUTS, &mut again);
    let mut copied = device.allocate(INPUTS)?;
    device.copy_columns(&again, 1, INPUTS, &mut copied, INPUTS, 0);
    assert_eq!(downloaded(&device, &copied, INPUTS)?, read);
    assert!(read.iter().any(|value| *value != bf16::ZERO));
    Ok(())
}

/// A pad row by itself picks nothing, adds nothing and leaves the ring as it is.
#[test]
fn a_pad_row_alone_writes_nothing() -> Result<(), DeviceError> {
    const PICKS: usize = 2;
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    let before = values(64, 11);
    let (x, weight) = (uploaded(&device, &before)?, uploaded(&device, &values(3 * 64, 13))?);
    let mut residual = uploaded(&device, &before)?;
    let mut rows = Rows::new(&device, 1)?;
    rows.count = 1;
    device.upload(&mut rows.lane, 0, &[NO_LANE]);
    let mut routing = Routing {
        experts: device.allocate(PICKS)?,
        weights: device.allocate(PICKS)?,
        distinct: device.allocate(1)?,
    };
    device.upload(&mut routing.distinct, 0, &[7]);
    let expert =
        |_| ExpertWeights { gate: matrix(64, 64, 16), up: matrix(64, 64, 16), down: matrix(64, 64, 16) };
    let experts = device.load_experts(&mut (0..4).map(expert))?;
    let router = device.load_matrix(&[matrix(4, 64, 16)])?;
    let rule = RouteRule { picks: PICKS, normalize: true, scale: 1.0 };
    let bias = device.allocate(4)?;
    device.mixture(&router, &bias, rule, &experts, &x, &rows, 0, &mut routing, &mut residual);
    assert_eq!(downloaded(&device, &residual, 64)?, before);
    assert_eq!(downloaded(&device, &routing.experts, PICKS)?, [-1; PICKS]);
    assert_eq!(downloaded(&device, &routing.distinct, 1)?, [0]);
    let mut ring = ConvRing { gated: uploaded(&device, &values(CONV_RING * 64, 3))? };
    let (mut normed, mut out) = (device.allocate(64)?, device.allocate(64)?);
    let mut projected = device.allocate(3 * 64)?;
    device.rms_norm(&x, &weight, 1e-5, 1, 64, &mut normed);
    let matrix = device.load_matrix(&[matrix(3 * 64, 64, 16)])?;
    device.project_short_conv(&matrix, &normed, &weight, 64, &rows, &mut ring, &mut projected, &mut out);
    assert_eq!(downloaded(&device, &ring.gated, CONV_RING * 64)?, values(CONV_RING * 64, 3));
    Ok(())
}
