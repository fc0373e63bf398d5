//! A model fetched from a hub: a server of a few lines on this machine, which can break off, stall and lie.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::binary::{Finished, command, demo, finished};
use crate::scratch::Scratch;

/// What the hub does besides what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mischief {
    None,
    /// Large files break off half way, the first time that they are asked for.
    BreaksOff,
    /// As above, and then nothing more comes.
    Stalls,
    /// It has another content than it says.
    Lies,
    /// It begins anew, whatever byte is asked for.
    IgnoresRanges,
}

struct Hub {
    address: SocketAddr,
    /// Path and first byte of each request.
    asked: Arc<Mutex<Vec<(String, u64)>>>,
    place: Scratch,
}

impl Hub {
    fn start(name: &str, mischief: Mischief) -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        std::thread::spawn(move || {
            let mut stalled = Vec::new();
            for stream in listener.incoming().flatten() {
                stalled.extend(answer(stream, mischief, &log));
            }
        });
        Hub { address, asked, place: Scratch::new(&format!("pull-{name}")) }
    }

    /// `forerunner pull` from here, into the place.
    fn command(&self, arguments: &[&str]) -> Command {
        let endpoint = format!("http://{}", self.address);
        let mut command = command(&[&["pull", "--endpoint", &endpoint], arguments].concat());
        command.env("XDG_DATA_HOME", self.place.path());
        for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    }

    fn pull(&self, arguments: &[&str]) -> Finished {
        finished(self.command(arguments).spawn().expect("the binary starts"))
    }

    fn asked(&self) -> Vec<(String, u64)> {
        self.asked.lock().unwrap().clone()
    }

    /// First bytes of the requests for the weights.
    fn weights_asked_from(&self) -> Vec<u64> {
        let asked = self.asked();
        asked.iter().filter(|(path, _)| path.ends_with(".safetensors")).map(|(_, from)| *from).collect()
    }

    fn directory(&self) -> PathBuf {
        self.place.join("forerunner/models/demo/target")
    }
}

/// Answers one request and closes; a connection that stalls is given back, to be kept open.
fn answer(mut stream: TcpStream, mischief: Mischief, log: &Mutex<Vec<(String, u64)>>) -> Option<TcpStream> {
    let mut lines =
        BufReader::new(stream.try_clone().expect("a second handle")).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    let mut from = 0;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some(range) = line.to_lowercase().strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().expect("a first byte");
        }
    }
    let is_first = {
        let mut log = log.lock().unwrap();
        log.push((path.clone(), from));
        log.iter().filter(|(asked, _)| *asked == path).count() == 1
    };
    let Some(mut body) = content(&path, mischief) else {
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return None;
    };
    let whole = body.len();
    let mut head = "HTTP/1.1 200 OK\r\n".to_owned();
    if from > 0 && mischief != Mischief::IgnoresRanges {
        body.drain(..from as usize);
        head =
            format!("HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {from}-{}/{whole}\r\n", whole - 1);
    }
    head += &format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let is_cut =
        mischief != Mischief::None && mischief != Mischief::Lies && is_first && body.len() > 1_000_000;
    if is_cut {
        body.truncate(body.len() / 2);
    }
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    (is_cut && mischief == Mischief::Stalls).then_some(stream)
}

const FILES: [&str; 6] = [
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors",
];

/// What is at a path.
fn content(path: &str, mischief: Mischief) -> Option<Vec<u8>> {
    if path.starts_with("/api/models/demo/target/revision/main") {
        let mut files: Vec<_> = FILES.iter().map(|name| listed(name)).collect();
        // What nobody reads is not fetched, and what would lie elsewhere is not either.
        files.push(json!({"rfilename": "README.md", "size": 10, "blobId": "readme"}));
        files.push(json!({"rfilename": "../escaped.json", "size": 10, "blobId": "escaped"}));
        return Some(json!({"sha": "c0ffee", "siblings": files}).to_string().into_bytes());
    }
    let name = path.strip_prefix("/demo/target/resolve/c0ffee/")?;
    let mut bytes = fs::read(demo("target").join(name)).ok()?;
    if mischief == Mischief::Lies && name.ends_with(".safetensors") {
        *bytes.last_mut().expect("bytes") ^= 1;
    }
    Some(bytes)
}

fn listed(name: &str) -> serde_json::Value {
    let bytes = fs::read(demo("target").join(name)).expect("a demo file");
    let mut file = json!({"rfilename": name, "size": bytes.len(), "blobId": format!("blob{}", bytes.len())});
    if name.ends_with(".safetensors") {
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        file["lfs"] = json!({"sha256": digest, "size": bytes.len()});
    }
    file
}

/// Bytes of the demo target's weights.
fn weights() -> Vec<u8> {
    fs::read(demo("target").join("model.safetensors")).expect("the demo target")
}

/// Files in a folder that are not whole.
fn partial_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "partial"))
        .collect()
}

#[test]
fn a_pulled_model_runs_by_its_name_and_is_not_fetched_twice() {
    let hub = Hub::start("whole", Mischief::None);
    let run = hub.pull(&["demo/target"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.stdout.trim_end(), hub.directory().to_str().unwrap());
    assert!(!hub.asked().iter().any(|(path, _)| path.contains("README") || path.contains("escaped")));
    let reply = command(&["run", "--model", "demo/target", "--max-tokens", "3", "Hello"])
        .env("XDG_DATA_HOME", hub.place.path())
        .output()
        .expect("the binary starts");
    assert!(reply.status.success(), "{}", String::from_utf8_lossy(&reply.stderr));
    let before = hub.asked().len();
    assert_eq!(hub.pull(&["demo/target"]).code, Some(0));
    assert_eq!(hub.asked().len(), before + 1, "only the listing: {:?}", hub.asked());
}

#[test]
fn what_broke_off_goes_on_where_it_did() {
    let hub = Hub::start("broken", Mischief::BreaksOff);
    let output = hub.place.join("here");
    let run = hub.pull(&["demo/target", "--output", output.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("it broke off after"), "{}", run.stderr);
    let whole = weights();
    assert_eq!(fs::read(output.join("model.safetensors")).unwrap(), whole);
    assert_eq!(hub.weights_asked_from(), [0, whole.len() as u64 / 2]);
    assert_eq!(partial_files(&output), [] as [PathBuf; 0]);
}

#[test]
fn a_pull_that_was_killed_goes_on_where_it_was() {
    let hub = Hub::start("killed", Mischief::Stalls);
    let half = weights().len() as u64 / 2;
    let mut killed = hub.command(&["demo/target"]).spawn().expect("the binary starts");
    let has_half = || {
        let weights =
            partial_files(&hub.directory()).into_iter().find(|path| path.to_string_lossy().contains("model"));
        weights.and_then(|path| fs::metadata(path).ok()).is_some_and(|metadata| metadata.len() == half)
    };
    let begin = Instant::now();
    while !has_half() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", partial_files(&hub.directory()));
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().and_then(|()| killed.wait()).expect("it runs");
    assert!(!hub.directory().join("model.safetensors").exists());
    let run = hub.pull(&["demo/target"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(hub.weights_asked_from(), [0, half]);
    assert_eq!(fs::read(hub.directory().join("model.safetensors")).unwrap(), weights());
}

#[test]
fn a_hub_that_knows_no_ranges_is_begun_with_anew() {
    let hub = Hub::start("ranges", Mischief::IgnoresRanges);
    let run = hub.pull(&["demo/target"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(fs::read(hub.directory().join("model.safetensors")).unwrap(), weights());
}

#[test]
fn another_content_than_the_hub_says_is_refused() {
    let hub = Hub::start("lies", Mischief::Lies);
    let run = hub.pull(&["demo/target"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("model.safetensors has the digest"), "{}", run.stderr);
    let directory = hub.directory();
    assert!(!directory.join("model.safetensors").exists() && directory.join("config.json").exists());
    assert_eq!(partial_files(&directory), [] as [PathBuf; 0]);
}

#[test]
fn what_is_not_there_is_named() {
    let hub = Hub::start("missing", Mischief::None);
    let run = hub.pull(&["demo/nothing"]);
    assert!(run.code == Some(1) && run.stderr.contains("has no demo/nothing at main"), "{}", run.stderr);
    let run = hub.pull(&["nothing"]);
    assert!(run.code == Some(1) && run.stderr.contains("accepted: ORG/NAME"), "{}", run.stderr);
}
