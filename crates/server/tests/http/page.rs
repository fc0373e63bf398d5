//! The web page: files that need no key, and a policy that lets nothing else in.

use std::time::Duration;

use forerunner_server::{ApiKeys, ServerOptions};

use crate::client::{get, request};
use crate::world::World;

const FILES: [(&str, &str); 5] = [
    ("/", "text/html; charset=utf-8"),
    ("/assets/app.js", "text/javascript; charset=utf-8"),
    ("/assets/app.css", "text/css; charset=utf-8"),
    ("/assets/icon.svg", "image/svg+xml"),
    ("/assets/licences.txt", "text/plain; charset=utf-8"),
];

#[test]
fn the_files_need_no_key_and_say_what_they_are() {
    let path = std::env::temp_dir().join(format!("forerunner-page-keys-{}", std::process::id()));
    std::fs::write(&path, "a-key\n").unwrap();
    let api_keys = ApiKeys::open(&path).expect("a key");
    let world = World::with_options(Duration::ZERO, ServerOptions { api_keys, ..ServerOptions::default() });
    for (path, kind) in FILES {
        let answer = get(world.address, path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(!answer.body.is_empty(), "{path}");
    }
    for path in ["/assets/", "/assets/../v1/models", "/assets/app.js/x", "//", "/v1/models", "/assets/APP.JS"]
    {
        assert_eq!(get(world.address, path).status, 401, "{path}");
    }
}

#[test]
fn a_browser_that_has_a_file_is_told_so() {
    let world = World::new();
    let first = get(world.address, "/assets/app.js");
    let tag = first.header("etag").expect("a tag").to_owned();
    assert_ne!(get(world.address, "/").header("etag"), Some(tag.as_str()));
    let ask = |known: &str| request(world.address, "GET", "/assets/app.js", &[("If-None-Match", known)], &[]);
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".into()] {
        let answer = ask(&known);
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{known}");
        assert_eq!(answer.header("etag"), Some(tag.as_str()));
    }
    for known in ["\"other\"", "", tag.trim_matches('"')] {
        assert_eq!(ask(known).body, first.body, "{known}");
    }
}

#[test]
fn the_policy_allows_this_server_alone_and_no_inline_script() {
    let world = World::new();
    let page = get(world.address, "/");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    for hole in ["unsafe", "http", "*", "data:", "blob:"] {
        assert!(!policy.contains(hole), "{policy}");
    }
    let html = String::from_utf8(page.body).expect("UTF-8");
    for inline in ["<style", "onload", "<script>", "http:", "https:", "//"] {
        assert!(!html.contains(inline), "{inline}: {html}");
    }
}

#[test]
fn other_methods_are_refused_as_elsewhere() {
    let world = World::new();
    assert_eq!(request(world.address, "HEAD", "/", &[], &[]).body.len(), 0);
    let refused = request(world.address, "POST", "/", &[], b"{}");
    assert_eq!(refused.status, 405);
    assert!(refused.json()["error"]["message"].as_str().is_some_and(|message| message.contains("POST")));
}
