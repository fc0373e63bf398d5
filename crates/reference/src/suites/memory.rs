//! Buffers, read-backs and rounds: what goes up comes down, and a replayed round reads the arrays of now.

use forerunner_tensor::{Accepted, Device, DeviceError, ReadBackPart, RoundKey, bf16};

use super::ops::Group;
use super::report::Report;

/// Runs the checks of [`Group::Memory`].
pub(super) fn check<D: Device>(device: &D, report: &mut Report) {
    let group = Group::Memory.name();
    let checks: [(&str, Result<bool, DeviceError>); 6] = [
        ("a fresh buffer is zeros", fresh_buffer(device)),
        ("values come back from the offset they were written to", offsets(device)),
        ("reserved memory is zeros where it was committed, and keeps its values", reserved(device)),
        ("a read-back copies the first values of every part", read_back(device)),
        ("a read-back reads what was there when it was queued", early_read_back(device)),
        ("a round that is run again reads what was uploaded since", rounds(device)),
    ];
    for (claim, outcome) in checks {
        match outcome {
            Ok(holds) => {
                report.check(group, if holds { 0.0 } else { f64::INFINITY }, || format!("not so: {claim}"));
            }
            Err(error) => report.error(group, format!("{claim}: {error}")),
        }
    }
}

fn fresh_buffer<D: Device>(device: &D) -> Result<bool, DeviceError> {
    let buffer = device.allocate::<f32>(1000)?;
    let mut values = [1.0; 1000];
    device.download(&buffer, 0, &mut values)?;
    Ok(values.iter().all(|value| *value == 0.0))
}

fn offsets<D: Device>(device: &D) -> Result<bool, DeviceError> {
    let mut buffer = device.allocate::<bf16>(10)?;
    let values = [1.0, 2.0, 3.0].map(bf16::from_f32);
    // Three values of 16 bits: neither start nor end lies on a 32-bit word.
    device.upload(&mut buffer, 3, &values);
    let (mut all, mut middle) = ([bf16::ONE; 10], [bf16::ZERO; 2]);
    device.download(&buffer, 0, &mut all)?;
    device.download(&buffer, 4, &mut middle)?;
    let expected = [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0].map(bf16::from_f32);
    Ok(all == expected && middle == values[1..])
}

/// Two places of a reserved buffer, the later one first, and a range that has all of one and the start of the other.
fn reserved<D: Device>(device: &D) -> Result<bool, DeviceError> {
    const LEN: usize = 8 << 20;
    const LATE: usize = 5 << 20;
    let mut buffer = device.reserve::<bf16>(LEN)?;
    let mut holds = true;
    for (start, value) in [(LATE, 1.0), (4, 2.0)] {
        device.commit(&mut buffer, start..start + 1000)?;
        let mut fresh = [bf16::ONE; 1000];
        device.download(&buffer, start, &mut fresh)?;
        holds &= fresh.iter().all(|value| *value == bf16::ZERO);
        device.upload(&mut buffer, start, &[bf16::from_f32(value); 2]);
    }
    device.commit(&mut buffer, 0..LATE + 1)?;
    for (start, value) in [(LATE, 1.0), (4, 2.0), (3 << 20, 0.0)] {
        let mut kept = [bf16::ONE; 2];
        device.download(&buffer, start, &mut kept)?;
        holds &= kept == [bf16::from_f32(value); 2];
    }
    Ok(holds)
}

fn read_back<D: Device>(device: &D) -> Result<bool, DeviceError> {
    let outcome = Accepted { drafts: 1, anchor: 2, length: 3, block: -1 };
    let mut ids = device.allocate::<i32>(8)?;
    let mut floats = device.allocate::<f32>(8)?;
    let mut outcomes = device.allocate::<Accepted>(8)?;
    device.upload(&mut ids, 0, &[5, -6, 7]);
    device.upload(&mut floats, 0, &[0.5, -0.25]);
    device.upload(&mut outcomes, 1, &[outcome]);
    let parts =
        [ReadBackPart::I32(&ids, 2), ReadBackPart::F32(&floats, 3), ReadBackPart::Accepted(&outcomes, 2)];
    let mut words = [7; 13];
    device.wait(device.queue_read_back(&parts), &mut words)?;
    let (id, float, accepted) = (&words[..2], &words[2..5], &words[5..]);
    Ok(bytemuck::cast_slice::<_, i32>(id) == [5, -6]
        && bytemuck::cast_slice::<_, f32>(float) == [0.5, -0.25, 0.0]
        && bytemuck::cast_slice::<_, Accepted>(accepted) == [Accepted::default(), outcome])
}

/// Two read-backs on their way, and the buffer written after each was queued.
fn early_read_back<D: Device>(device: &D) -> Result<bool, DeviceError> {
    let mut ids = device.allocate::<i32>(2)?;
    device.upload(&mut ids, 0, &[1, 2]);
    let first = device.queue_read_back(&[ReadBackPart::I32(&ids, 2)]);
    device.upload(&mut ids, 0, &[3, 4]);
    let second = device.queue_read_back(&[ReadBackPart::I32(&ids, 2)]);
    device.upload(&mut ids, 0, &[5, 6]);
    let mut words = [[0; 2]; 2];
    device.wait(first, &mut words[0])?;
    device.wait(second, &mut words[1])?;
    Ok(words == [[1, 2], [3, 4]])
}

/// Gathers two rows in a round that is run three times, with other rows and another index each time.
fn rounds<D: Device>(device: &D) -> Result<bool, DeviceError> {
    const WIDTH: usize = 64;
    let key = RoundKey { rows: 2, plain_greedy: true, ..RoundKey::default() };
    let mut x = device.allocate::<bf16>(3 * WIDTH)?;
    let mut index = device.allocate::<i32>(2)?;
    let mut out = device.allocate::<bf16>(2 * WIDTH)?;
    let mut holds = true;
    for (time, rows) in [[2, 0], [-1, 1], [1, 2]].into_iter().enumerate() {
        let row = |row: usize| bf16::from_f32((10 * time + row + 1) as f32);
        let values: Vec<bf16> = (0..3 * WIDTH).map(|index| row(index / WIDTH)).collect();
        device.upload(&mut x, 0, &values);
        device.upload(&mut index, 0, &rows);
        device.round(key, &mut || {
            device.gather_rows(&x, &index, 2, WIDTH, &mut out);
            Ok(())
        })?;
        let mut gathered = [bf16::ONE; 2 * WIDTH];
        device.download(&out, 0, &mut gathered)?;
        let expected = rows.map(|index| usize::try_from(index).map_or(bf16::ZERO, row));
        holds &= gathered.iter().enumerate().all(|(index, value)| *value == expected[index / WIDTH]);
    }
    Ok(holds)
}
