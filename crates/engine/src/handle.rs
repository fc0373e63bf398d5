//! The engine as its users hold it: start, submit, look, stop.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use forerunner_lanes::{Lanes, MAX_ALTERNATIVES, Target, TokenId};
use forerunner_text::{Grammars, TextError, Tokenizer};
use tokio::sync::mpsc::unbounded_channel;

use crate::request::{Counts, EngineInfo, Reply, Request, RequestError, Status};
use crate::thread::{Command, EngineThread, Submission};

/// A running engine. Dropping it ends its thread after the current round; replies in progress end with
/// [`Event::Failed`](crate::Event::Failed).
pub struct Engine {
    handle: EngineHandle,
    thread: Option<JoinHandle<()>>,
}

/// Submits requests to an engine and looks at it; cheap to clone.
#[derive(Clone)]
pub struct EngineHandle {
    commands: Sender<Command>,
    shared: Arc<Shared>,
}

/// What the engine thread and its handles share.
pub(crate) struct Shared {
    info: EngineInfo,
    tokenizer: Arc<Tokenizer>,
    stop_tokens: Vec<TokenId>,
    /// Made when the first grammar is asked for.
    grammars: OnceLock<Grammars>,
    max_waiting: usize,
    next_request: AtomicU64,
    pub(crate) stopping: AtomicBool,
    /// False once the thread has ended, in whatever way.
    pub(crate) alive: AtomicBool,
    /// Requests submitted and not ended.
    pub(crate) unfinished: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) pages_in_use: AtomicUsize,
    /// Pages in all, and tokens of one.
    pages: usize,
    page_tokens: usize,
    pub(crate) counts: Mutex<Counts>,
}

impl Engine {
    /// Starts the engine thread over `lanes`. `stop_tokens` end a reply; `max_waiting` requests may wait beyond
    /// those that have a lane.
    pub fn start(
        lanes: Lanes<Box<dyn Target + Send>>,
        tokenizer: Arc<Tokenizer>,
        info: EngineInfo,
        stop_tokens: Vec<TokenId>,
        max_waiting: usize,
    ) -> std::io::Result<Engine> {
        let (commands, receiver) = std::sync::mpsc::channel();
        let limits = lanes.limits();
        let shared = Arc::new(Shared {
            info,
            tokenizer: tokenizer.clone(),
            stop_tokens: stop_tokens.clone(),
            grammars: OnceLock::new(),
            max_waiting,
            next_request: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            alive: AtomicBool::new(true),
            unfinished: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            pages_in_use: AtomicUsize::new(0),
            pages: lanes.pages_total(),
            page_tokens: limits.page,
            counts: Mutex::default(),
        });
        let thread = EngineThread::new(lanes, tokenizer, stop_tokens, shared.clone());
        let thread = std::thread::Builder::new()
            .name("forerunner-engine".into())
            .spawn(move || thread.run(&receiver))?;
        Ok(Engine { handle: EngineHandle { commands, shared }, thread: Some(thread) })
    }

    /// A handle on this engine.
    pub fn handle(&self) -> EngineHandle {
        self.handle.clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.handle.shared.stopping.store(true, Ordering::SeqCst);
        // The thread may be gone already; then there is nothing to stop.
        let _ = self.handle.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl EngineHandle {
    /// Submits a request; its reply is in progress from now on.
    pub fn submit(&self, request: Request) -> Result<Reply, RequestError> {
        self.validate(&request)?;
        self.enter()?;
        let id = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        let (events, receiver) = unbounded_channel();
        let submission = Submission { id, request, events, submitted: std::time::Instant::now() };
        if self.commands.send(Command::Submit(Box::new(submission))).is_err() {
            self.shared.unfinished.fetch_sub(1, Ordering::SeqCst);
            return Err(RequestError::Stopping);
        }
        Ok(Reply { events: receiver, id, commands: self.commands.clone() })
    }

    /// Counts one request more, if the queue takes it.
    fn enter(&self) -> Result<(), RequestError> {
        let (parallel, limit) = (self.shared.info.parallel, self.shared.max_waiting);
        let one_more = |unfinished: usize| (unfinished < parallel + limit).then_some(unfinished + 1);
        let entered = self.shared.unfinished.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        entered.map(drop).map_err(|full| RequestError::QueueFull { waiting: full - parallel, limit })
    }

    /// Whether the engine thread runs. A thread that has ended takes no requests and never will.
    pub fn is_alive(&self) -> bool {
        self.shared.alive.load(Ordering::SeqCst)
    }

    /// The model's tokens, made ready for grammars. The first call takes as long as the vocabulary is large.
    pub fn grammars(&self) -> Result<&Grammars, TextError> {
        if let Some(grammars) = self.shared.grammars.get() {
            return Ok(grammars);
        }
        let Shared { info, tokenizer, stop_tokens, grammars, .. } = &*self.shared;
        let made = Grammars::new(tokenizer, info.vocabulary, stop_tokens)?;
        Ok(grammars.get_or_init(|| made))
    }

    /// What the engine is.
    pub fn info(&self) -> &EngineInfo {
        &self.shared.info
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        let running = self.shared.running.load(Ordering::SeqCst);
        let unfinished = self.shared.unfinished.load(Ordering::SeqCst);
        Status {
            running,
            // A free lane is taken at the next round: what fits one is not waiting.
            waiting: unfinished.saturating_sub(self.shared.info.parallel),
            pages_in_use: self.shared.pages_in_use.load(Ordering::SeqCst),
            pages: self.shared.pages,
            page_tokens: self.shared.page_tokens,
        }
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        // A thread that panicked while it wrote has ended anyway: what it wrote is still the best there is.
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn validate(&self, request: &Request) -> Result<(), RequestError> {
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Err(RequestError::Stopping);
        }
        let context = self.shared.info.context;
        let prompt_tokens = request.prompt.len();
        let max_tokens = request.max_tokens.unwrap_or(1);
        if prompt_tokens.saturating_add(max_tokens) > context {
            return Err(RequestError::ContextLengthExceeded { prompt_tokens, max_tokens, context });
        }
        check(prompt_tokens > 0, "prompt", || "empty".into(), "at least one token")?;
        check(max_tokens > 0, "max_tokens", || "0".into(), "1 or more")?;
        let vocabulary = self.shared.info.vocabulary as TokenId;
        let unknown = request.prompt.iter().find(|token| **token >= vocabulary);
        check(
            unknown.is_none(),
            "prompt",
            || format!("token {}", unknown.unwrap_or(&0)),
            "tokens of the vocabulary",
        )?;
        let alternatives = request.logprobs.unwrap_or(0);
        check(alternatives <= MAX_ALTERNATIVES, "top_logprobs", || alternatives.to_string(), "0 to 20")?;
        self.validate_rule(request)
    }

    fn validate_rule(&self, request: &Request) -> Result<(), RequestError> {
        let rule = &request.rule;
        let in_range = |field, value: f32, low: f32, high: f32, accepted| {
            check((low..=high).contains(&value), field, || value.to_string(), accepted)
        };
        in_range("temperature", rule.temperature, 0.0, 100.0, "0 to 100")?;
        in_range("top_p", rule.top_p, f32::MIN_POSITIVE, 1.0, "above 0, at most 1")?;
        in_range("min_p", rule.min_p, 0.0, 1.0, "0 to 1")?;
        in_range(
            "repetition_penalty",
            rule.repetition_penalty,
            f32::MIN_POSITIVE,
            100.0,
            "above 0, at most 100",
        )?;
        in_range("presence_penalty", rule.presence_penalty, -2.0, 2.0, "-2 to 2")?;
        in_range("frequency_penalty", rule.frequency_penalty, -2.0, 2.0, "-2 to 2")?;
        let vocabulary = self.shared.info.vocabulary as TokenId;
        for (token, bias) in &rule.logit_bias {
            check(
                *token < vocabulary,
                "logit_bias",
                || format!("token {token}"),
                "tokens of the vocabulary",
            )?;
            in_range("logit_bias", *bias, -100.0, 100.0, "-100 to 100")?;
        }
        let empty = request.stop.strings.iter().any(String::is_empty);
        check(!empty, "stop", || "an empty string".into(), "strings with at least one character")
    }
}

fn check(
    holds: bool,
    field: &'static str,
    found: impl FnOnce() -> String,
    accepted: &str,
) -> Result<(), RequestError> {
    if holds {
        return Ok(());
    }
    Err(RequestError::Invalid { field, found: found(), accepted: accepted.into() })
}
