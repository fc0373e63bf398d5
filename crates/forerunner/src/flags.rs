//! What can be typed, and nothing about what it means: that is for `setup` and the commands.

mod bench;

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forerunner_synth::Specification;
use tracing_subscriber::filter::LevelFilter;

pub(crate) use bench::{
    Bench, BenchFlags, CompareFlags, LatencyFlags, LoadFlags, PromptFlags, ReceiptFlags, ServeBenchFlags,
    ThroughputFlags,
};

/// Runs LFM2 language models with lossless speculative decoding.
#[derive(Debug, Parser)]
#[command(name = "forerunner", version, arg_required_else_help = true)]
pub(crate) struct Flags {
    /// What is logged to standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogLevel::Warn)]
    pub(crate) log: LogLevel,
    /// TOML file of flags: keys are their names without the dashes, as in `parallel = 8`. What is typed goes first.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write the flags in force as a file for --config, and do nothing else.
    #[arg(long, global = true)]
    pub(crate) print_config: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One reply to standard output, statistics to standard error. The demo model drafts every round, to show it.
    Run(RunFlags),
    /// A conversation in the terminal.
    Chat(ChatFlags),
    /// An OpenAI-compatible HTTP server.
    Serve(ServeFlags),
    /// This engine's promises, tried on this machine: drafted = plain, shared = alone, after a cancel = alone.
    Check(CheckFlags),
    /// Speeds on this machine or of a server, each beside an equality.
    Bench(BenchFlags),
    /// Fits the temperatures of a drafter's confidences and writes them beside it.
    Calibrate(CalibrateFlags),
    /// What a model directory holds.
    Info(InfoFlags),
    /// Fetches a model from the hub, going on where an earlier fetch broke off. For builds with the cargo feature pull.
    Pull(PullFlags),
    /// What this binary and this machine can do.
    Capabilities(CapabilitiesFlags),
    /// Completions of this command line for a shell, to standard output.
    Completions(CompletionsFlags),
    /// A page of the manual, to standard output: `forerunner man serve | man -l -`.
    Man(ManFlags),
    /// Grows the demo model to the shape of a larger one, to measure speed with its bytes and real acceptance.
    Synth(SynthFlags),
}

/// Which model runs, and on what.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelFlags {
    /// Directory of the model. Without it, the demo model and its drafter that come with this program.
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Directory of the model's DSpark drafter.
    #[arg(long, value_name = "DIR", requires = "model")]
    pub(crate) drafter: Option<PathBuf>,
    /// Leave the drafter of the demo model, or of a grown one, out of memory. No reply changes.
    #[arg(long, conflicts_with = "drafter")]
    pub(crate) no_drafter: bool,
    /// Bits of the drafter's linear weights in memory. With 8, those that are dense are quantized as they are loaded: less to
    /// read for each draft, and nearly as many accepted. No reply changes.
    #[arg(long, value_name = "BITS", default_value = "16", value_parser = drafter_bits)]
    pub(crate) drafter_bits: u8,
    /// For measurements, instead of a model: the demo model and its drafter grown to a shape while they are loaded, as
    /// `forerunner synth` writes it; such as lfm2.5-24b-a2b,4bit,0.40.
    #[arg(long, value_name = "SHAPE[,FORMAT][,SKEW]", conflicts_with_all = ["model", "drafter"])]
    pub(crate) synth: Option<Specification>,
    /// Device to run on.
    #[arg(long, value_enum, default_value_t = DeviceName::Auto)]
    pub(crate) device: DeviceName,
    /// Which GPU of --device gpu: a part of its name, such as radeon [default: the best one].
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,
    /// Kernels for the GPU in place of the built ones: for work on kernels.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) kernel_image: Option<PathBuf>,
    /// Arithmetic of the CPU: one for every row count, the best one of this machine by default.
    #[arg(long, value_enum, default_value_t = ModeName::Auto)]
    pub(crate) mode: ModeName,
    /// CPU threads [default: all].
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Most tokens of a prompt and its reply together [default: the model's, but at most 32768].
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<NonZeroUsize>,
    /// Draft every round as deep as it goes, whatever it costs: for measurements.
    #[arg(long, hide = true)]
    pub(crate) force_drafts: bool,
    /// GiB of memory for prompts that later ones may begin with; 0 keeps none.
    #[arg(long, value_name = "G", default_value_t = 1.0, value_parser = gibibytes)]
    pub(crate) prompt_cache_gib: f64,
    /// Milliseconds for measuring at start what rounds cost here, which decides how far to draft; with 0 every round
    /// counts as equally dear, and drafts go as deep as they can [default: 300, for serve 1000].
    #[arg(long, value_name = "MS")]
    pub(crate) measure_ms: Option<u64>,
}

impl ModelFlags {
    /// The flags of a demonstration: with no model named, the demo model is run to show drafts, so every round is
    /// drafted, also where plain rounds would be as fast.
    pub(crate) fn demonstrating(&self) -> ModelFlags {
        ModelFlags {
            force_drafts: self.force_drafts || (self.model.is_none() && self.synth.is_none()),
            ..self.clone()
        }
    }

    /// Bytes of the prompt cache.
    pub(crate) fn prompt_cache_bytes(&self) -> usize {
        (self.prompt_cache_gib * (1u64 << 30) as f64) as usize
    }
}

/// An amount of memory; clap names the flag and the value beside what this says.
fn gibibytes(text: &str) -> Result<f64, String> {
    let accepted = 0.0..=65_536.0;
    let parsed = text.parse().ok().filter(|amount| accepted.contains(amount));
    parsed.ok_or_else(|| format!("accepted: {} to {}", accepted.start(), accepted.end()))
}

/// Fewer bits lose too many drafts to be worth their speed.
fn drafter_bits(text: &str) -> Result<u8, String> {
    match text {
        "16" => Ok(16),
        "8" => Ok(8),
        _ => Err("accepted: 16, as stored, and 8".into()),
    }
}

/// How replies in the terminal are generated.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReplyFlags {
    /// Most tokens of a reply [default: what the context leaves].
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<usize>,
    /// 0 takes the likeliest token each time.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Seed of the draws; the same seed draws the same reply [default: random].
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Do not draft. The reply is the same, at another speed.
    #[arg(long)]
    pub(crate) no_draft: bool,
}

/// `forerunner run`
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// What to ask.
    pub(crate) prompt: String,
    /// What to tell the model before the prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub(crate) system: Option<String>,
    /// Continue the prompt as it stands, without the chat template.
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) reply: ReplyFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
}

/// `forerunner chat`
#[derive(Debug, Args)]
pub(crate) struct ChatFlags {
    /// What to tell the model before the conversation.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    #[command(flatten)]
    pub(crate) reply: ReplyFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
}

/// `forerunner serve`
#[derive(Debug, Args)]
pub(crate) struct ServeFlags {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// Replies generated at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) parallel: u16,
    /// Requests that may wait; more get status 429.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) max_queue: u32,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// File of API keys, one a line; requests without one get status 401. Without it, everybody may ask.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Certificate chain in PEM, the server's own first: HTTPS instead of HTTP. For builds with the cargo feature tls.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The certificate's private key in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Origin of web pages that may ask, such as https://example.org; may be given several times, and * means any.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors_origin: Vec<String>,
    /// Largest body of a request in MiB; larger ones get status 413.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) body_limit_mib: u16,
    /// Connections at once; more wait.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) max_connections: u32,
    /// Seconds in which a client must send a request's headers, or it is hung up on; also how long it may keep an idle
    /// connection.
    #[arg(long, value_name = "N", default_value_t = 75, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) header_seconds: u16,
}

/// `forerunner check`
#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// Check no model but the device's kernels: every operation against plain loops, rows alone and among others, and
    /// committed draws, with planted faults that must be caught. On the CPU in every mode that this machine has, unless
    /// --mode names one.
    #[arg(long)]
    pub(crate) kernels: bool,
    /// Check no replies but the drafts after prompts of so many tokens: the drafter against its reference in fp32, which is
    /// fed the device's own taps. The longest needs --context.
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with_all = ["kernels", "prompts"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) drafts_after: Vec<u32>,
    /// Prompts of each gate, from 96 of chat, arithmetic, JSON, code and tool calls.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) prompts: usize,
    /// Most tokens of a reply.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) max_tokens: u16,
    /// Seed of the sampled gates.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) receipt: ReceiptFlags,
    /// Break a promise on purpose, to see its gate fail.
    #[arg(long, value_name = "FAULT", hide = true)]
    pub(crate) plant: Option<String>,
}

/// `forerunner calibrate`
#[derive(Debug, Args)]
pub(crate) struct CalibrateFlags {
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// Prompts whose replies are drafted, greedy and sampled, from 96 of chat, arithmetic, JSON, code and tool calls.
    #[arg(long, value_name = "N", default_value_t = 96)]
    pub(crate) prompts: usize,
    /// Seed of the sampled replies.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where to write [default: calibration.json in the drafter's directory].
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `forerunner info`
#[derive(Debug, Args)]
pub(crate) struct InfoFlags {
    /// Directory of the model. Without it, the demo model.
    #[arg(value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Directory of a drafter, to see whether it fits.
    #[arg(long, value_name = "DIR", requires = "model")]
    pub(crate) drafter: Option<PathBuf>,
}

/// `forerunner pull`
#[derive(Debug, Args)]
pub(crate) struct PullFlags {
    /// The model, ORG/NAME. `--model ORG/NAME` finds it afterwards.
    pub(crate) model: String,
    /// Branch, tag or commit.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) revision: String,
    /// Where to put it [default: a folder of this platform's for data].
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// The hub.
    #[arg(long, value_name = "URL", default_value = "https://huggingface.co")]
    pub(crate) endpoint: String,
    /// File with a token, for models that are not public.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// `forerunner capabilities`
#[derive(Debug, Args)]
pub(crate) struct CapabilitiesFlags {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `forerunner completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsFlags {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `forerunner man`
#[derive(Debug, Args)]
pub(crate) struct ManFlags {
    /// A command; without it, the program.
    pub(crate) command: Option<String>,
}

/// `forerunner synth`
#[derive(Debug, Args)]
pub(crate) struct SynthFlags {
    /// What to grow to: lfm2.5-24b-a2b, lfm2-8b-a1b, mid, or a file that describes a shape (docs/synth.md section 5).
    #[arg(required_unless_present = "dequantize", requires = "directory", conflicts_with = "dequantize")]
    pub(crate) shape: Option<String>,
    /// Where to write: the target goes to DIR/target, its drafter to DIR/drafter.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// How the target is stored: 4bit as MLX quantizes, or bf16. The drafter is bf16.
    #[arg(long, value_name = "FORMAT", default_value = "4bit")]
    pub(crate) format: String,
    /// Share of the tokens that use the first copy of the experts, so that rows of a window share more experts; all
    /// copies equally often when left out.
    #[arg(long, value_name = "SHARE")]
    pub(crate) skew: Option<f64>,
    /// Write SOURCE with every quantized matrix as bf16, which gives equal tokens, to DESTINATION.
    #[arg(long, hide = true, num_args = 2, value_names = ["SOURCE", "DESTINATION"])]
    pub(crate) dequantize: Vec<PathBuf>,
}

/// Devices by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceName {
    /// The best one of this machine: an NVIDIA GPU when there is one that works, else the CPU.
    Auto,
    Cpu,
    /// An NVIDIA GPU, by its driver.
    Cuda,
    /// Any GPU, by Metal, Vulkan or Direct3D 12.
    Gpu,
}

/// Arithmetics of the CPU by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// The best one of this machine.
    Auto,
    Amx,
    Avx512,
    Avx2,
    Neon,
    Portable,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub(crate) fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn a_drafter_has_its_own_bits_or_eight() {
        let parsed = |bits: &str| Flags::try_parse_from(["forerunner", "run", "--drafter-bits", bits, "hi"]);
        assert!(parsed("16").is_ok() && parsed("8").is_ok());
        let refused = parsed("4").expect_err("4 bits").to_string();
        assert!(refused.contains("--drafter-bits") && refused.contains("accepted: 16"), "{refused}");
    }

    #[test]
    fn memory_is_an_amount() {
        let parsed =
            |gib: &str| Flags::try_parse_from(["forerunner", "run", "--prompt-cache-gib", gib, "hi"]);
        assert!(parsed("0").is_ok() && parsed("0.5").is_ok());
        for refused in ["-1", "NaN", "inf", "much"] {
            let error =
                Flags::try_parse_from(["forerunner", "run", &format!("--prompt-cache-gib={refused}"), "hi"]);
            let text = error.unwrap_err().to_string();
            assert!(text.contains("--prompt-cache-gib") && text.contains("accepted: 0 to 65536"), "{text}");
        }
    }

    #[test]
    fn a_drafter_belongs_to_a_named_model() {
        assert!(Flags::try_parse_from(["forerunner", "run", "--drafter", "d", "hi"]).is_err());
        assert!(Flags::try_parse_from(["forerunner", "run", "--model", "m", "--drafter", "d", "hi"]).is_ok());
        let both = ["forerunner", "run", "--model", "m", "--drafter", "d", "--no-drafter", "hi"];
        assert!(Flags::try_parse_from(both).is_err());
    }
}
