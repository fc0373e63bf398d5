//! What can be held without a GPU: what each shader needs, and what Metal would be given.

use std::path::{Path, PathBuf};

use forerunner_gpu::{ShaderVariant, Translated, shader_variants};

/// Where a variant's Metal is stored.
fn golden(variant: &ShaderVariant) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/msl").join(format!("{}.metal", variant.name))
}

#[test]
fn kernels_need_what_they_say() {
    for variant in shader_variants() {
        let translated = Translated::new(&variant);
        assert_eq!(translated.needs(), variant.needs, "{}", variant.name);
        assert_eq!(translated.access(), variant.access, "{}", variant.name);
    }
}

#[test]
fn stored_metal_is_of_these_shaders() {
    for variant in shader_variants() {
        let stored = std::fs::read_to_string(golden(&variant)).unwrap_or_default();
        let now = Translated::new(&variant).msl();
        let line = stored.lines().zip(now.lines()).position(|(stored, now)| stored != now);
        assert!(
            stored == now,
            "{} has changed (line {line:?}): run cargo xtask shaders, and read what it changes",
            golden(&variant).display()
        );
    }
}

/// A shader that is changed is noticed.
#[test]
fn a_changed_shader_has_another_translation() {
    let mut variants = shader_variants();
    let norm = variants.iter_mut().find(|variant| variant.name == "rms_norm").expect("the norm");
    let before = Translated::new(norm).msl();
    norm.source = norm.source.replace("norm.epsilon", "2.0 * norm.epsilon");
    assert_ne!(Translated::new(norm).msl(), before);
}
