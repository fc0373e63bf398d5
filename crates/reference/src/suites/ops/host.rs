//! Moving inputs to a device and results back.

use forerunner_tensor::{Device, DeviceError, Element, NO_LANE, Rows, bf16};

use crate::suites::inputs::Random;
use crate::suites::places::{LaneRows, Layout, Place, ROWS};

/// Entries that a buffer has beyond what an operation needs, to show that it uses the first ones.
const SLACK: usize = 5;

/// Lanes of an operation whose rows have no history: together they fill the tiles of a prompt, unless it is
/// large.
pub(super) fn free_lanes(large: bool) -> Vec<LaneRows> {
    vec![LaneRows { start: 0, count: if large { 1 } else { 4 } }; ROWS]
}

/// A buffer that holds the values and some slack.
pub(super) fn upload<D: Device, T: Element>(device: &D, values: &[T]) -> Result<D::Buffer<T>, DeviceError> {
    let mut buffer = device.allocate(values.len() + SLACK)?;
    device.upload(&mut buffer, 0, values);
    Ok(buffer)
}

/// A buffer of `len` numbers that no operation writes, so that a value left alone shows.
pub(super) fn unwritten<D: Device>(device: &D, len: usize) -> Result<D::Buffer<bf16>, DeviceError> {
    upload(device, &vec![bf16::from_f32(-77.0); len])
}

/// The first values of a buffer of bf16.
pub(super) fn download<D: Device>(
    device: &D,
    buffer: &D::Buffer<bf16>,
    len: usize,
) -> Result<Vec<f64>, DeviceError> {
    let mut values = vec![bf16::ZERO; len];
    device.download(buffer, 0, &mut values)?;
    Ok(values.into_iter().map(f64::from).collect())
}

/// The first values of a buffer of a type that f64 holds.
pub(super) fn download_as<D: Device, T: Element + Into<f64>>(
    device: &D,
    buffer: &D::Buffer<T>,
    len: usize,
) -> Result<Vec<f64>, DeviceError> {
    let mut values = vec![T::default(); len];
    device.download(buffer, 0, &mut values)?;
    Ok(values.into_iter().map(Into::into).collect())
}

/// The rows of a layout. Pad rows carry numbers that would do harm if their lane were not looked at.
pub(super) fn rows<D: Device>(
    device: &D,
    layout: &Layout,
    token: impl Fn(usize, usize) -> usize,
    key_end: impl Fn(usize, usize) -> usize,
) -> Result<Rows<D>, DeviceError> {
    let mut rows = Rows::new(device, layout.len() + SLACK)?;
    rows.count = layout.len();
    let column = |of_row: &dyn Fn(usize, usize) -> usize, of_pad: i32| -> Vec<i32> {
        let value = |place: &Place| match place {
            Place::Row { lane, position } => of_row(*lane, *position) as i32,
            Place::Pad => of_pad,
        };
        layout.iter().map(value).collect()
    };
    device.upload(&mut rows.token, 0, &column(&token, 1));
    device.upload(&mut rows.lane, 0, &column(&|lane, _| lane, NO_LANE));
    device.upload(&mut rows.position, 0, &column(&|_, position| position, 0));
    device.upload(&mut rows.key_end, 0, &column(&key_end, 1));
    Ok(rows)
}

/// Rows of one of the operations that look at lanes, but at no tokens and no keys.
pub(super) fn lane_rows<D: Device>(device: &D, layout: &Layout) -> Result<Rows<D>, DeviceError> {
    rows(device, layout, |_, _| 0, |_, position| position + 1)
}

/// `[rows, width]` activations: each row's by its lane and position.
pub(super) fn activations(seed: u64, layout: &Layout, width: usize, scale: f32) -> Vec<bf16> {
    layout.iter().flat_map(|place| place_random(seed, *place).bf16s(width, scale)).collect()
}

/// The same in fp32.
pub(super) fn activations_f32(seed: u64, layout: &Layout, width: usize, scale: f32) -> Vec<f32> {
    layout.iter().flat_map(|place| place_random(seed, *place).floats(width, scale)).collect()
}

/// Numbers that depend on the place alone.
pub(super) fn place_random(seed: u64, place: Place) -> Random {
    match place {
        Place::Row { lane, position } => Random::new(&[seed, lane as u64, position as u64]),
        Place::Pad => Random::new(&[seed, 1 << 40]),
    }
}
