//! This machine's adapter against the oracle, row-invariance and the committed draws.

mod support;

use forerunner_gpu::{GpuDevice, GpuOptions};
use forerunner_reference::suites::{Group, draws, parity, row_invariance};
use forerunner_tensor::DeviceError;
use support::device;

#[test]
fn it_agrees_with_the_oracle_with_checked_shaders() {
    let Some(device) = device(&GpuOptions { checked: true, ..GpuOptions::default() }) else { return };
    parity::run(&device).assert_passed();
}

#[test]
fn it_lets_no_rows_touch_each_other() {
    let Some(device) = device(&GpuOptions::default()) else { return };
    row_invariance::run(&device).assert_passed();
}

#[test]
fn it_draws_the_committed_tokens() {
    let Some(device) = device(&GpuOptions::default()) else { return };
    draws::run(&device).assert_passed();
}

/// Weights that no buffer holds are cut, into rows and into experts.
#[test]
fn it_agrees_with_the_oracle_when_weights_are_cut() {
    let options = GpuOptions { most_weight_bytes: Some(40_000), ..GpuOptions::default() };
    let Some(device) = device(&options) else { return };
    for group in [Group::Embed, Group::Linear, Group::FeedForward, Group::Experts, Group::Drafter] {
        parity::run_groups(&device, &[group]).assert_passed();
    }
}

#[test]
fn an_adapter_that_is_not_there_is_told_with_those_that_are() {
    let options = GpuOptions { adapter: Some("no such adapter".into()), ..GpuOptions::default() };
    let Err(error) = GpuDevice::new(&options) else { panic!("an adapter has this name") };
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    if let DeviceError::Unsupported { found, .. } = &error {
        assert_eq!(found, "no such adapter");
    }
}
