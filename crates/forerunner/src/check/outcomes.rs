//! What a check has found, and the receipt of it.

use forerunner_engine::gates::{Difference, GateOutcome, GateSettings};
use serde_json::{Value, json};

use super::lengths::LengthOutcome;
use super::reference::ReferenceReport;
use crate::receipt::Receipt;

/// Collects the outcomes of a check.
pub(crate) struct Outcomes {
    receipt: Receipt,
    gates: Vec<Value>,
    lengths: Vec<Value>,
    reference: Value,
    passed: usize,
    failed: usize,
}

impl Outcomes {
    /// Nothing yet, of a model on a device.
    pub(crate) fn new(model: &str, device: &str) -> Self {
        let mut receipt = Receipt::new();
        receipt.set("model", model);
        receipt.set("device", device);
        Outcomes {
            receipt,
            gates: Vec::new(),
            lengths: Vec::new(),
            reference: Value::Null,
            passed: 0,
            failed: 0,
        }
    }

    /// What the replies of the gates are like.
    pub(crate) fn set_replies(&mut self, settings: &GateSettings) {
        self.receipt.set("seed", settings.seed);
        self.receipt.set("max_tokens", settings.max_tokens);
    }

    /// Adds an equality gate.
    pub(crate) fn add_equality(&mut self, outcome: &GateOutcome) {
        self.count(outcome.passed());
        let first = outcome.first.as_ref().map(|Difference { case, index, expected, found }| {
            json!({ "case": case, "index": index, "expected": expected, "found": found })
        });
        self.gates.push(json!({
            "gate": outcome.name,
            "passed": outcome.passed(),
            "replies": outcome.replies,
            "tokens": outcome.tokens,
            "differing": outcome.differing,
            "first_difference": first,
        }));
    }

    /// Adds the drafts after a length of prompt, with every row's cosine.
    pub(crate) fn add_length(&mut self, outcome: &LengthOutcome) {
        self.count(outcome.passed());
        let picks = &outcome.expected.picks;
        self.lengths.push(json!({
            "prompt_tokens": outcome.length,
            "passed": outcome.passed(),
            "cosines": outcome.cosines,
            "drafts": picks.iter().map(|pick| pick.token).collect::<Vec<_>>(),
            "draft_margins": picks.iter().map(|pick| pick.margin).collect::<Vec<_>>(),
            "drafts_found": outcome.found,
        }));
    }

    /// Adds the comparison with the reference, with every pick's margin.
    pub(crate) fn add_reference(&mut self, report: &ReferenceReport) {
        self.count(report.passed());
        let first_rounds: Vec<Value> = report
            .first_rounds
            .iter()
            .map(|first| {
                json!({
                    "case": first.case,
                    "cosine": first.cosine,
                    "largest_logit": first.scale,
                    "drafts": first.drafts.iter().map(|pick| pick.token).collect::<Vec<_>>(),
                    "draft_margins": first.drafts.iter().map(|pick| pick.margin).collect::<Vec<_>>(),
                    "drafts_found": first.found,
                })
            })
            .collect();
        let replies: Vec<Value> = report
            .replies
            .iter()
            .map(|reply| {
                json!({
                    "case": reply.case,
                    "tokens": reply.judgements.iter().map(|judgement| judgement.token).collect::<Vec<_>>(),
                    "picks": reply.judgements.iter().map(|judgement| judgement.pick.token).collect::<Vec<_>>(),
                    "margins": reply.judgements.iter().map(|judgement| judgement.pick.margin).collect::<Vec<_>>(),
                    "gaps": reply.judgements.iter().map(|judgement| judgement.gap).collect::<Vec<_>>(),
                })
            })
            .collect();
        self.reference =
            json!({ "passed": report.passed(), "first_rounds": first_rounds, "replies": replies });
    }

    /// Gates passed and failed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.passed, self.failed)
    }

    /// With everything that was found.
    pub(crate) fn into_receipt(self) -> Receipt {
        let mut receipt = self.receipt;
        receipt.set("gates", self.gates);
        receipt.set("reference", self.reference);
        receipt.set("drafts_after", self.lengths);
        receipt
    }

    fn count(&mut self, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }
}
