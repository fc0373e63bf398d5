//! A server from its first moment: the port answers before the model is there, and clients that stall hold up nobody.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::binary::{Serving, demo};
use crate::client::{Answer, get, post, read_answer, request};
use crate::scratch::Scratch;

/// The file that loading waits for. It is one that is read once.
const AWAITED: &str = "chat_template.jinja";

/// The demo target with a pipe for one of its files: loading waits for what a test writes to it.
struct SlowModel {
    folder: Scratch,
    awaited: PathBuf,
}

impl SlowModel {
    fn new(name: &str) -> SlowModel {
        let folder = Scratch::new(name);
        let awaited = folder.join(AWAITED);
        mkfifo(&awaited, Mode::S_IRWXU).expect("a named pipe");
        for file in std::fs::read_dir(demo("target")).expect("the demo target").flatten() {
            if file.file_name() != AWAITED {
                let link = folder.path().join(file.file_name());
                std::os::unix::fs::symlink(file.path().canonicalize().unwrap(), link).expect("a link");
            }
        }
        SlowModel { folder, awaited }
    }

    fn serve(&self) -> Serving {
        let model = self.folder.path().to_str().expect("UTF-8");
        Serving::loading(&["--model", model, "--parallel", "1", "--measure-ms", "0"])
    }

    /// Waits until loading comes to the file, and lets it go on with this.
    fn go_on(&self, text: &[u8]) {
        std::fs::write(&self.awaited, text).expect("somebody reads");
    }
}

#[track_caller]
fn check_loading(answer: &Answer) {
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.json()["error"]["code"], "loading");
    assert!(answer.header("x-request-id").is_some());
}

#[test]
fn a_server_says_that_it_is_loading_until_it_serves() {
    let model = SlowModel::new("loading");
    let mut server = model.serve();
    let health = get(server.address, "/health");
    assert_eq!((health.status, &health.json()["status"]), (503, &json!("loading")));
    let body = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2});
    check_loading(&post(server.address, "/v1/chat/completions", &body));
    check_loading(&get(server.address, "/v1/models"));
    // A connection that was made while the model was loading is served with it afterwards.
    let early = TcpStream::connect(server.address).expect("the port is open");
    model.go_on(&std::fs::read(demo("target").join(AWAITED)).expect("the demo's template"));
    server.wait_until_loaded();
    assert_eq!(get(server.address, "/health").status, 200);
    assert_eq!(post(server.address, "/v1/chat/completions", &body).status, 200);
    assert_eq!(ask(early, "GET /v1/models HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").status, 200);
    assert!(server.terminate().success());
}

#[test]
fn a_server_that_is_stopped_while_it_loads_ends_at_once() {
    let model = SlowModel::new("stopped");
    let server = model.serve();
    assert_eq!(get(server.address, "/health").status, 503);
    assert!(server.terminate().success());
}

#[test]
fn a_model_that_cannot_be_loaded_ends_the_server() {
    let model = SlowModel::new("failing");
    let server = model.serve();
    assert_eq!(get(server.address, "/health").status, 503);
    model.go_on(b"{% if %}");
    let (code, said) = server.end();
    assert_eq!(code, Some(1));
    let last = said.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("forerunner: ") && last.contains(AWAITED), "{said}");
}

/// Sends the rest of a request and reads its answer.
fn ask(mut stream: TcpStream, rest: &str) -> Answer {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.write_all(rest.as_bytes()).expect("the server reads");
    read_answer(&mut stream)
}

/// Slowloris: as many clients as there may be connections send half a header each.
#[test]
fn half_a_header_is_hung_up_on_in_time() {
    const CONNECTIONS: usize = 4;
    let connections = CONNECTIONS.to_string();
    let limits = ["--header-seconds", "1", "--max-connections", &connections];
    let server = Serving::start(&[&limits[..], &["--parallel", "1"]].concat());
    let stalled: Vec<TcpStream> = (0..CONNECTIONS).map(|_| half_a_request(server.address)).collect();
    // There is no connection left for this request until the others are hung up on.
    assert_eq!(request(server.address, "GET", "/health", &[], b"").status, 200);
    for mut stream in stalled {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut bytes = Vec::new();
        // Either way of hanging up will do; a timeout is none.
        if let Err(error) = stream.read_to_end(&mut bytes) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        assert!(!bytes.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&bytes));
    }
}

/// A client that takes its time within the limit is served, and one that stalls does not keep it from that.
#[test]
fn a_slow_client_within_the_limit_is_served_beside_one_that_stalls() {
    let server = Serving::start(&["--header-seconds", "60", "--parallel", "1"]);
    let _stalled = half_a_request(server.address);
    let slow = half_a_request(server.address);
    assert_eq!(get(server.address, "/health").status, 200);
    assert_eq!(ask(slow, "Connection: close\r\n\r\n").status, 200);
}

fn half_a_request(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: test\r\n").expect("the server reads");
    stream
}
