//! Another server, scripted: it answers each request in turn as it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// A whole reply with this text.
    Text(&'static str),
    /// A whole reply that does not say how many tokens it has.
    WithoutUsage,
    /// Status 503.
    Refused,
    /// A stream that ends in the middle.
    Broken,
}

/// A server that answers its n-th chat with the n-th answer, and the others with the last.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// The bodies that it was sent.
    pub(super) bodies: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    pub(super) fn start(answers: &'static [Answer]) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (count, bodies) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let kept = bodies.clone();
        // It ends with the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (count, bodies) = (count.clone(), bodies.clone());
                std::thread::spawn(move || serve(stream, answers, &count, &bodies));
            }
        });
        Peer { address, bodies: kept }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn serve(stream: TcpStream, answers: &[Answer], count: &AtomicUsize, bodies: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).expect("a request");
    let is_chat = line.starts_with("POST /v1/chat/completions ");
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let text = if is_chat {
        bodies.lock().expect("bodies").push(String::from_utf8(body).expect("UTF-8"));
        let index = count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        answer(answers[index])
    } else {
        whole("200 OK", "application/json", r#"{"data": [{"id": "peer-model"}]}"#)
    };
    // A client may have left.
    let _ = (&stream).write_all(text.as_bytes());
}

fn answer(answer: Answer) -> String {
    let piece =
        |text: &str| format!("data: {{\"choices\": [{{\"delta\": {{\"content\": \"{text}\"}}}}]}}\n\n");
    let end = "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n";
    let usage = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 5, \"completion_tokens\": 4}}\n\n";
    let done = "data: [DONE]\n\n";
    let stream = |text: String| whole("200 OK", "text/event-stream", &text);
    match answer {
        Answer::Text(text) => stream([&piece(text), &piece("!"), end, usage, done].concat()),
        Answer::WithoutUsage => stream([&piece("x"), end, done].concat()),
        Answer::Broken => stream(piece("half")),
        Answer::Refused => {
            let error = r#"{"error": {"message": "the queue is full"}}"#;
            whole("503 Service Unavailable", "application/json", error)
        }
    }
}

fn whole(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
