//! `forerunner calibrate`: fits the temperatures of a drafter's confidences from rounds it runs here.

use std::io::Write;

use anyhow::{Context, ensure};
use forerunner_engine::gates::run_all;
use forerunner_lanes::{Calibration, Lanes, NewSequence, Options, SamplingRule, Target};

use crate::calibration;
use crate::check::cases::cases;
use crate::flags::CalibrateFlags;
use crate::setup::OpenedModel;

/// Replies at once.
const LANES: usize = 8;

/// Most rounds that are kept for the fit.
const SAMPLES: usize = 100_000;

/// Longest reply.
const MAX_TOKENS: usize = 128;

/// Drafts every round of the prompts' replies, greedy and sampled, and writes the temperatures that fit best.
pub(crate) fn calibrate(flags: &CalibrateFlags) -> anyhow::Result<()> {
    ensure!(
        flags.model.synth.is_none() || flags.output.is_some(),
        "a grown model has no directory to write to; name a file with --output"
    );
    let model = OpenedModel::open(&flags.model)?;
    let drafter = model.paths.drafter.clone().context("there is no drafter; name one with --drafter")?;
    let placed = model.place(&flags.model, &model.target_options(&flags.model, LANES)?)?;
    ensure!(placed.target.limits().has_confidence, "this drafter has no confidence head to calibrate");
    let target: Box<dyn Target + Send> = placed.target;
    let mut lanes = Lanes::new(target, Options { force_drafts: true, copies: false, ..Options::default() });
    lanes.record_confidences(SAMPLES);
    for temperature in [0.0, 0.8] {
        let sequence = |(index, case): (usize, forerunner_engine::gates::GateCase)| NewSequence {
            prompt: case.prompt,
            max_tokens: MAX_TOKENS,
            rule: SamplingRule { temperature, seed: flags.seed + index as u64, ..SamplingRule::default() },
            stop_tokens: model.stop_tokens(),
            draft: true,
            ..NewSequence::default()
        };
        let cases = cases(&model.text, flags.prompts)?;
        let sequences: Vec<NewSequence> = cases.into_iter().enumerate().map(sequence).collect();
        for group in sequences.chunks(LANES) {
            run_all(&mut lanes, group.to_vec());
        }
    }
    let samples = lanes.take_confidences();
    let fitted = Calibration::fit(&samples);
    let path = flags.output.clone().unwrap_or_else(|| drafter.join(calibration::FILE));
    calibration::write(&path, &fitted)?;
    let mut out = std::io::stdout();
    writeln!(out, "{} rounds; greedy {:.2?}; sampled {:.2?}", samples.len(), fitted.greedy, fitted.sampled)?;
    writeln!(out, "written to {}", path.display())?;
    Ok(())
}
