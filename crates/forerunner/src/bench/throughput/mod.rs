//! `forerunner bench throughput`: plain and drafted runs in turn, by kind of prompt and number of streams.

mod cell;
mod decode;
mod report;

use std::io::Write;
use std::time::Duration;

use anyhow::{bail, ensure};
use forerunner_engine::EngineHandle;
use serde_json::{Value, json};

use super::equality::Equality;
use super::local::{LocalEngine, LocalPrompt, ReplySettings};
use super::prompts::{by_kind, prompts};
use crate::flags::ThroughputFlags;
use crate::receipt::Receipt;
use crate::setup::Sizes;
use cell::{Alone, Cell};

/// Time for measuring what rounds cost here: as much as a server takes.
const MEASURE: Duration = Duration::from_secs(1);

/// Measures, prints a row a cell, and writes the receipt; an error when replies differ.
pub(crate) fn throughput(flags: &ThroughputFlags) -> anyhow::Result<()> {
    let most = usize::from(flags.streams.iter().copied().max().unwrap_or(1));
    // All that is submitted at once has a lane; the queue is never the limit.
    let sizes = Sizes { lanes: most, max_waiting: most, measure: MEASURE };
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
        let own = Alone::run(&handle, prompts, &reply_settings(flags, false))?;
        for streams in &flags.streams {
            let cell = run_cell(&handle, &kind, &own, usize::from(*streams), flags)?;
            writeln!(out, "{}", report::row(&cell))?;
            cells.push(cell);
        }
        alone.extend(own.to_json());
    }
    let decode = decode::against_read(&engine, &flags.model, &reply_settings(flags, false))?;
    if let Some(decode) = &decode {
        writeln!(out, "{decode}")?;
    }
    receipt.set("decode", decode.map_or(Value::Null, |decode| decode.to_json()));
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
    cell::run(handle, kind, alone, &plan, &reply_settings(flags, false))
}

fn reply_settings(flags: &ThroughputFlags, draft: bool) -> ReplySettings {
    let prompts = &flags.prompts;
    ReplySettings {
        max_tokens: prompts.max_tokens.into(),
        temperature: prompts.temperature,
        seed: prompts.seed,
        ignore_end: prompts.ignore_eos,
        draft,
    }
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
    let (mut drafted, mut shared) = (Equality::default(), Equality::default());
    for cell in cells {
        drafted.add(&cell.drafted_is_plain);
        shared.add(&cell.shared_is_alone);
    }
    if !drafted.holds() || !shared.holds() {
        bail!("replies differ: drafted = plain {drafted}, shared = alone {shared}");
    }
    Ok(())
}
