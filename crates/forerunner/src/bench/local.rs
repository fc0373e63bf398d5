//! Replies without HTTP: the engine that `run` and `serve` have, timed where it runs.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use forerunner_engine::{Engine, EngineHandle, Event, Reply, Request, Statistics, StopRule};
use forerunner_lanes::{CostTable, SamplingRule, TokenId};
use forerunner_tensor::MemoryMeter;
use forerunner_text::TextModel;
use serde_json::{Value, json};

use super::prompts::Prompt;
use super::timings::Timing;
use super::{bandwidth, hashes};
use crate::flags::{ModelFlags, PromptFlags};
use crate::receipt::Receipt;
use crate::setup::{OpenedModel, Sizes, start};

/// An engine, with what a receipt says of its model.
pub(crate) struct LocalEngine {
    engine: Engine,
    pub(crate) text: Arc<TextModel>,
    /// What its rounds cost here.
    pub(crate) costs: CostTable,
    /// Bytes of weights that a plain decode step reads.
    pub(crate) decode_bytes: usize,
    checkpoints: Value,
    memory: Option<MemoryMeter>,
}

impl LocalEngine {
    /// Loads the model that the flags name; a fault is planted in it if one is named.
    pub(crate) fn start(flags: &ModelFlags, sizes: &Sizes, plant: Option<&str>) -> anyhow::Result<Self> {
        let model = OpenedModel::open(flags)?;
        let decode_bytes = bandwidth::decode_bytes(&model.target)?;
        let checkpoints = match &flags.synth {
            // A grown model has no files; it is made of the demo pair's and of what the command line says.
            Some(_) => Value::Null,
            None => {
                let drafter = model.paths.drafter.as_deref().map(hashes::of_checkpoint).transpose()?;
                json!({ "target": hashes::of_checkpoint(&model.paths.target)?, "drafter": drafter })
            }
        };
        let loaded = start(model, flags, sizes, plant)?;
        Ok(LocalEngine {
            engine: loaded.engine,
            text: loaded.text,
            costs: loaded.costs,
            decode_bytes,
            checkpoints,
            memory: loaded.memory,
        })
    }

    /// Submits requests and looks at the engine.
    pub(crate) fn handle(&self) -> EngineHandle {
        self.engine.handle()
    }

    /// Counts the device's own memory, where it has any.
    pub(crate) fn memory(&self) -> Option<&MemoryMeter> {
        self.memory.as_ref()
    }

    /// Tells a receipt what runs, and on what.
    pub(crate) fn describe(&self, receipt: &mut Receipt) {
        let handle = self.handle();
        let info = handle.info();
        receipt.set("model_id", info.model.clone());
        receipt.set("drafter_id", info.drafter.clone());
        receipt.set("device", info.device.clone());
        receipt.set("context", info.context);
        receipt.set("loaded_device_memory_bytes", self.memory.as_ref().map(MemoryMeter::now));
        receipt.set("checkpoints", self.checkpoints.clone());
        let rounds = [1, 2, 4, 8, 10, 16].map(|rows| (rows, self.costs.round_ms(rows)));
        let holds = [1, 3, 5, 7, 9].map(|depth| (depth, self.costs.hold_ms(1, depth)));
        receipt.set("costs", json!({ "round_ms": rounds, "hold_ms": holds }));
    }
}

/// A prompt as the engine takes it.
#[derive(Debug, Clone)]
pub(crate) struct LocalPrompt {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) tokens: Vec<TokenId>,
}

impl LocalPrompt {
    /// A prompt in the model's tokens.
    pub(crate) fn new(prompt: &Prompt, text: &TextModel) -> anyhow::Result<Self> {
        let (name, kind) = (prompt.name.clone(), prompt.kind.clone());
        Ok(LocalPrompt { name, kind, tokens: prompt.tokens(text)? })
    }
}

/// What replies have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplySettings {
    pub(crate) max_tokens: usize,
    pub(crate) temperature: f32,
    pub(crate) seed: u64,
    /// Goes on past the end of a text, so that every reply is of the same length.
    pub(crate) ignore_end: bool,
    pub(crate) draft: bool,
}

impl ReplySettings {
    /// Plain replies as the flags describe them.
    pub(crate) fn plain(flags: &PromptFlags) -> Self {
        ReplySettings {
            max_tokens: flags.max_tokens.into(),
            temperature: flags.temperature,
            seed: flags.seed,
            ignore_end: flags.ignore_eos,
            draft: false,
        }
    }
}

/// One reply, and what it took.
#[derive(Debug, Clone)]
pub(crate) struct LocalReply {
    pub(crate) hash: String,
    pub(crate) statistics: Statistics,
    /// Between two events, as this thread saw them; only the first of several replies is watched as it comes.
    pub(crate) gaps_s: Vec<f64>,
}

impl LocalReply {
    /// Its times, without those between events.
    pub(crate) fn timing(&self) -> Timing {
        let Statistics { prompt_tokens, reply_tokens, time_to_first_token, decode_time, .. } =
            self.statistics;
        Timing {
            input_tokens: prompt_tokens,
            output_tokens: reply_tokens,
            first_token_s: time_to_first_token.as_secs_f64(),
            latency_s: (time_to_first_token + decode_time).as_secs_f64(),
            gaps_s: Vec::new(),
        }
    }
}

/// Replies that began together, and how long they took until the last one ended.
#[derive(Debug, Clone)]
pub(crate) struct LocalRun {
    pub(crate) seconds: f64,
    pub(crate) replies: Vec<LocalReply>,
}

/// Answers prompts, all at once.
pub(crate) fn answer(
    engine: &EngineHandle,
    prompts: &[&LocalPrompt],
    settings: &ReplySettings,
) -> anyhow::Result<LocalRun> {
    let started = Instant::now();
    let replies: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            let submitted = engine.submit(request(prompt, settings));
            submitted.with_context(|| format!("prompt {}", prompt.name))
        })
        .collect::<anyhow::Result<_>>()?;
    let replies = replies.into_iter().map(collect).collect::<anyhow::Result<_>>()?;
    Ok(LocalRun { seconds: started.elapsed().as_secs_f64(), replies })
}

fn request(prompt: &LocalPrompt, settings: &ReplySettings) -> Request {
    Request {
        prompt: prompt.tokens.clone(),
        max_tokens: Some(settings.max_tokens),
        rule: SamplingRule {
            temperature: settings.temperature,
            seed: settings.seed,
            ..SamplingRule::default()
        },
        stop: StopRule { ignore_end_of_sequence: settings.ignore_end, ..StopRule::default() },
        draft: settings.draft,
        constraint: None,
        tells_tokens: false,
        logprobs: None,
    }
}

fn collect(mut reply: Reply) -> anyhow::Result<LocalReply> {
    let (mut all, mut gaps_s, mut last) = (Vec::new(), Vec::new(), None::<Instant>);
    while let Some(event) = reply.next_blocking() {
        match event {
            Event::Text { tokens, .. } => {
                let now = Instant::now();
                gaps_s.extend(last.map(|last| (now - last).as_secs_f64()));
                last = Some(now);
                all.extend(tokens);
            }
            Event::Finished { statistics, .. } => {
                return Ok(LocalReply { hash: hashes::of_tokens(&all), statistics, gaps_s });
            }
            Event::Failed { message, .. } => bail!("the engine failed: {message}"),
        }
    }
    bail!("the engine stopped before the reply was whole")
}
