//! `forerunner bench latency`: one reply at a time, by the length of its prompt.

mod length;

use std::io::Write;

use anyhow::ensure;
use forerunner_lanes::TokenId;
use serde_json::json;

use super::equality::ensure_all;
use super::local::{LocalEngine, LocalPrompt, ReplySettings};
use super::prompts::{Prompt, prompts};
use crate::flags::LatencyFlags;
use crate::receipt::Receipt;
use crate::setup::Sizes;
use crate::terminal::banner;
use length::Length;

/// Measures, prints a row a length, and writes the receipt; an error when replies differ.
pub(crate) fn latency(flags: &LatencyFlags) -> anyhow::Result<()> {
    // What is submitted has a lane; the queue is never the limit.
    let sizes = Sizes::serving(flags.parallel.into(), 1);
    let all = prompts(&flags.prompts.prompts)?;
    let mut receipt = Receipt::of_bench("latency");
    let engine = LocalEngine::start(&flags.model, &sizes, flags.plant.as_deref())?;
    engine.describe(&mut receipt);
    let handle = engine.handle();
    // Every reply is to decode as many tokens at its context.
    let settings = ReplySettings { ignore_end: true, ..ReplySettings::plain(&flags.prompts) };
    check_lengths(&flags.lengths, settings.max_tokens, handle.info().context)?;
    let mut source = Source::new(&all, &engine)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}\n{}", banner(handle.info()), length::COLUMNS)?;
    let mut lengths = Vec::new();
    for tokens in &flags.lengths {
        let length = Length::run(&engine, *tokens as usize, flags.rounds.into(), &mut source, &settings)?;
        writeln!(out, "{}", length.row())?;
        lengths.push(length);
    }
    let prompts = &flags.prompts;
    receipt.set(
        "settings",
        json!({
            "lengths": flags.lengths, "parallel": flags.parallel, "rounds": flags.rounds, "max_tokens": prompts.max_tokens,
            "temperature": prompts.temperature, "seed": prompts.seed, "force_drafts": flags.model.force_drafts,
            "threads": flags.model.threads, "planted": flags.plant,
        }),
    );
    receipt.set("lengths", lengths.iter().map(Length::to_json).collect::<Vec<_>>());
    receipt.write(&flags.receipt)?;
    ensure_all(&[
        ("drafted = plain", lengths.iter().map(|length| &length.drafted_is_plain).collect()),
        ("cached = cold", lengths.iter().map(|length| &length.cached_is_cold).collect()),
    ])
}

fn check_lengths(lengths: &[u32], max_tokens: usize, context: usize) -> anyhow::Result<()> {
    for length in lengths {
        ensure!(
            *length as usize + max_tokens <= context,
            "--lengths has {length}, with replies of {max_tokens} tokens; accepted: at most {context} together, \
             the context"
        );
    }
    Ok(())
}

/// Prompts of any length, made of the benchmark's own texts, of which no two begin alike.
pub(super) struct Source {
    tokens: Vec<TokenId>,
    vocabulary: usize,
    made: usize,
}

impl Source {
    fn new(prompts: &[Prompt], engine: &LocalEngine) -> anyhow::Result<Self> {
        let mut tokens = Vec::new();
        for prompt in prompts {
            tokens.extend(prompt.tokens(&engine.text)?);
        }
        Ok(Source { tokens, vocabulary: engine.handle().info().vocabulary, made: 0 })
    }

    /// The next prompt. Its first two tokens are its own, so that nothing of it is stored before.
    fn next(&mut self, length: usize) -> LocalPrompt {
        self.made += 1;
        let own = [self.made / self.vocabulary, self.made % self.vocabulary].map(|token| token as TokenId);
        // Each begins elsewhere in the texts, so that what follows differs too.
        let rest = self.tokens.iter().copied().cycle().skip(self.made * 31 % self.tokens.len());
        let tokens = own.into_iter().chain(rest).take(length).collect();
        LocalPrompt { name: format!("{length} tokens, {}", self.made), kind: "long".into(), tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_prompts_begin_alike() {
        let mut source = Source { tokens: (0..100).collect(), vocabulary: 5, made: 0 };
        let prompts: Vec<LocalPrompt> = (0..20).map(|_| source.next(8)).collect();
        for (index, prompt) in prompts.iter().enumerate() {
            assert_eq!(prompt.tokens.len(), 8);
            assert!(prompts[..index].iter().all(|other| other.tokens[..2] != prompt.tokens[..2]));
        }
        assert_eq!(source.next(1).tokens.len(), 1);
    }

    #[test]
    fn a_length_must_fit_the_context() {
        assert!(check_lengths(&[10, 22], 10, 32).is_ok());
        let error = check_lengths(&[10, 23], 10, 32).unwrap_err().to_string();
        assert!(error.contains("--lengths has 23") && error.contains("at most 32"), "{error}");
    }
}
