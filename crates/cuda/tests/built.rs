//! What can be held without a GPU: stored kernels are of today's sources, and a machine without one is told so.

use forerunner_cuda::{BUILT, CudaDevice, CudaOptions, Image, kernel_sources, source_hash};
use forerunner_tensor::DeviceError;

#[test]
fn stored_kernels_are_of_these_sources() {
    let hash = format!("{:016x}", source_hash(kernel_sources()));
    assert_eq!(BUILT.trim(), hash, "the kernels have changed: run cargo xtask cuda");
}

#[test]
fn a_changed_source_has_another_hash() {
    let [(name, text), ..] = kernel_sources();
    let changed = text.replacen("include", "exclude", 1);
    assert_ne!(source_hash([(name, changed.as_str())]), source_hash([(name, text)]));
    assert_ne!(source_hash([("other.cu", text)]), source_hash([(name, text)]));
}

#[test]
fn every_target_has_an_image() {
    for (capability, target) in [
        ((8, 0), "sm_80"),
        ((8, 9), "sm_80"),
        ((9, 0), "sm_90a"),
        ((12, 0), "sm_120"),
        ((10, 0), "compute_90"),
    ] {
        let image = Image::for_capability(capability.0, capability.1).expect("an image");
        assert_eq!(image.target, target);
        assert!(image.bytes.len() > 100_000, "{target} has {} bytes", image.bytes.len());
    }
    assert!(Image::for_capability(7, 5).is_none());
}

/// Where there is a GPU, `forerunner check --kernels --device cuda` runs the suites.
#[test]
fn a_machine_without_a_gpu_gets_one_line() {
    for ordinal in [0, 1000] {
        let options = CudaOptions { ordinal, ..CudaOptions::default() };
        let Err(error) = CudaDevice::new(options) else { continue };
        let text = error.to_string();
        assert!(text.starts_with("cuda: ") && !text.contains('\n'), "{text}");
        assert!(matches!(error, DeviceError::Failed { .. } | DeviceError::Unsupported { .. }), "{error:?}");
    }
}
