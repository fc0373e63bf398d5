//! Every mode of this machine against the oracle, row-invariance and the committed draws.
//!
//! The best mode on several threads has tests of its own: they are what an emulator runs of another processor, where all
//! devices would take it many minutes.

use forerunner_cpu::{CpuDevice, CpuOptions, Mode};
use forerunner_reference::suites::{Report, draws, parity, row_invariance};

fn devices() -> impl Iterator<Item = CpuDevice> {
    Mode::supported().flat_map(|mode| {
        [3, 1].map(|threads| {
            let options = CpuOptions { mode: Some(mode), threads: Some(threads) };
            CpuDevice::new(options).expect("a supported mode starts")
        })
    })
}

fn check(devices: impl Iterator<Item = CpuDevice>, suite: impl Fn(&CpuDevice) -> Report) {
    devices.for_each(|device| suite(&device).assert_passed());
}

#[test]
fn the_best_device_agrees_with_the_oracle() {
    check(devices().take(1), parity::run);
}

#[test]
fn other_devices_agree_with_the_oracle() {
    check(devices().skip(1), parity::run);
}

#[test]
fn the_best_device_does_not_let_rows_touch_each_other() {
    check(devices().take(1), row_invariance::run);
}

#[test]
fn other_devices_do_not_let_rows_touch_each_other() {
    check(devices().skip(1), row_invariance::run);
}

#[test]
fn every_device_draws_the_committed_tokens() {
    check(devices(), draws::run);
}
