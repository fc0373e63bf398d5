//! The device against the fp32 reference: first-row logits, first drafts, and every pick of every greedy reply.

use std::fmt;

use anyhow::Context;
use forerunner_engine::gates::{self, FirstRound, GateCase, GateLanes, GateSettings};
use forerunner_lanes::{NewSequence, SamplingRule, TokenId};
use forerunner_reference::{Judgement, Pick, ReferenceDrafter, ReferenceTarget, judge};

use crate::device::OpenTarget;
use crate::setup::OpenedModel;

/// Least cosine between the device's first-row logits and the reference's, over all prompts and for the middle
/// one. With bf16 between operations a router's near-tie can pick another expert, which moves a prompt's logits
/// as a whole: on the first 20 demo prompts plain scalar loops that round where every device does have 0.9961
/// and 0.9998 here, the CPU's modes 0.990 and 0.9998, and over all 96 prompts `avx512` has 0.940 and 0.9998 with every
/// pick the reference's but one near-tie. A broken kernel moves the middle one.
const COSINE_LEAST: f64 = 0.9;
const COSINE_MIDDLE: f64 = 0.9995;

/// Largest logit gap, as a share of the row's largest logit, at which two picks count as a near-tie: bf16
/// activations keep eight bits, so a logit's own rounding is some thousandths of that.
const NEAR_TIE: f32 = 0.02;

/// The models in fp32, in this machine's memory.
pub(crate) struct ReferenceGate {
    target: ReferenceTarget,
    drafter: Option<ReferenceDrafter>,
    taps: Vec<usize>,
}

/// One prompt's first round.
pub(crate) struct FirstComparison {
    pub(crate) case: String,
    /// Between the logits after the prompt.
    pub(crate) cosine: f64,
    /// Largest logit of the reference, in size.
    pub(crate) scale: f32,
    /// The reference's picks for the drafts after the device's first token.
    pub(crate) drafts: Vec<Pick>,
    /// The device's drafts.
    pub(crate) found: Vec<TokenId>,
}

/// One greedy reply of the device, judged.
pub(crate) struct JudgedReply {
    pub(crate) case: String,
    pub(crate) judgements: Vec<Judgement>,
}

/// All that the reference says.
pub(crate) struct ReferenceReport {
    pub(crate) first_rounds: Vec<FirstComparison>,
    pub(crate) replies: Vec<JudgedReply>,
}

impl ReferenceGate {
    /// Loads the reference, or says why it does not fit.
    pub(crate) fn load(model: &OpenedModel) -> anyhow::Result<Result<Self, String>> {
        let needed = 4 * model.target.summary().parameters;
        let available = available_memory().unwrap_or(8 << 30);
        if needed > available / 2 {
            return Ok(Err(format!(
                "the model in fp32 takes {} MiB, and {} MiB are available, half of which may be used",
                needed >> 20,
                available >> 20
            )));
        }
        let drafter = model.drafter.as_ref();
        Ok(Ok(ReferenceGate {
            target: ReferenceTarget::load(&model.target)?,
            drafter: drafter.map(ReferenceDrafter::load).transpose()?,
            taps: drafter.map_or(Vec::new(), |drafter| drafter.config().taps.clone()),
        }))
    }

    /// Runs every prompt's first round on both.
    pub(crate) fn first_rounds(
        &self,
        target: &mut Box<dyn OpenTarget + Send>,
        cases: &[GateCase],
    ) -> anyhow::Result<Vec<FirstComparison>> {
        cases.iter().map(|case| self.first_round(target, case).with_context(|| case.name.clone())).collect()
    }

    fn first_round(
        &self,
        target: &mut Box<dyn OpenTarget + Send>,
        case: &GateCase,
    ) -> anyhow::Result<FirstComparison> {
        let logits = target.first_logits(&case.prompt)?;
        let block = target.limits().block;
        let FirstRound { anchor, held } = gates::first_round(target.as_mut(), &case.prompt, block)?;
        let output = self.target.forward(&mut self.target.start(), &case.prompt, &self.taps);
        let mut last = output.hidden;
        last = last.slice(last.count() - 1..last.count());
        let expected = self.target.logits(&last);
        let drafts = self.drafter.as_ref().map_or(Vec::new(), |drafter| {
            let mut state = drafter.start();
            drafter.absorb(&mut state, &output.taps);
            drafter.draft(&state, &self.target.embedding, anchor).picks
        });
        Ok(FirstComparison {
            case: case.name.clone(),
            cosine: cosine(expected.row(0), &logits),
            scale: largest(expected.row(0)),
            drafts,
            found: held.iter().map(|draft| draft.token).collect(),
        })
    }

    /// Judges the device's greedy, drafted replies token by token.
    pub(crate) fn judge(
        &self,
        lanes: &mut GateLanes,
        cases: &[GateCase],
        settings: &GateSettings,
    ) -> Vec<JudgedReply> {
        let reply = |case: &GateCase| {
            let sequence = NewSequence {
                prompt: case.prompt.clone(),
                max_tokens: settings.max_tokens,
                rule: SamplingRule::default(),
                stop_tokens: settings.stop_tokens.clone(),
                draft: true,
                ..NewSequence::default()
            };
            let reply = gates::replies(lanes, vec![sequence]).remove(0);
            JudgedReply { case: case.name.clone(), judgements: judge(&self.target, &case.prompt, &reply) }
        };
        cases.iter().map(reply).collect()
    }
}

impl FirstComparison {
    fn passed(&self) -> bool {
        self.cosine >= COSINE_LEAST && drafts_agree(&self.drafts, &self.found, self.scale)
    }
}

impl JudgedReply {
    /// The first pick that the reference does not share and no near-tie explains.
    pub(crate) fn unexplained(&self, scale: f32) -> Option<(usize, &Judgement)> {
        self.judgements.iter().enumerate().find(|(_, judgement)| judgement.gap > NEAR_TIE * scale)
    }

    fn near_ties(&self) -> usize {
        self.judgements.iter().filter(|judgement| judgement.gap > 0.0).count()
    }
}

impl ReferenceReport {
    /// Whether logits, drafts and picks are the reference's, up to near-ties.
    pub(crate) fn passed(&self) -> bool {
        let scale = self.scale();
        self.first_rounds.iter().all(FirstComparison::passed)
            && self.middle_cosine() >= COSINE_MIDDLE
            && self.replies.iter().all(|reply| reply.unexplained(scale).is_none())
    }

    fn middle_cosine(&self) -> f64 {
        middle(self.first_rounds.iter().map(|first| first.cosine))
    }

    fn scale(&self) -> f32 {
        self.first_rounds.iter().fold(0.0, |scale, first| scale.max(first.scale))
    }
}

impl fmt::Display for ReferenceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for first in &self.first_rounds {
            writeln!(
                f,
                "     {}: first-row logits cosine {:.6}, {} of {} drafts equal",
                first.case,
                first.cosine,
                equal_drafts(&first.drafts, &first.found),
                first.drafts.len()
            )?;
        }
        let picks: usize = self.replies.iter().map(|reply| reply.judgements.len()).sum();
        let near_ties: usize = self.replies.iter().map(JudgedReply::near_ties).sum();
        let least = self.first_rounds.iter().fold(1.0, |least: f64, first| least.min(first.cosine));
        let verdict = if self.passed() { "ok  " } else { "FAIL" };
        write!(f, "{verdict} against the fp32 reference: {picks} picks, {near_ties} part at a near-tie, ")?;
        write!(f, "cosine {least:.6} at least, {:.6} in the middle", self.middle_cosine())?;
        let scale = self.scale();
        let unexplained = self.replies.iter().find_map(|reply| Some((reply, reply.unexplained(scale)?)));
        if let Some((reply, (index, Judgement { token, pick, gap }))) = unexplained {
            write!(
                f,
                "; first in {} at reply token {index}: token {token} instead of token {}, {gap:.3} below it",
                reply.case, pick.token
            )?;
        }
        Ok(())
    }
}

/// Drafts that equal the reference's, from the first.
pub(super) fn equal_drafts(expected: &[Pick], found: &[TokenId]) -> usize {
    expected.iter().zip(found).take_while(|(pick, found)| pick.token == **found).count()
}

/// Whether all drafts are there and equal up to the first near-tie, after which the chains may part. Logits are up to `scale`
/// in size.
pub(super) fn drafts_agree(expected: &[Pick], found: &[TokenId], scale: f32) -> bool {
    let parted = expected.get(equal_drafts(expected, found));
    found.len() == expected.len() && parted.is_none_or(|pick| pick.margin <= NEAR_TIE * scale)
}

/// The largest logit, in size.
pub(super) fn largest(logits: &[f32]) -> f32 {
    logits.iter().fold(0.0, |largest, logit| largest.max(logit.abs()))
}

/// The middle one of some cosines.
pub(super) fn middle(cosines: impl Iterator<Item = f64>) -> f64 {
    let mut cosines: Vec<f64> = cosines.collect();
    cosines.sort_by(f64::total_cmp);
    cosines[cosines.len() / 2]
}

/// Between two rows.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Bytes of memory that are free or can be freed, where the system says so.
fn available_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
