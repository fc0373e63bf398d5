//! Every suite on this machine's GPU: with overlapping and recorded rounds, and without.

use std::process::ExitCode;
use std::time::Instant;

use forerunner_cuda::{CudaDevice, CudaOptions};
use forerunner_reference::suites::{draws, parity, row_invariance};
use forerunner_tensor::DeviceError;

fn main() -> ExitCode {
    let plain = CudaOptions { overlap: false, record: false, ..CudaOptions::default() };
    match [CudaOptions::default(), plain].map(run) {
        [Ok(true), Ok(true)] => ExitCode::SUCCESS,
        outcomes => {
            outcomes
                .iter()
                .filter_map(|outcome| outcome.as_ref().err())
                .for_each(|error| eprintln!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: CudaOptions) -> Result<bool, DeviceError> {
    let device = CudaDevice::new(options)?;
    println!("{}, {options:?}", device.chip());
    let mut passed = true;
    let suites = [draws::run::<CudaDevice>, parity::run::<CudaDevice>, row_invariance::run::<CudaDevice>];
    for suite in suites {
        let start = Instant::now();
        let report = suite(&device);
        println!("{report}\n{:.1} s", start.elapsed().as_secs_f64());
        passed &= report.passed();
    }
    Ok(passed)
}
