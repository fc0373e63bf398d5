//! What the soak's clients ask: everything at random, and one request whose reply is known.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::client;
use crate::workspace;

/// How long a server may take to have nothing left of its clients.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

/// Errors that are kept.
const ERRORS_MAX: usize = 100;

const CHAT: &str = "/v1/chat/completions";

/// What has been asked and what came of it.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) left: AtomicU64,
    pub(super) known: AtomicU64,
    kinds: Mutex<BTreeMap<&'static str, u64>>,
    errors: Mutex<Vec<String>>,
}

/// The demo prompts, and where they are asked.
pub(super) struct Load {
    address: SocketAddr,
    prompts: Vec<Value>,
    /// The known reply.
    known: Mutex<Option<Value>>,
    pub(super) counts: Counts,
}

impl Counts {
    pub(super) fn by_kind(&self) -> BTreeMap<&'static str, u64> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn requests(&self) -> u64 {
        self.by_kind().values().sum()
    }

    pub(super) fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, kind: &'static str, outcome: Result<()>) {
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = outcome
            && errors.len() < ERRORS_MAX
        {
            errors.push(format!("{kind}: {error:#}"));
        }
    }
}

impl Load {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let text = workspace::read("assets/demo/prompts.jsonl")?;
        let prompts = text.lines().map(|line| serde_json::from_str(line).context("a prompt"));
        let prompts = prompts.collect::<Result<_>>()?;
        Ok(Load { address, prompts, known: Mutex::default(), counts: Counts::default() })
    }

    /// One client: requests of every kind until it is told to stop.
    pub(super) fn client(&self, seed: u64, stop: &AtomicBool) {
        let mut random = seed + 1;
        while !stop.load(Ordering::SeqCst) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let choice = random >> 33;
            let (kind, outcome) = match choice % 16 {
                0 => ("known", self.ask_known()),
                1 | 2 => ("left", self.leave(choice)),
                3 => ("responses", self.ask("/v1/responses", &self.response(choice))),
                4 => ("messages", self.ask("/v1/messages", &self.message(choice))),
                5 | 6 => ("completions", self.ask("/v1/completions", &self.completion(choice))),
                7 | 8 => ("structured", self.ask(CHAT, &self.structured(choice))),
                9 | 10 => ("tools", self.ask(CHAT, &self.tools(choice))),
                _ => ("chat", self.ask(CHAT, &self.chat(choice))),
            };
            self.counts.count(kind, outcome);
        }
    }

    /// The tokens of one and the same request.
    pub(super) fn probe(&self) -> Result<Value> {
        let mut body = self.prompts[0].clone();
        body["temperature"] = json!(0.9);
        body["seed"] = json!(7);
        body["max_tokens"] = json!(60);
        body["return_token_ids"] = json!(true);
        let reply = client::post(self.address, CHAT, &body).json();
        let tokens = reply["choices"][0]["token_ids"].clone();
        ensure!(tokens.is_array(), "no tokens in {reply}");
        Ok(tokens)
    }

    fn ask_known(&self) -> Result<()> {
        let tokens = self.probe()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let first = known.get_or_insert_with(|| tokens.clone());
        ensure!(*first == tokens, "the reply was {first}, and now is {tokens}");
        self.counts.known.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// A prompt with settings at random. The number makes most of them new to the prompt cache.
    fn chat(&self, choice: u64) -> Value {
        let mut body = self.prompts[choice as usize / 16 % self.prompts.len()].clone();
        let system = json!({"role": "system", "content": format!("Conversation {}.", choice % 5000)});
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.insert(0, system);
        }
        body["temperature"] = json!(if choice.is_multiple_of(2) { 0.8 } else { 0.0 });
        body["max_tokens"] = json!(32 + choice % 160);
        body["draft"] = json!(!choice.is_multiple_of(3));
        body["stream"] = json!(choice % 5 > 1);
        if choice.is_multiple_of(7) {
            body["logprobs"] = json!(true);
            body["top_logprobs"] = json!(3);
        }
        body
    }

    fn completion(&self, choice: u64) -> Value {
        let mut body = self.chat(choice);
        body["prompt"] = json!(format!("Tale {choice}. The goat went to the market and"));
        body["logprobs"] = Value::Null;
        body["top_logprobs"] = Value::Null;
        body["n"] = json!(1 + choice % 2);
        body
    }

    fn response(&self, choice: u64) -> Value {
        json!({"input": format!("Question {choice}"), "max_output_tokens": 40, "stream": choice.is_multiple_of(2)})
    }

    fn message(&self, choice: u64) -> Value {
        let messages = json!([{"role": "user", "content": format!("Question {choice}")}]);
        json!({"messages": messages, "max_tokens": 40, "stream": choice.is_multiple_of(2)})
    }

    fn structured(&self, choice: u64) -> Value {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["drink", "cups"],
            "properties": {"drink": {"enum": ["tea", "coffee"]}, "cups": {"type": "integer", "minimum": 0, "maximum": choice % 50}}});
        let mut body = self.chat(choice);
        body["tools"] = Value::Null;
        body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "order", "strict": true, "schema": schema}});
        body
    }

    fn tools(&self, choice: u64) -> Value {
        let with_tools: Vec<&Value> =
            self.prompts.iter().filter(|prompt| prompt["tools"].is_array()).collect();
        let mut body = self.chat(choice);
        body["messages"] = with_tools[choice as usize / 16 % with_tools.len()]["messages"].clone();
        body["tools"] = with_tools[0]["tools"].clone();
        body["tool_choice"] = json!(["auto", "required", "none"][choice as usize % 3]);
        body
    }

    fn ask(&self, path: &str, body: &Value) -> Result<()> {
        let answer = client::post(self.address, path, body);
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == 200, "{path}: {} {text}", answer.status);
        ensure!(!text.contains("\"error\":{"), "{path}: {text}");
        Ok(())
    }

    /// Leaves in the queue, in the prompt or in the reply.
    fn leave(&self, choice: u64) -> Result<()> {
        let mut body = self.chat(choice);
        body["max_tokens"] = json!(2000);
        let mut stream = client::open(self.address, "POST", CHAT, &[], body.to_string().as_bytes());
        stream.set_read_timeout(Some(Duration::from_millis(1 + choice % 50)))?;
        // Whatever has come by then.
        let _ = stream.read(&mut [0; 256]);
        self.counts.left.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// The load when nothing is asked, which must be none soon.
    pub(super) fn wait_until_idle(&self) -> Result<Value> {
        let begin = Instant::now();
        loop {
            let load = client::get(self.address, "/v1/loads").json()["loads"][0].clone();
            if load["num_total_reqs"] == 0 && load["num_used_tokens"] == 0 {
                return Ok(load);
            }
            ensure!(begin.elapsed() < IDLE_LIMIT, "not idle after {IDLE_LIMIT:?}: {load}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
