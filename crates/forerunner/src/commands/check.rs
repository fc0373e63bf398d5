//! `forerunner check`: the promises of this engine, tried on this machine.

use anyhow::{bail, ensure};
use forerunner_engine::gates::{self, GateLanes, GateSettings};
use forerunner_engine::{TargetOptions, kept_page_bytes};
use forerunner_lanes::{Lanes, Options};
use forerunner_text::Grammars;

use crate::check::cases::cases;
use crate::check::kernels::check_kernels;
use crate::check::lengths::LengthGate;
use crate::check::outcomes::Outcomes;
use crate::check::plant::planted;
use crate::check::reference::{ReferenceGate, ReferenceReport};
use crate::device::OpenTarget;
use crate::flags::CheckFlags;
use crate::setup::OpenedModel;
use crate::terminal::say;

/// Lanes of the check: the most streams that a gate shares.
const LANES: usize = 16;

/// Numbers of streams that share a round.
const SHARED: [usize; 3] = [4, 8, 16];

/// Pages kept of earlier prompts: room for those of a gate, and few enough for others to push them out.
const CACHE_PAGES: usize = 16;

/// Runs every gate, or every kernel's suites; an error when one fails.
pub(crate) fn check(flags: &CheckFlags) -> anyhow::Result<()> {
    if flags.kernels {
        check_kernels(flags)
    } else if flags.drafts_after.is_empty() {
        check_model(flags)
    } else {
        check_lengths(flags)
    }
}

/// The drafter alone, after long prompts.
fn check_lengths(flags: &CheckFlags) -> anyhow::Result<()> {
    let model = OpenedModel::open(&flags.model)?;
    let mut lengths: Vec<usize> = flags.drafts_after.iter().map(|length| *length as usize).collect();
    lengths.sort_unstable();
    let longest = lengths.last().copied().unwrap_or_default();
    // Every prompt is read from its start: what an earlier one left would not be tapped.
    let options = TargetOptions { prompt_cache_bytes: 0, ..model.target_options(&flags.model, 1)? };
    ensure!(
        longest < options.context,
        "--drafts-after has {longest}; accepted: less than {}, the context",
        options.context
    );
    let mut gate = LengthGate::load(&model, longest)?;
    let mut placed = model.place(&flags.model, &options)?;
    say(format_args!("check of {} on {}", model.paths.name, placed.device))?;
    let mut outcomes = Outcomes::new(&model.paths.name, &placed.device);
    for length in lengths {
        let outcome = gate.run(placed.target.as_mut(), length)?;
        say(format_args!("{outcome}"))?;
        outcomes.add_length(&outcome);
    }
    finish(outcomes, flags)
}

fn check_model(flags: &CheckFlags) -> anyhow::Result<()> {
    let model = OpenedModel::open(&flags.model)?;
    // Every device is checked on the path of those that run by themselves.
    let page_bytes = kept_page_bytes(model.target.config(), model.drafter.as_ref());
    let mut options = TargetOptions { queues_ahead: true, ..model.target_options(&flags.model, LANES)? };
    options.prompt_cache_bytes = options.prompt_cache_bytes.min(CACHE_PAGES * page_bytes);
    let mut placed = model.place(&flags.model, &options)?;
    let cases = cases(&model.text, flags.prompts)?;
    say(format_args!("check of {} on {}, {} prompts", model.paths.name, placed.device, cases.len()))?;
    let (tokenizer, vocabulary) = (&model.text.tokenizer, model.target.config().vocabulary);
    let grammars = Grammars::new(tokenizer, vocabulary, &model.stop_tokens())?;
    let settings = GateSettings {
        max_tokens: usize::from(flags.max_tokens),
        stop_tokens: model.stop_tokens(),
        seed: flags.seed,
        shared: SHARED.to_vec(),
        prompt_cache_pages: options.prompt_cache_bytes / page_bytes,
        grammars: gates::gate_grammars(&grammars)?,
    };
    let mut outcomes = Outcomes::new(&model.paths.name, &placed.device);
    outcomes.set_replies(&settings);
    let first = match ReferenceGate::load(&model)? {
        Ok(reference) => Some((reference.first_rounds(&mut placed.target, &cases)?, reference)),
        Err(skipped) => {
            say(format_args!("skip reference: {skipped}"))?;
            None
        }
    };
    let mut lanes = lanes(placed.target, flags.plant.as_deref())?;
    for temperature in [0.0, 0.8] {
        for outcome in gates::run(&mut lanes, &cases, &settings, temperature) {
            say(format_args!("{outcome}"))?;
            outcomes.add_equality(&outcome);
        }
    }
    if let Some((first_rounds, reference)) = first {
        let replies = reference.judge(&mut lanes, &cases, &settings);
        let report = ReferenceReport { first_rounds, replies };
        say(format_args!("{report}"))?;
        outcomes.add_reference(&report);
    }
    finish(outcomes, flags)
}

fn finish(outcomes: Outcomes, flags: &CheckFlags) -> anyhow::Result<()> {
    let (passed, failed) = outcomes.counts();
    outcomes.into_receipt().write(&flags.receipt)?;
    if failed > 0 {
        bail!("check failed: {failed} of {} gates", passed + failed);
    }
    say(format_args!("check passed: {passed} gates"))?;
    Ok(())
}

/// A scheduler that drafts as deep as it can, so that the gates meet every window.
fn lanes(target: Box<dyn OpenTarget + Send>, plant: Option<&str>) -> anyhow::Result<GateLanes> {
    let options = Options { force_drafts: true, ..Options::default() };
    Ok(Lanes::new(planted(target, plant)?, options))
}
