//! `forerunner bench serve`: load on a server that speaks OpenAI's chat completions, ours or another.

mod alone;
mod exchange;
mod load;
mod mixed;
mod report;
mod server;
mod sse;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

use super::prompts::{Prompt, prompts};
use super::timings;
use crate::flags::{LoadFlags, ServeBenchFlags};
use crate::receipt::Receipt;
use alone::Compared;
pub(crate) use exchange::Asked;
use exchange::chat_body;
pub(crate) use load::{Loaded, Pace, load};
use mixed::Mixed;
pub(crate) use server::Server;

/// Loads a server, prints what it found and writes the receipt; an error when replies differ or none was measured.
pub(crate) fn serve(flags: &ServeBenchFlags) -> anyhow::Result<()> {
    runtime()?.block_on(run(flags, Receipt::of_bench("serve")))
}

/// One thread: it only moves small pieces, and the rest of the processor may be the server's.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the client failed")
}

async fn run(flags: &ServeBenchFlags, mut receipt: Receipt) -> anyhow::Result<()> {
    let server = Arc::new(Server::new(&flags.url, api_key(&flags.load)?)?);
    let requests = Requests::new(&server, &flags.load).await?;
    let pace = pace(flags);
    let mut out = std::io::stdout();
    writeln!(out, "{} on {}, {}", requests.model, flags.url, report::pace(pace, requests.asked.len()))?;
    let limit = Duration::from_secs(flags.load.timeout_s.into());
    let loaded = load(&server, &requests.asked, pace, limit).await;
    writeln!(out, "{}", report::table(&loaded, pace))?;
    let compared = match flags.alone {
        true => Some(alone::compare(&server, &requests.asked, &loaded, limit).await),
        false => None,
    };
    let mixed = match flags.mixed {
        true => Some(mixed::run(&server, &requests, flags.mixed_words.into(), limit).await?),
        false => None,
    };
    for line in compared.iter().map(ToString::to_string).chain(mixed.iter().map(ToString::to_string)) {
        writeln!(out, "{line}")?;
    }
    fill(&mut receipt, flags, &requests, &loaded, pace);
    receipt.set("equality", compared.as_ref().map_or(Value::Null, Compared::to_json));
    receipt.set("mixed", mixed.as_ref().map_or(Value::Null, Mixed::to_json));
    receipt.write(&flags.receipt)?;
    ensure!(loaded.samples().next().is_some(), "no reply could be measured");
    match compared {
        Some(compared) if !compared.holds() => bail!("replies differ: {compared}"),
        _ => Ok(()),
    }
}

fn pace(flags: &ServeBenchFlags) -> Pace {
    match flags.rate {
        _ if flags.serial => Pace::Concurrency(1),
        Some(per_second) => Pace::Rate { per_second, seed: flags.load.prompts.seed },
        None => Pace::Concurrency(flags.concurrency.into()),
    }
}

fn fill(receipt: &mut Receipt, flags: &ServeBenchFlags, requests: &Requests, loaded: &Loaded, pace: Pace) {
    let prompts = &flags.load.prompts;
    receipt.set("url", flags.url.clone());
    receipt.set("endpoint_type", "openai-chat");
    receipt.set("model_id", requests.model.clone());
    receipt.set("num_prompts", requests.asked.len());
    receipt.set("distinct_prompts", requests.distinct);
    receipt.set("request_rate", json!(flags.rate));
    receipt.set("max_concurrency", json!(clients(pace)));
    receipt.set(
        "settings",
        json!({
            "max_tokens": prompts.max_tokens, "temperature": prompts.temperature, "seed": prompts.seed,
            "ignore_eos": prompts.ignore_eos, "draft": !flags.load.no_draft,
        }),
    );
    receipt.extend(fields(loaded, pace));
}

fn clients(pace: Pace) -> Option<usize> {
    match pace {
        Pace::Concurrency(clients) => Some(clients),
        Pace::Rate { .. } => None,
    }
}

/// What a load has measured: vLLM's fields, then ours.
pub(crate) fn fields(loaded: &Loaded, pace: Pace) -> Map<String, Value> {
    let samples: Vec<&exchange::Sample> = loaded.samples().collect();
    let all: Vec<timings::Timing> = samples.iter().map(|sample| sample.timing.clone()).collect();
    let failed = loaded.failures().count();
    let mut fields = timings::summary(&all, failed, loaded.seconds);
    fields.extend(timings::raw(&all));
    let steady = clients(pace).and_then(|clients| loaded.steady_tokens_per_second(clients));
    let list = |value: fn(&exchange::Sample) -> Value| samples.iter().map(|sample| value(sample)).collect();
    let ours: [(&str, Value); 9] = [
        ("unmeasured", json!(loaded.unmeasured().count())),
        ("reasons", json!(loaded.reasons())),
        ("steady_output_throughput", json!(steady)),
        ("prompt_tokens_per_second", json!(loaded.prompt_tokens_per_second())),
        ("tokens_per_round", json!(loaded.tokens_per_round())),
        ("names", list(|sample| json!(sample.name))),
        ("sent_s", list(|sample| json!(timings::rounded(sample.sent_s)))),
        ("statistics", list(|sample| sample.statistics.clone())),
        ("text_sha256", list(|sample| json!(super::hashes::of_text(&sample.text)))),
    ];
    fields.extend(ours.map(|(name, value)| (name.to_owned(), value)));
    fields
}

/// What a load asks.
pub(crate) struct Requests {
    model: String,
    pub(crate) asked: Vec<Asked>,
    /// Prompts among them; the others ask one of these again.
    distinct: usize,
}

impl Requests {
    /// As many requests as the flags say, over their prompts in turn.
    pub(crate) async fn new(server: &Server, flags: &LoadFlags) -> anyhow::Result<Self> {
        let model = match &flags.served_model {
            Some(model) => model.clone(),
            None => server.first_model().await?,
        };
        let all = prompts(&flags.prompts.prompts)?;
        let count = usize::from(flags.requests);
        let asked = all.iter().cycle().take(count).map(|prompt| ask(prompt, &model, flags)).collect();
        Ok(Requests { model, asked, distinct: count.min(all.len()) })
    }
}

fn ask(prompt: &Prompt, model: &str, flags: &LoadFlags) -> Asked {
    let settings = &flags.prompts;
    let mut body = chat_body(model, &prompt.messages, settings.max_tokens.into());
    body["temperature"] = json!(settings.temperature);
    body["seed"] = json!(settings.seed);
    // What only some servers know is said only if it is asked for.
    if let Some(tools) = &prompt.tools {
        body["tools"] = tools.clone();
    }
    if settings.ignore_eos {
        body["ignore_eos"] = json!(true);
    }
    if flags.no_draft {
        body["draft"] = json!(false);
    }
    Asked { name: prompt.name.clone(), body }
}

pub(crate) fn api_key(flags: &LoadFlags) -> anyhow::Result<Option<String>> {
    let Some(path) = &flags.api_key_file else { return Ok(None) };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let key = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(Some(key.with_context(|| format!("{} has no key", path.display()))?.to_owned()))
}
