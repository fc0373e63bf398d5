//! Every mode of this machine against the oracle, row-invariance and the committed draws.
//!
//! The best mode has tests of its own: what another processor's mode gives is run under an emulator, where the others,
//! which real processors run, would cost minutes.

use forerunner_cpu::{CpuDevice, CpuOptions, Mode};
use forerunner_reference::suites::{Report, draws, parity, row_invariance};

fn check(modes: impl Iterator<Item = Mode>, suite: impl Fn(&CpuDevice) -> Report) {
    for mode in modes {
        for threads in [1, 3] {
            let options = CpuOptions { mode: Some(mode), threads: Some(threads) };
            suite(&CpuDevice::new(options).expect("a supported mode starts")).assert_passed();
        }
    }
}

fn best() -> impl Iterator<Item = Mode> {
    Mode::supported().take(1)
}

fn others() -> impl Iterator<Item = Mode> {
    Mode::supported().skip(1)
}

#[test]
fn the_best_mode_agrees_with_the_oracle() {
    check(best(), parity::run);
}

#[test]
fn other_modes_agree_with_the_oracle() {
    check(others(), parity::run);
}

#[test]
fn the_best_mode_does_not_let_rows_touch_each_other() {
    check(best(), row_invariance::run);
}

#[test]
fn other_modes_do_not_let_rows_touch_each_other() {
    check(others(), row_invariance::run);
}

#[test]
fn every_mode_draws_the_committed_tokens() {
    check(Mode::supported(), draws::run);
}
