//! What the binary says about models and about itself.

use serde_json::Value;

use crate::binary::{demo, forerunner};

#[test]
fn info_describes_the_demo_pair() {
    let run = forerunner(&["info"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in
        ["lfm2_moe", "12: 9 convolution, 3 attention", "16, 4 a token", "affine 4-bit", "fits this model"]
    {
        assert!(run.stdout.contains(part), "{part:?} is not in {}", run.stdout);
    }
    let target = demo("target");
    let named = forerunner(&["info", target.to_str().unwrap()]);
    assert!(named.stdout.contains("lfm2_moe") && !named.stdout.contains("drafter"), "{}", named.stdout);
}

#[test]
fn capabilities_are_json_with_every_option_of_every_command() {
    let run = forerunner(&["capabilities", "--json"]);
    let capabilities: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(capabilities["version"], env!("CARGO_PKG_VERSION"));
    let cpu = &capabilities["devices"][0];
    assert_eq!(cpu["name"], "cpu");
    assert!(cpu["modes"].as_array().unwrap().contains(&Value::from("portable")), "{cpu}");
    let commands = capabilities["commands"].as_array().unwrap();
    let serve = commands.iter().find(|command| command["name"] == "serve").expect("serve");
    assert!(commands.iter().any(|command| command["name"] == "bench throughput"), "{capabilities}");
    let options = serve["options"].as_array().unwrap();
    let parallel = options.iter().find(|option| option["name"] == "--parallel").expect("--parallel");
    assert_eq!(parallel["default"], "16");
    let mode = options.iter().find(|option| option["name"] == "--mode").expect("--mode");
    assert!(mode["accepted"].as_array().unwrap().contains(&Value::from("avx512")), "{mode}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_forerunner"))
        .args(["capabilities", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ends").success());
}
