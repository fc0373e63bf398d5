//! Every suite on this machine's GPU, with shaders that check their indices and without: `[PART OF THE ADAPTER'S NAME]`.

use std::process::ExitCode;
use std::time::Instant;

use forerunner_gpu::{GpuDevice, GpuOptions};
use forerunner_reference::suites::{draws, parity, row_invariance};
use forerunner_tensor::DeviceError;

fn main() -> ExitCode {
    let adapter = std::env::args().nth(1);
    let mut passed = true;
    for checked in [true, false] {
        match run(&GpuOptions { adapter: adapter.clone(), checked, ..GpuOptions::default() }) {
            Ok(all) => passed &= all,
            Err(error) => {
                eprintln!("{error}");
                passed = false;
            }
        }
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(options: &GpuOptions) -> Result<bool, DeviceError> {
    let device = GpuDevice::new(options)?;
    let memory = if device.is_unified() { "shared with the processor" } else { "its own" };
    println!("{}, memory {memory}, checked shaders: {}", device.adapter(), options.checked);
    let mut passed = true;
    for suite in [draws::run::<GpuDevice>, parity::run::<GpuDevice>, row_invariance::run::<GpuDevice>] {
        let start = Instant::now();
        let report = suite(&device);
        println!("{report}\n{:.1} s", start.elapsed().as_secs_f64());
        passed &= report.passed();
    }
    Ok(passed)
}
