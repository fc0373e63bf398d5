//! Bodies of requests, over a real server whose model is a fake.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forerunner_engine::{Engine, EngineInfo};
use forerunner_lanes::fake::{FakeScript, FakeTarget};
use forerunner_lanes::{Lanes, Limits, Options};
use forerunner_server::{SamplingDefaults, Service, serve};
use forerunner_text::{Moment, TextModel};
use serde_json::json;

use crate::Target;

/// The paths that take a body; an input's first byte says which.
const PATHS: [&str; 7] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/tokenize",
    "/detokenize",
];

/// The fake draws below this; the demo tokenizer has as many tokens.
const VOCABULARY: u32 = 8192;

/// Longest context: no reply takes long.
const CONTEXT: usize = 64;

/// A body: it is answered, and whatever it is, the fault is not the server's.
pub(crate) const BODIES: Target = Target {
    name: "bodies",
    run: |bytes| {
        let (path, body) =
            bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest));
        let path = PATHS[path % PATHS.len()];
        let status = post(server(), path, body);
        assert!(
            (200..500).contains(&status),
            "{path} answered {status} to {}",
            String::from_utf8_lossy(body)
        );
    },
    seeds,
    words: &[
        "\"stream\":true",
        "\"n\":2",
        "\"logprobs\":true",
        "\"tools\":[",
        "\"tool_choice\":\"required\"",
        "\"stop\":[",
        "\"seed\":",
        "\"temperature\":",
        "\"response_format\":{\"type\":\"json_object\"}",
        "\"logit_bias\":{\"1\":2}",
        "\"stream_options\":{\"include_usage\":true}",
        "\"draft\":false",
        "\"max_tokens\":",
        "<|im_start|>",
    ],
    runs: 1500,
};

fn seeds() -> Vec<Vec<u8>> {
    let message = json!([{"role": "user", "content": "Hi"}]);
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {}}});
    let bodies = [
        json!({"model": "fake", "messages": message, "max_tokens": 4, "temperature": 0.5, "seed": 1, "stop": ["x"],
            "tools": [{"type": "function", "function": function}]}),
        json!({"model": "fake", "prompt": "Once", "max_tokens": 3, "n": 2, "stream": true, "echo": false}),
        json!({"model": "fake", "input": "Hi", "max_output_tokens": 3, "store": true, "instructions": "Be kind."}),
        json!({"model": "fake", "max_tokens": 3, "messages": [{"role": "user", "content": [{"type": "text",
            "text": "Hi"}]}], "system": "Be kind.", "stop_sequences": ["x"]}),
        json!({"model": "fake", "messages": message}),
        json!({"prompt": "Hi", "add_special_tokens": true}),
        json!({"tokens": [1, 2, 3]}),
    ];
    let with_path =
        |(path, body): (usize, &serde_json::Value)| [&[path as u8], body.to_string().as_bytes()].concat();
    bodies.iter().enumerate().map(with_path).collect()
}

/// Posts a body and reads the answer to its end; what was not answered has status 0.
fn post(address: SocketAddr, path: &str, body: &[u8]) -> u16 {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: fuzz\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = Vec::new();
    let mut exchange = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        stream.read_to_end(&mut answer).map(drop)
    };
    let ended = exchange();
    let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    status.unwrap_or_else(|| panic!("no answer ({ended:?}) to {}", String::from_utf8_lossy(body)))
}

/// A server that is started once and runs until the process ends.
fn server() -> SocketAddr {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    *SERVER.get_or_init(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (engine, text) = engine();
            let service = Service::new(engine.handle(), text, SamplingDefaults::default());
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(listener, service, std::future::pending())).expect("it serves");
        });
        address
    })
}

fn engine() -> (Engine, Arc<TextModel>) {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo/target");
    let mut text = TextModel::open(&demo).expect("the demo model's tokenizer");
    // Prompts with tools say what day it is; an input is to fail on every day or on none.
    text.template = text.template.at(Moment::from_unix_seconds(0));
    let text = Arc::new(text);
    let limits = Limits {
        lanes: 4,
        context: CONTEXT,
        rows: 128,
        block: 6,
        has_confidence: true,
        page: 256,
        queues_ahead: false,
    };
    let target = FakeTarget::new(limits, FakeScript { vocabulary: VOCABULARY, ..FakeScript::default() });
    let info = EngineInfo {
        model: "fake".into(),
        drafter: Some("fake".into()),
        device: "none".into(),
        context: CONTEXT,
        parallel: 4,
        vocabulary: VOCABULARY as usize,
    };
    let lanes = Lanes::new(Box::new(target) as Box<dyn forerunner_lanes::Target + Send>, Options::default());
    let tokenizer = Arc::new(text.tokenizer.clone());
    let engine = Engine::start(lanes, tokenizer, info, Vec::new(), 64).expect("a thread");
    (engine, text)
}
