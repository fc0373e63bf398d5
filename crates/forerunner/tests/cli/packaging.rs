//! The command lines of the files in `packaging` are ones that the binary takes, and the image's health check tells a server
//! that serves from none.

use std::path::{Path, PathBuf};

use crate::binary::{Serving, forerunner};
use crate::scratch::Scratch;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join("packaging").join(path)).expect("a file of packaging")
}

/// The binary's message, if it does not take this command line.
fn refusal(arguments: &[String]) -> Option<String> {
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.push("--print-config");
    let run = forerunner(&arguments);
    (run.code != Some(0)).then_some(run.stderr)
}

#[track_caller]
fn check(path: &str, arguments: &[String]) {
    assert!(arguments.first().is_some_and(|first| first == "serve"), "{path}: {arguments:?}");
    assert_eq!(refusal(arguments), None, "{path}: {arguments:?}");
}

/// What stands in quotes, in a line or several.
fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_unit_and_its_settings() {
    let unit = read("systemd/forerunner.service");
    let line =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/forerunner ")).unwrap();
    let settings = repository().join("packaging/forerunner.toml");
    let line = line.replace("/etc/forerunner/forerunner.toml", settings.to_str().unwrap());
    check("the unit", &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    // What is commented out is taken too.
    let all: String = read("forerunner.toml")
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            line.split_once(" = ").filter(|(key, _)| !key.contains(' ')).map(|_| format!("{line}\n"))
        })
        .collect();
    assert!(all.contains("api-key-file") && all.contains("drafter"), "{all}");
    let folder = Scratch::new("packaging");
    let path = folder.join("forerunner.toml");
    std::fs::write(&path, all).unwrap();
    check("the settings", &["serve".into(), "--config".into(), path.to_str().unwrap().into()]);
}

#[test]
fn the_agent() {
    let text = read("launchd/org.forerunner.serve.plist");
    let array = text.split("<array>").nth(1).and_then(|rest| rest.split("</array>").next()).unwrap();
    let strings = array.split("<string>").skip(1).filter_map(|rest| rest.split("</string>").next());
    check("the agent", &strings.skip(1).map(str::to_owned).collect::<Vec<_>>());
}

#[test]
fn the_image() {
    let text = read("Dockerfile");
    let line = text.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    check("the image", &quoted(line));
    let build = text.lines().find(|line| line.contains("cargo build")).unwrap();
    assert!(build.contains("--features tls,pull"), "{build}");
}

/// Whether the image's health check finds a server well, were it on this port.
fn is_healthy(port: u16) -> bool {
    let text = read("Dockerfile");
    let check = text.split("HEALTHCHECK").nth(1).and_then(|rest| rest.split("CMD ").nth(1)).unwrap();
    let check = check.replace("\\\n", "").replace("/8080", &format!("/{port}"));
    let words: Vec<String> = serde_json::Deserializer::from_str(&check).into_iter().next().unwrap().unwrap();
    let status =
        std::process::Command::new(&words[0]).args(&words[1..]).stderr(std::process::Stdio::null()).status();
    status.expect("the shell of the image is here too").success()
}

#[cfg(target_os = "linux")]
#[test]
fn the_health_of_the_image() {
    let server = Serving::start(&["--parallel", "1"]);
    assert!(is_healthy(server.address.port()));
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(!is_healthy(free.port()), "nobody is there");
}

#[test]
fn the_formula() {
    let text = read("homebrew/forerunner.rb");
    let service =
        text.lines().find_map(|line| line.trim().strip_prefix("run [opt_bin/\"forerunner\", ")).unwrap();
    check("the formula", &quoted(&format!("{service} ")));
    for line in text.lines().filter(|line| line.contains("%w[")) {
        let commands = line.split("%w[").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        for command in commands.split(' ') {
            assert_eq!(forerunner(&["man", command]).code, Some(0), "{command}");
        }
    }
}

#[test]
fn the_deployment() {
    let text = read("kubernetes/engine.yaml");
    let rest = text.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let arguments =
        rest.map_while(|line| line.trim().strip_prefix("- ")).take_while(|item| !item.contains(": "));
    check("the deployment", &arguments.map(str::to_owned).collect::<Vec<_>>());
}

/// What the script for the H200 would run: words in single quotes, none of which has such a quote in it.
#[cfg(target_os = "linux")]
#[test]
fn the_script_for_the_h200() {
    let script = repository().join("packaging/h200/run.sh");
    let listed = std::process::Command::new("bash").arg(script).arg("--list").output();
    let listed = listed.expect("the shell of the script is here too").stdout;
    let listed = String::from_utf8(listed).unwrap();
    let mut commands = 0;
    for line in listed.lines() {
        let words: Vec<String> = line.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
        let Some(program) = words.iter().position(|word| word.ends_with("/forerunner")) else { continue };
        assert_eq!(refusal(&words[program + 1..]), None, "{line}");
        commands += 1;
    }
    assert!(commands >= 15, "{listed}");
}

#[test]
fn a_flag_that_is_gone_is_noticed() {
    let gone = ["serve", "--host", "127.0.0.1", "--parallell=4"].map(str::to_owned);
    assert!(refusal(&gone).is_some_and(|message| message.contains("--parallell")));
}
