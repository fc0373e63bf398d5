//! Who may ask, and how much: keys, origins, limits.

use std::io::Read;
use std::time::Duration;

use forerunner_server::{ApiKeys, ServerOptions};
use serde_json::json;

use crate::client::{get, open, post, read_answer, request};
use crate::world::{World, chat};

const CHAT: &str = "/v1/chat/completions";

fn world(options: ServerOptions) -> World {
    World::with_options(Duration::ZERO, options)
}

fn keys() -> ApiKeys {
    let path = std::env::temp_dir().join(format!("forerunner-http-keys-{}", std::process::id()));
    std::fs::write(&path, "# team a\nfirst-key\n\nsecond-key\n").unwrap();
    ApiKeys::open(&path).expect("two keys")
}

#[test]
fn only_those_with_a_key_are_answered() {
    let world = world(ServerOptions { api_keys: keys(), ..ServerOptions::default() });
    let body = chat("Hello", json!({"max_tokens": 2})).to_string();
    let ask = |headers: &[(&str, &str)]| request(world.address, "POST", CHAT, headers, body.as_bytes());
    for header in [
        ("Authorization", "Bearer first-key"),
        ("authorization", "bearer second-key"),
        ("x-api-key", "second-key"),
    ] {
        assert_eq!(ask(&[header]).status, 200, "{header:?}");
    }
    let wrong: [&[(&str, &str)]; 5] = [
        &[],
        &[("Authorization", "Bearer first")],
        &[("Authorization", "Basic first-key")],
        &[("Authorization", "Bearer ")],
        &[("x-api-key", "# team a")],
    ];
    for headers in wrong {
        let answer = ask(headers);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{headers:?}");
        assert_eq!(answer.json()["error"]["code"], "invalid_api_key");
        assert!(answer.header("x-request-id").is_some());
    }
    assert_eq!(get(world.address, "/v1/models").status, 401);
    assert_eq!(get(world.address, "/v1/nothing").status, 401);
    for path in ["/health", "/version", "/metrics"] {
        assert_eq!(get(world.address, path).status, 200, "{path}");
    }
}

#[test]
fn pages_of_listed_origins_may_ask() {
    let cors_origins = vec!["https://a.example".to_owned()];
    let world = world(ServerOptions { cors_origins, api_keys: keys(), ..ServerOptions::default() });
    let headers = [
        ("Origin", "https://a.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization, content-type"),
    ];
    let asked = request(world.address, "OPTIONS", CHAT, &headers, &[]);
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, Some("https://a.example")));
    assert_eq!(asked.header("access-control-allow-headers"), Some("authorization, content-type"));
    // A refusal can be read by the page too.
    let answer = request(world.address, "POST", CHAT, &headers[..1], b"{}");
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (401, Some("https://a.example"))
    );
    assert_eq!(answer.header("access-control-expose-headers"), Some("x-request-id, retry-after"));
    let other = request(world.address, "GET", "/health", &[("Origin", "https://b.example")], &[]);
    assert_eq!((other.status, other.header("access-control-allow-origin")), (200, None));
}

#[test]
fn limits_are_told_with_their_size() {
    let world = world(ServerOptions { body_limit_bytes: 1000, ..ServerOptions::default() });
    let large = post(world.address, CHAT, &json!({"messages": "x".repeat(1000)}));
    assert_eq!(large.status, 413);
    assert!(large.json()["error"]["message"].as_str().unwrap().contains("1000 bytes"));
    let many = request(world.address, "GET", "/health", &[("x-filler", &"x".repeat(40_000))], &[]);
    assert_eq!(many.status, 431);
    assert!(many.json()["error"]["message"].as_str().unwrap().contains("32768 bytes"));
    assert_eq!(get(world.address, "/health").status, 200);
}

#[test]
fn connections_over_the_limit_wait_for_one_to_end() {
    let options = ServerOptions { connections: 1, ..ServerOptions::default() };
    let world = World::with_options(Duration::from_millis(10), options);
    let body = chat("Hello", json!({"max_tokens": 80, "draft": false})).to_string();
    let mut first = open(world.address, "POST", CHAT, &[], body.as_bytes());
    world.wait(|status| status.running == 1);
    let mut second = open(world.address, "GET", "/health", &[], &[]);
    second.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout is accepted");
    assert!(second.read(&mut [0]).is_err(), "it is answered beside the first");
    second.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout is accepted");
    assert_eq!(read_answer(&mut first).status, 200);
    assert_eq!(read_answer(&mut second).status, 200);
}
