//! `calibrate`: what it writes is read with the drafter, and changes no text.

use std::path::PathBuf;

use crate::binary::{demo, forerunner, reply};

fn drafter_copy() -> PathBuf {
    let copy = std::env::temp_dir().join(format!("forerunner-drafter-{}", std::process::id()));
    std::fs::create_dir_all(&copy).expect("a folder");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(demo("drafter").join(file), copy.join(file)).expect("a copy");
    }
    copy
}

#[test]
fn a_calibration_lies_beside_the_drafter_and_changes_no_text() {
    let (target, drafter) = (demo("target"), drafter_copy());
    let model = ["--model", target.to_str().unwrap(), "--drafter", drafter.to_str().unwrap()];
    let before = reply(&[model.as_slice(), &["Hello!"]].concat());
    let run = forerunner(&[&["calibrate", "--prompts", "6"], model.as_slice()].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(drafter.join("calibration.json").exists());
    assert_eq!(reply(&[model.as_slice(), &["Hello!"]].concat()), before);
    std::fs::write(drafter.join("calibration.json"), r#"{"greedy": [-1], "sampled": []}"#).expect("written");
    let run = forerunner(&[&["run"], model.as_slice(), &["Hello!"]].concat());
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("calibration.json: greedy has the temperature -1"), "{}", run.stderr);
    std::fs::remove_dir_all(drafter).expect("the copy");
}
