//! `forerunner run`: one reply to standard output, statistics to standard error.

use forerunner_lanes::SamplingRule;
use serde_json::{Map, Value, json};

use crate::flags::RunFlags;
use crate::setup::{Loaded, Sizes, load};
use crate::terminal::{banner, reply, request, summary, tell};

/// Answers one prompt.
pub(crate) fn run(flags: &RunFlags) -> anyhow::Result<()> {
    let model = flags.model.demonstrating();
    let Loaded { engine, text, .. } = load(&model, &Sizes::TERMINAL)?;
    let prompt = if flags.raw {
        text.tokenizer.encode_prompt(&flags.prompt)?
    } else {
        text.chat_prompt(&messages(flags), None, &Map::new())?
    };
    let handle = engine.handle();
    let request = request(&flags.reply, prompt);
    let how = if model.force_drafts && request.draft { ", drafts in every round" } else { "" };
    tell(format_args!("{}, {}{how}", banner(handle.info()), draws(&request.rule)));
    let reply = reply(&handle, request, || false, &mut std::io::stdout().lock())?;
    reply.statistics.iter().for_each(|statistics| tell(summary(statistics)));
    Ok(())
}

fn draws(rule: &SamplingRule) -> String {
    match rule.temperature {
        0.0 => "greedy".into(),
        temperature => format!("temperature {temperature}, seed {}", rule.seed),
    }
}

fn messages(flags: &RunFlags) -> Vec<Value> {
    let system = flags.system.iter().map(|text| json!({"role": "system", "content": text}));
    system.chain([json!({"role": "user", "content": flags.prompt})]).collect()
}
