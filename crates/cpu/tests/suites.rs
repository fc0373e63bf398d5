//! Every mode of this machine against the oracle, row-invariance and the committed draws.

use forerunner_cpu::{CpuDevice, CpuOptions, Mode};
use forerunner_reference::suites::{draws, parity, row_invariance};

fn devices() -> impl Iterator<Item = CpuDevice> {
    Mode::supported().flat_map(|mode| {
        [1, 3].map(|threads| {
            let options = CpuOptions { mode: Some(mode), threads: Some(threads) };
            CpuDevice::new(options).expect("a supported mode starts")
        })
    })
}

#[test]
fn every_mode_agrees_with_the_oracle() {
    devices().for_each(|device| parity::run(&device).assert_passed());
}

#[test]
fn no_mode_lets_rows_touch_each_other() {
    devices().for_each(|device| row_invariance::run(&device).assert_passed());
}

#[test]
fn every_mode_draws_the_committed_tokens() {
    devices().for_each(|device| draws::run(&device).assert_passed());
}
