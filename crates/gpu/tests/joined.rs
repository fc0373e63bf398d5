//! A norm of one row and what reads it: in one kernel, the bits that they have one after the other.

mod support;

use forerunner_gpu::{Buffer, GpuDevice, GpuOptions, Matrix};
use forerunner_tensor::{
    AffineValues, CONV_RING, ConvRing, Device, DeviceError, Element, HostMatrix, MatrixValues, Rows, Scales,
    bf16,
};

/// So many that sums have 32 lanes, and one lane a chunk more.
const INPUTS: usize = 33 * 32;
/// Not all fours are full.
const CHANNELS: usize = 70;
const POSITIONS: usize = 4;

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
fn matrix(bits: u32) -> HostMatrix<'static> {
    let (rows, columns) = (3 * CHANNELS, INPUTS);
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

/// What a norm, a product and a convolution leave: each norm queued by itself where `apart` says so.
fn outcome(
    device: &GpuDevice,
    matrix: &Matrix,
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
        for is_product in [true, false] {
            device.rms_norm(&x, &weight, epsilon, 1, INPUTS, &mut normed);
            if apart {
                downloaded(device, &normed, 1)?;
            }
            if is_product {
                device.linear(matrix, &normed, 1, &mut projected);
                left.push(downloaded(device, &projected, 3 * CHANNELS)?);
            } else {
                device.project_short_conv(
                    matrix,
                    &normed,
                    &kernel,
                    CHANNELS,
                    &rows,
                    &mut ring,
                    &mut projected,
                    &mut out,
                );
                left.push(downloaded(device, &out, CHANNELS)?);
            }
            left.push(downloaded(device, &normed, INPUTS)?);
        }
    }
    left.push(downloaded(device, &ring.gated, CONV_RING * CHANNELS)?);
    Ok(left)
}

#[test]
fn a_norm_on_the_way_has_the_bits_of_one_before() -> Result<(), DeviceError> {
    let Some(device) = support::device(&GpuOptions::default()) else { return Ok(()) };
    for bits in [16, 8, 4] {
        let matrix = device.load_matrix(&[matrix(bits)])?;
        let apart = outcome(&device, &matrix, 1e-5, true)?;
        let joined = outcome(&device, &matrix, 1e-5, false)?;
        for (index, (joined, apart)) in joined.iter().zip(&apart).enumerate() {
            assert_eq!(joined, apart, "{bits} bits, output {index}");
        }
        // Another norm is noticed.
        assert_ne!(outcome(&device, &matrix, 1.0, false)?, apart);
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
