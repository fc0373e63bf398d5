//! A server of the real router, engine and tokenizer; only the target is a fake, as slow as a test wants.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forerunner_engine::{Engine, EngineHandle, EngineInfo, Status};
use forerunner_lanes::fake::{FakeScript, FakeTarget};
use forerunner_lanes::{
    Lanes, Limits, OpenLane, Options, Round, RoundOut, SamplingRule, Target, TargetError, TokenId,
};
use forerunner_server::{SamplingDefaults, ServerOptions, Service, serve};
use forerunner_text::{Moment, TextModel};
use serde_json::{Value, json};

use crate::scripted::{END, ScriptedTarget};
use tokio::sync::oneshot;

/// The fake draws below this; the demo tokenizer has as many tokens.
pub(crate) const VOCABULARY: u32 = 8192;

/// Longest context.
pub(crate) const CONTEXT: usize = 512;

/// The time that prompts say it is, in seconds since 1970: 30 November 2026.
const DAY: u64 = 1_795_996_800;

/// Lanes.
pub(crate) const PARALLEL: usize = 8;

/// Pages: enough for the longest context in every lane.
pub(crate) const PAGES: usize = PARALLEL * CONTEXT / 256;

/// Requests that may wait.
pub(crate) const MAX_QUEUE: usize = 2;

/// A running server.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) engine: EngineHandle,
    pub(crate) text: Arc<TextModel>,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<std::io::Result<()>>>,
    _engine: Engine,
}

/// A fake that takes its time: `pause` a round.
struct Paced {
    target: FakeTarget,
    pause: Duration,
}

impl World {
    /// A server whose rounds take no time.
    pub(crate) fn new() -> World {
        World::paced(Duration::ZERO)
    }

    /// A server whose rounds take `pause`.
    pub(crate) fn paced(pause: Duration) -> World {
        let script = FakeScript { vocabulary: VOCABULARY, pages: PAGES, ..FakeScript::default() };
        let target = Paced { target: FakeTarget::new(limits(), script), pause };
        World::over(Box::new(target), demo_text())
    }

    /// A server with these options whose rounds take `pause`.
    pub(crate) fn with_options(pause: Duration, options: ServerOptions) -> World {
        let script = FakeScript { vocabulary: VOCABULARY, pages: PAGES, ..FakeScript::default() };
        let target = Paced { target: FakeTarget::new(limits(), script), pause };
        World::built(Box::new(target), demo_text(), options)
    }

    /// A server whose model replies this text to everything.
    pub(crate) fn scripted(reply: &str) -> World {
        let text = demo_text();
        let target = ScriptedTarget::new(limits(), &text.tokenizer, reply);
        World::over(Box::new(target), text)
    }

    fn over(target: Box<dyn Target + Send>, text: Arc<TextModel>) -> World {
        World::built(target, text, ServerOptions::default())
    }

    fn built(target: Box<dyn Target + Send>, text: Arc<TextModel>, options: ServerOptions) -> World {
        let engine = engine(target, &text);
        let service = Service::new(engine.handle(), text.clone(), SamplingDefaults::default());
        let service = service.with_options(options);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let server = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { serve(listener, service, async { _ = stopped.await }).await })
        });
        World {
            address,
            engine: engine.handle(),
            text,
            stop: Some(stop),
            server: Some(server),
            _engine: engine,
        }
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    /// Waits for a stopped server to end.
    pub(crate) fn join(&mut self) -> std::io::Result<()> {
        self.server.take().expect("joined once").join().expect("the server does not panic")
    }

    /// Waits until the engine's status is as asked; fails when that is hopeless, however busy the machine is.
    #[track_caller]
    pub(crate) fn wait(&self, is: impl Fn(&Status) -> bool) {
        const PATIENCE: Duration = Duration::from_secs(60);
        let begin = Instant::now();
        while !is(&self.engine.status()) {
            assert!(begin.elapsed() < PATIENCE, "after {PATIENCE:?}: {:?}", self.engine.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the fake replies to this prompt, worked out without an engine.
    pub(crate) fn expected(&self, prompt: &[TokenId], rule: &SamplingRule, tokens: usize) -> Vec<TokenId> {
        FakeTarget::reply(VOCABULARY, prompt, rule, tokens, &[])
    }

    /// The tokens of a chat with one message.
    pub(crate) fn chat_prompt(&self, content: &str) -> Vec<TokenId> {
        let messages = [json!({"role": "user", "content": content})];
        self.text.chat_prompt(&messages, None, &serde_json::Map::new()).expect("a prompt")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// The demo model's text side on one day: prompts with tools say what day it is, and what the fake replies follows from them.
fn demo_text() -> Arc<TextModel> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo/target");
    let mut text = TextModel::open(&directory).expect("the demo model's tokenizer");
    text.template = text.template.at(Moment::from_unix_seconds(DAY));
    Arc::new(text)
}

fn limits() -> Limits {
    Limits {
        lanes: PARALLEL,
        context: CONTEXT,
        rows: 256,
        block: 6,
        has_confidence: true,
        page: 256,
        queues_ahead: false,
    }
}

fn engine(target: Box<dyn Target + Send>, text: &TextModel) -> Engine {
    let info = EngineInfo {
        model: "fake".into(),
        drafter: Some("fake".into()),
        device: "none".into(),
        context: CONTEXT,
        parallel: PARALLEL,
        vocabulary: VOCABULARY as usize,
    };
    let lanes = Lanes::new(target, Options::default());
    let tokenizer = Arc::new(text.tokenizer.clone());
    let stop_tokens = Vec::from_iter(text.tokenizer.token_to_id(END));
    Engine::start(lanes, tokenizer, info, stop_tokens, MAX_QUEUE).expect("a thread")
}

/// A chat request of one message, greedy, with its token ids.
pub(crate) fn chat(content: &str, more: Value) -> Value {
    let mut body = json!({
        "model": "fake", "temperature": 0, "max_tokens": 24, "return_token_ids": true,
        "messages": [{"role": "user", "content": content}],
    });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

impl Target for Paced {
    fn limits(&self) -> &Limits {
        self.target.limits()
    }

    fn open(&mut self, lane: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        self.target.open(lane, open)
    }

    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        std::thread::sleep(self.pause);
        self.target.queue(round)
    }

    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError> {
        self.target.read(out)
    }

    fn close(&mut self, lane: usize) {
        self.target.close(lane);
    }

    fn pages_in_use(&self) -> usize {
        self.target.pages_in_use()
    }

    fn pages_total(&self) -> usize {
        self.target.pages_total()
    }
}
