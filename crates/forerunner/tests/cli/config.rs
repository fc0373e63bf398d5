//! Flags from a file, as the built binary takes them.

use std::path::PathBuf;

use crate::binary::{Serving, forerunner};
use crate::client::get;

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("forerunner-cli-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn a_server_is_set_up_by_a_file_and_what_is_typed_goes_first() {
    let path = file("serve", "parallel = 3\ncontext = 512\nport = 1\ntemperature = 0.3\n");
    let server = Serving::start(&["--config", path.to_str().unwrap(), "--context", "256"]);
    std::fs::remove_file(&path).unwrap();
    let models = get(server.address, "/v1/models").json();
    assert_eq!(models["data"][0]["max_model_len"], 256);
    let loads = get(server.address, "/v1/loads").json();
    assert_eq!(loads["loads"][0]["max_running_requests"], 3);
}

#[test]
fn what_is_in_force_is_printed_as_a_file() {
    let run = forerunner(&["serve", "--parallel", "2", "--print-config"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("parallel = 2\n") && run.stdout.contains("port = 8080\n"), "{}", run.stdout);
    let path = file("printed", &run.stdout);
    let again = forerunner(&["serve", "--print-config", "--config", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(again.stdout, run.stdout);
}

#[test]
fn a_wrong_key_is_wrong_usage_and_named_with_its_file() {
    let path = file("wrong", "max_queue = 3\n");
    let run = forerunner(&["serve", "--config", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run.code, Some(2));
    let expected = format!("error: {}: there is no \"max_queue\"; did you mean max-queue?", path.display());
    assert_eq!(run.stderr.trim_end(), expected);
}
