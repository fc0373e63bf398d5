//! `forerunner bench throughput`: plain and drafted runs in turn, by kind of prompt and number of streams.

mod cell;
mod decode;
mod report;

use std::io::Write;

use anyhow::ensure;
use forerunner_engine::EngineHandle;
use forerunner_tensor::MemoryMeter;
use serde_json::{Value, json};

use super::equality::ensure_all;
use super::local::{LocalEngine, LocalPrompt, ReplySettings};
use super::prompts::{by_kind, prompts};
use crate::flags::ThroughputFlags;
use crate::receipt::Receipt;
use crate::setup::Sizes;
use cell::{Alone, Cell};

/// Measures, prints a row a cell, and writes the receipt; an error when replies differ.
pub(crate) fn throughput(flags: &ThroughputFlags) -> anyhow::Result<()> {
    let most = usize::from(flags.streams.iter().copied().max().unwrap_or(1));
    // All that is submitted at once has a lane; the queue is never the limit.
    let sizes = Sizes::serving(most, most);
    let all = prompts(&flags.prompts.prompts)?;
    let mut receipt = Receipt::of_bench("throughput");
    let engine = LocalEngine::start(&flags.model, &sizes, flags.plant.as_deref())?;
    engine.describe(&mut receipt);
    receipt.set("settings", settings(flags));
    let tokenized = all.iter().map(|prompt| LocalPrompt::new(prompt, &engine.text));
    let tokenized = tokenized.collect::<anyhow::Result<Vec<_>>>()?;
    let handle = engine.handle();
    let mut out = std::io::stdout();
    writeln!(out, "{}\n{}", report::head(handle.info(), flags), report::COLUMNS)?;
    let mut cells: Vec<Cell> = Vec::new();
    let mut alone = Vec::new();
    for (kind, prompts) in by_kind(tokenized, |prompt| &prompt.kind) {
        let own = Alone::run(&handle, prompts, &ReplySettings::plain(&flags.prompts))?;
        for streams in &flags.streams {
            let cell = run_cell(&handle, &kind, &own, usize::from(*streams), flags)?;
            writeln!(out, "{}", report::row(&cell))?;
            cells.push(cell);
        }
        alone.extend(own.to_json());
    }
    let decode = decode::against_read(&engine, &flags.model, &ReplySettings::plain(&flags.prompts))?;
    if let Some(decode) = &decode {
        writeln!(out, "{decode}")?;
    }
    receipt.set("decode", decode.map_or(Value::Null, |decode| decode.to_json()));
    receipt.set("peak_device_memory_bytes", engine.memory().map(MemoryMeter::most));
    finish(receipt, &cells, alone, flags)
}

fn run_cell(
    handle: &EngineHandle,
    kind: &str,
    alone: &Alone,
    streams: usize,
    flags: &ThroughputFlags,
) -> anyhow::Result<Cell> {
    let plan = cell::Plan {
        streams,
        requests: usize::from(flags.requests).max(streams),
        pairs: flags.pairs.into()..=flags.most_pairs.max(flags.pairs).into(),
        same: flags.same,
    };
    cell::run(handle, kind, alone, &plan, &ReplySettings::plain(&flags.prompts))
}

fn settings(flags: &ThroughputFlags) -> Value {
    let prompts = &flags.prompts;
    json!({
        "streams": flags.streams, "same_prompt": flags.same, "requests": flags.requests, "pairs": flags.pairs, "most_pairs": flags.most_pairs,
        "max_tokens": prompts.max_tokens, "temperature": prompts.temperature, "seed": prompts.seed,
        "ignore_eos": prompts.ignore_eos, "force_drafts": flags.model.force_drafts,
        "threads": flags.model.threads, "planted": flags.plant,
    })
}

fn finish(
    mut receipt: Receipt,
    cells: &[Cell],
    alone: Vec<Value>,
    flags: &ThroughputFlags,
) -> anyhow::Result<()> {
    receipt.set("cells", cells.iter().map(Cell::to_json).collect::<Vec<_>>());
    receipt.set("replies", alone);
    receipt.write(&flags.receipt)?;
    ensure!(!cells.is_empty(), "nothing was measured");
    ensure_all(&[
        ("drafted = plain", cells.iter().map(|cell| &cell.drafted_is_plain).collect()),
        ("shared = alone", cells.iter().map(|cell| &cell.shared_is_alone).collect()),
    ])
}
