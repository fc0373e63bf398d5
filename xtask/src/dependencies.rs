//! Which crate may depend on which: the direction of the architecture, held against `cargo metadata`.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::tidy::Violation;

/// What a crate may depend on. A new crate gets a line here, in the change that adds it.
struct Rule {
    name: &'static str,
    /// Crates of this workspace, without their `forerunner-`.
    ours: &'static [&'static str],
    /// Crates of others; none given means any.
    others: Option<&'static [&'static str]>,
    /// What its tests may use besides, of this workspace.
    in_tests: &'static [&'static str],
}

const fn rule(name: &'static str, ours: &'static [&'static str]) -> Rule {
    Rule { name, ours, others: None, in_tests: &[] }
}

const RULES: [Rule; 15] = [
    Rule { others: Some(&[]), ..rule("lanes", &[]) },
    Rule { others: Some(&["half", "bytemuck", "thiserror"]), ..rule("tensor", &[]) },
    rule("checkpoint", &["tensor"]),
    Rule { in_tests: &["reference"], ..rule("cpu", &["tensor"]) },
    rule("cuda", &["tensor"]),
    Rule { in_tests: &["checkpoint", "engine", "lanes", "reference"], ..rule("gpu", &["tensor"]) },
    Rule { in_tests: &["cpu", "reference"], ..rule("models", &["tensor", "checkpoint"]) },
    rule("reference", &["checkpoint", "tensor"]),
    // Grown checkpoints are held to the reference, which knows nothing of how they were made.
    Rule { in_tests: &["reference"], ..rule("synth", &["checkpoint", "tensor"]) },
    rule("text", &[]),
    Rule {
        in_tests: &["cpu", "reference"],
        ..rule("engine", &["lanes", "tensor", "checkpoint", "models", "text"])
    },
    Rule { in_tests: &["lanes"], ..rule("server", &["engine", "text"]) },
    rule(
        "forerunner",
        &[
            "checkpoint",
            "cpu",
            "cuda",
            "engine",
            "gpu",
            "lanes",
            "models",
            "reference",
            "server",
            "synth",
            "tensor",
            "text",
        ],
    ),
    rule("fuzz", &["checkpoint", "engine", "lanes", "server", "text"]),
    rule("xtask", &[]),
];

/// Crates of others that only some of ours may use: HTTP is served by the server and asked by the binary's benchmark, and
/// the command line is in the binary.
const RESERVED: [(&str, &[&str]); 8] = [
    ("axum", &["server"]),
    ("hyper", &["server", "forerunner"]),
    ("tower", &["server"]),
    ("clap", &["forerunner"]),
    // Certificates and the hub are for those who start a server or fetch a model.
    ("tokio-rustls", &["forerunner"]),
    ("ureq", &["forerunner"]),
    ("tracing-subscriber", &["forerunner"]),
    ("anyhow", &["forerunner", "xtask"]),
];

/// The crates that open sockets: to listen, and to load a server.
const CRATES_WITH_SOCKETS: [&str; 2] = ["server", "forerunner"];

/// The only crate with cargo features.
const CRATE_WITH_FEATURES: &str = "forerunner";

/// A package of the workspace, as far as the rules look at it.
pub(crate) struct Package {
    /// Without its `forerunner-`.
    name: String,
    features: Vec<String>,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    is_ours: bool,
    is_for_tests: bool,
    features: Vec<String>,
}

/// Reads the packages from what `cargo metadata` printed.
pub(crate) fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    packages.iter().map(package).collect()
}

/// All rules on all packages.
pub(crate) fn check(packages: &[Package]) -> Vec<Violation> {
    packages.iter().flat_map(check_package).collect()
}

fn package(value: &Value) -> Result<Package> {
    let name = value["name"].as_str().context("a package has no name")?;
    let features = value["features"].as_object().context("a package has no features")?;
    let dependencies = value["dependencies"].as_array().context("a package has no dependencies")?;
    Ok(Package {
        name: short(name).to_owned(),
        features: features.keys().cloned().collect(),
        dependencies: dependencies.iter().map(dependency).collect::<Result<_>>()?,
    })
}

fn dependency(value: &Value) -> Result<Dependency> {
    let name = value["name"].as_str().context("a dependency has no name")?;
    let features = value["features"].as_array().context("a dependency has no features")?;
    Ok(Dependency {
        name: short(name).to_owned(),
        is_ours: value["path"].is_string(),
        is_for_tests: value["kind"] == "dev",
        features: features.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn short(name: &str) -> &str {
    name.strip_prefix("forerunner-").unwrap_or(name)
}

fn check_package(package: &Package) -> Vec<Violation> {
    let Some(rule) = RULES.iter().find(|rule| rule.name == package.name) else {
        return vec![violation(package, "has no line in xtask/src/dependencies.rs".to_owned())];
    };
    let mut messages: Vec<String> =
        package.dependencies.iter().filter_map(|dependency| complaint(rule, dependency)).collect();
    if !package.features.is_empty() && package.name != CRATE_WITH_FEATURES {
        let features = package.features.join(", ");
        messages.push(format!("has cargo features ({features}): they are in {CRATE_WITH_FEATURES} only"));
    }
    messages.into_iter().map(|message| violation(package, message)).collect()
}

fn complaint(rule: &Rule, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if dependency.is_ours {
        let is_allowed =
            rule.ours.contains(&name) || (dependency.is_for_tests && rule.in_tests.contains(&name));
        let accepted =
            if dependency.is_for_tests { [rule.ours, rule.in_tests].concat() } else { rule.ours.to_vec() };
        return (!is_allowed).then(|| format!("may not depend on {name}, accepted: {}", list(&accepted)));
    }
    if dependency.is_for_tests {
        return None;
    }
    let reserved = RESERVED.iter().find(|(reserved, _)| *reserved == name);
    if let Some((_, owners)) = reserved.filter(|(_, owners)| !owners.contains(&rule.name)) {
        return Some(format!("may not use {name}, which is for {}", list(owners)));
    }
    if let Some(others) = rule.others.filter(|others| !others.contains(&name)) {
        return Some(format!("may not use {name}, accepted: {}", list(others)));
    }
    let opens_sockets =
        name == "tokio" && dependency.features.iter().any(|feature| feature == "net" || feature == "full");
    (opens_sockets && !CRATES_WITH_SOCKETS.contains(&rule.name))
        .then(|| format!("may not use tokio's net, which is for {}", list(&CRATES_WITH_SOCKETS)))
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "the standard library only".to_owned() } else { names.join(", ") }
}

fn violation(package: &Package, message: String) -> Violation {
    let folder =
        if package.name == "xtask" { "xtask".to_owned() } else { format!("crates/{}", package.name) };
    Violation {
        path: format!("{folder}/Cargo.toml"),
        line: 1,
        message: format!("{} {message}", package.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dependency(name: &str, kind: Value, features: &[&str]) -> Value {
        let path = name.starts_with("forerunner-").then_some("/somewhere");
        json!({"name": name, "kind": kind, "path": path, "features": features})
    }

    /// The messages about one package with these dependencies.
    #[track_caller]
    fn check_one(name: &str, dependencies: &[Value], expected: &[&str]) {
        let metadata = json!({"packages": [{"name": name, "features": {}, "dependencies": dependencies}]});
        let found = check(&packages(&metadata).unwrap());
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (violation, part) in found.iter().zip(expected) {
            assert!(violation.message.contains(part), "{:?} lacks {part:?}", violation.message);
        }
    }

    fn normal(name: &str) -> Value {
        dependency(name, Value::Null, &[])
    }

    #[test]
    fn the_direction_is_held() {
        check_one("forerunner-models", &[normal("forerunner-tensor"), normal("forerunner-checkpoint")], &[]);
        check_one("forerunner-models", &[normal("forerunner-cpu")], &["models may not depend on cpu"]);
        check_one("forerunner-engine", &[normal("forerunner-cpu")], &["engine may not depend on cpu"]);
        check_one("forerunner-tensor", &[normal("forerunner-models")], &["the standard library only"]);
        check_one("forerunner-server", &[normal("forerunner-lanes")], &["server may not depend on lanes"]);
    }

    #[test]
    fn build_dependencies_count_and_tests_have_their_own_list() {
        let dev = |name| dependency(name, json!("dev"), &[]);
        check_one(
            "forerunner-cpu",
            &[dependency("forerunner-models", json!("build"), &[])],
            &["may not depend"],
        );
        check_one("forerunner-cpu", &[dev("forerunner-reference"), dev("proptest")], &[]);
        check_one("forerunner-cpu", &[dev("forerunner-server")], &["accepted: tensor, reference"]);
        check_one("forerunner-cpu", &[normal("forerunner-reference")], &["accepted: tensor"]);
    }

    #[test]
    fn lanes_use_the_standard_library_only() {
        check_one("forerunner-lanes", &[normal("serde")], &["lanes may not use serde"]);
        check_one("forerunner-tensor", &[normal("half"), normal("rayon")], &["tensor may not use rayon"]);
    }

    #[test]
    fn http_and_the_command_line_have_their_crates() {
        check_one("forerunner-engine", &[normal("axum")], &["axum, which is for server"]);
        check_one("forerunner-text", &[normal("hyper")], &["hyper, which is for server, forerunner"]);
        check_one("forerunner", &[normal("hyper"), dependency("tokio", Value::Null, &["net"])], &[]);
        check_one("forerunner-text", &[normal("anyhow")], &["anyhow, which is for forerunner, xtask"]);
        check_one("forerunner-engine", &[dependency("tokio", Value::Null, &["sync"])], &[]);
        check_one(
            "forerunner-engine",
            &[dependency("tokio", Value::Null, &["sync", "net"])],
            &["tokio's net"],
        );
        check_one("forerunner-server", &[normal("axum"), dependency("tokio", Value::Null, &["net"])], &[]);
    }

    #[test]
    fn new_crates_need_a_line() {
        check_one("forerunner-magic", &[], &["has no line"]);
    }

    #[test]
    fn features_are_in_the_binary_only() {
        for (name, expected) in [("forerunner-cpu", 1), ("forerunner", 0)] {
            let metadata =
                json!({"packages": [{"name": name, "features": {"fast": []}, "dependencies": []}]});
            assert_eq!(check(&packages(&metadata).unwrap()).len(), expected, "{name}");
        }
    }
}
