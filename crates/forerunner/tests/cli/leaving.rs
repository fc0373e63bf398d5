//! Clients of the real binary that leave wherever they are: nothing of them stays behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::binary::Serving;
use crate::client::{get, open, post};

/// Clients that leave.
const CLIENTS: u64 = 200;

/// How long a server may take to notice, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(60);

const PATHS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"];

/// The gauges that say what the server holds for its clients.
const GAUGES: [&str; 4] = [
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "forerunner:pages_in_use",
    "forerunner:unread_prompt_tokens",
];

/// Numbers that one seed gives.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A reply that depends on everything that a server could have kept of others.
fn known(address: SocketAddr, draft: bool) -> Value {
    let body = json!({
        "messages": [{"role": "user", "content": "Sort these words: goat white turtle coins bear"}],
        "temperature": 0.8, "seed": 5, "max_tokens": 64, "return_token_ids": true, "draft": draft,
    });
    let reply = post(address, PATHS[0], &body).json();
    assert!(reply["choices"][0]["token_ids"].is_array(), "{reply}");
    reply["choices"].clone()
}

/// A client that leaves: in its headers, in its body, before an answer, or in the middle of it. Those that wait for
/// something are given back, so that many are there at once.
fn client(address: SocketAddr, random: &mut Random) -> Option<TcpStream> {
    let path = PATHS[random.below(4) as usize];
    let content = "goat ".repeat(1 + random.below(600) as usize);
    let body = json!({
        "messages": [{"role": "user", "content": content}], "prompt": content, "input": content,
        "stream": random.below(3) > 0, "draft": random.below(3) > 0, "max_tokens": 1000, "ignore_eos": true,
    });
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
    match random.below(5) {
        0 => leave_after(address, &head.as_bytes()[..random.below(head.len() as u64) as usize]),
        1 => leave_after(address, (head + &body[..random.below(body.len() as u64) as usize]).as_bytes()),
        2 => drop(open(address, "POST", path, &[], body.as_bytes())),
        3 => {
            let mut stream = open(address, "POST", path, &[], body.as_bytes());
            // Whatever is there by then: nothing, a refusal, a beginning.
            stream.set_read_timeout(Some(Duration::from_millis(1 + random.below(40)))).expect("a timeout");
            let _ = stream.read(&mut vec![0; 1 + random.below(2000) as usize]);
        }
        _ => return Some(open(address, "POST", path, &[], body.as_bytes())),
    }
    None
}

fn leave_after(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.write_all(bytes).expect("the server reads");
}

/// The gauges that are not at zero.
fn held(address: SocketAddr) -> Vec<String> {
    let page = String::from_utf8(get(address, "/metrics").body).expect("UTF-8");
    let of =
        |gauge: &str| page.lines().find(|line| line.starts_with(&format!("{gauge}{{"))).map(str::to_owned);
    let lines: Vec<String> =
        GAUGES.iter().map(|gauge| of(gauge).unwrap_or_else(|| panic!("no {gauge} in {page}"))).collect();
    lines.into_iter().filter(|line| !line.ends_with(" 0")).collect()
}

/// What is still held when the limit is over; nothing as soon as nothing is.
fn held_after(address: SocketAddr, limit: Duration) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let held = held(address);
        if held.is_empty() || begin.elapsed() > limit {
            return held;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// am17an/llama.cpp#20, ninfer#111, ATOM#1441: the gauges are at zero afterwards, and the next reply is as if they had
/// never been.
#[test]
fn two_hundred_that_leave_anywhere_leave_nothing_behind() {
    let flags = ["--parallel", "4", "--max-queue", "4", "--context", "2048", "--force-drafts"];
    let server = Serving::start(&flags);
    let alone = [known(server.address, true), known(server.address, false)];
    for seed in [1, 2] {
        let mut random = Random(seed);
        let mut waiting = Vec::new();
        for _ in 0..CLIENTS / 2 {
            waiting.extend(client(server.address, &mut random));
            // More than there are lanes and places in the queue, so that some are refused.
            while waiting.len() as u64 > 4 + random.below(8) {
                waiting.swap_remove(random.below(waiting.len() as u64) as usize);
            }
        }
        drop(waiting);
        assert_eq!(held_after(server.address, LIMIT), [""; 0], "seed {seed}");
        assert_eq!([known(server.address, true), known(server.address, false)], alone, "seed {seed}");
    }
}

/// The check above finds a client that has not left.
#[test]
fn one_that_stays_is_seen() {
    let server = Serving::start(&["--parallel", "1", "--context", "8192"]);
    let body =
        json!({"prompt": "The goat", "max_tokens": 8000, "ignore_eos": true, "stream": true}).to_string();
    let mut stays = BufReader::new(open(server.address, "POST", PATHS[1], &[], body.as_bytes()));
    // The gauges are as of the last round: a few pieces have come, so that there was one.
    let pieces = stays.by_ref().lines().map_while(Result::ok).filter(|line| line.starts_with("data: {"));
    assert_eq!(pieces.take(5).count(), 5);
    let held = held_after(server.address, Duration::ZERO);
    assert!(held.iter().any(|gauge| gauge.starts_with(GAUGES[0])), "{held:?}");
    assert!(held.iter().any(|gauge| gauge.starts_with(GAUGES[2])), "{held:?}");
    drop(stays);
    assert_eq!(held_after(server.address, LIMIT), [""; 0]);
}
