//! What can be typed after `forerunner bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ModelFlags;

/// `forerunner bench`
#[derive(Debug, Args)]
pub(crate) struct BenchFlags {
    #[command(subcommand)]
    pub(crate) bench: Bench,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Replies on this machine, without HTTP: drafted against plain by kind of prompt and number of streams.
    Throughput(ThroughputFlags),
    /// One reply at a time by the length of its prompt: first tokens cold and cached, decode, gaps, memory.
    Latency(LatencyFlags),
    /// Load on a server that speaks OpenAI's chat completions, ours or another.
    Serve(ServeBenchFlags),
    /// Two servers or two commands in turn, with the spread of their ratio.
    Compare(CompareFlags),
}

/// `forerunner bench throughput`
#[derive(Debug, Args)]
pub(crate) struct ThroughputFlags {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// Numbers of replies at once.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,8,16")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) streams: Vec<u16>,
    /// Every stream of a run has the same prompt.
    #[arg(long)]
    pub(crate) same: bool,
    /// Replies of a timed run; at least as many as there are streams.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) requests: u16,
    /// Fewest alternated pairs of a plain and a drafted run. More follow while the 95% interval of their ratio is 0.03
    /// wide or wider.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(3..=1000))]
    pub(crate) pairs: u16,
    /// Most pairs; where it is less than --pairs, there are as many as that.
    #[arg(long, value_name = "N", default_value_t = 49, value_parser = clap::value_parser!(u16).range(3..=1000))]
    pub(crate) most_pairs: u16,
    #[command(flatten)]
    pub(crate) prompts: PromptFlags,
    #[command(flatten)]
    pub(crate) receipt: ReceiptFlags,
    /// Break a promise on purpose, to see its column turn red.
    #[arg(long, value_name = "FAULT", hide = true)]
    pub(crate) plant: Option<String>,
}

/// `forerunner bench latency`
#[derive(Debug, Args)]
pub(crate) struct LatencyFlags {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// Tokens of the prompts.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "512,2048,8192")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1_048_576))]
    pub(crate) lengths: Vec<u32>,
    /// Replies that there is room for, though one runs at a time: memory is that of a server with as many.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) parallel: u16,
    /// New prompts of each length for the plain and for the drafted side; one has no spread.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    #[command(flatten)]
    pub(crate) prompts: PromptFlags,
    #[command(flatten)]
    pub(crate) receipt: ReceiptFlags,
    /// Break a promise on purpose, to see its column turn red.
    #[arg(long, value_name = "FAULT", hide = true)]
    pub(crate) plant: Option<String>,
}

/// `forerunner bench compare`
#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// A server's URL, or a command with its arguments in one word.
    pub(crate) a: String,
    /// What it is compared with.
    pub(crate) b: String,
    /// Rounds of A and then B.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=1000))]
    pub(crate) rounds: u16,
    /// Servers: requests at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// Fail when their outputs or replies differ.
    #[arg(long)]
    pub(crate) equal: bool,
    #[command(flatten)]
    pub(crate) load: LoadFlags,
    #[command(flatten)]
    pub(crate) receipt: ReceiptFlags,
}

/// `forerunner bench serve`
#[derive(Debug, Args)]
pub(crate) struct ServeBenchFlags {
    /// The server, such as http://127.0.0.1:8080.
    pub(crate) url: String,
    /// Requests at once: the next is sent when one has ended.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// Requests a second, at random, however many are under way.
    #[arg(long, value_name = "R", conflicts_with_all = ["concurrency", "serial"], value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// One request after another.
    #[arg(long, conflicts_with = "concurrency")]
    pub(crate) serial: bool,
    /// Repeat each prompt by itself and compare the texts; where the server tells of drafts, without drafts too.
    #[arg(long)]
    pub(crate) alone: bool,
    /// Also let a long prompt enter while one stream decodes, and report what that stream notices.
    #[arg(long)]
    pub(crate) mixed: bool,
    /// Words of that prompt.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) mixed_words: u16,
    #[command(flatten)]
    pub(crate) load: LoadFlags,
    #[command(flatten)]
    pub(crate) receipt: ReceiptFlags,
}

/// What a load is made of.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadFlags {
    /// Requests in all; prompts are asked in turn.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) requests: u16,
    #[command(flatten)]
    pub(crate) prompts: PromptFlags,
    /// Model to ask for [default: the first that the server names].
    #[arg(long, value_name = "NAME")]
    pub(crate) served_model: Option<String>,
    /// File whose first line is the server's API key.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Ask for replies without drafts, of a server that takes the field `draft`.
    #[arg(long)]
    pub(crate) no_draft: bool,
    /// Seconds that a reply may take.
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub(crate) timeout_s: u32,
}

/// A rate of requests; clap names the flag and the value beside what this says.
fn rate(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && *rate <= 1e6);
    parsed.ok_or_else(|| "accepted: above 0, at most 1000000".to_owned())
}

/// What a benchmark asks.
#[derive(Debug, Clone, Args)]
pub(crate) struct PromptFlags {
    /// Chat messages, one JSON object a line; may be given several times, and its name is the kind of its prompts
    /// [default: 96 of chat, arithmetic, JSON, code, copies and tool calls].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Vec<PathBuf>,
    /// Most tokens of a reply.
    #[arg(long, value_name = "N", default_value_t = 96, value_parser = clap::value_parser!(u16).range(1..=32768))]
    pub(crate) max_tokens: u16,
    /// 0 takes the likeliest token each time.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Seed of the draws.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Go on past the end of a text, so that all replies are of the same length.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
}

/// What a check or a benchmark leaves behind.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReceiptFlags {
    /// Also write all that was found as JSON, with the command, the commit, the machine and every raw value.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// What a reader of the receipt should know besides, such as what shares the machine.
    #[arg(long, value_name = "TEXT", requires = "receipt")]
    pub(crate) note: Option<String>,
}
