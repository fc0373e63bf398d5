//! What a suite found, a group at a time.

use std::fmt;

/// Failures of one group that are kept with their text; the others are counted.
const FAILURES_KEPT: usize = 5;

/// The outcome of one suite on one device.
#[derive(Debug, Clone)]
pub struct Report {
    suite: &'static str,
    device: String,
    groups: Vec<GroupOutcome>,
}

/// The outcome of one group of checks.
#[derive(Debug, Clone, Default)]
pub struct GroupOutcome {
    /// The group's name.
    pub name: &'static str,
    /// Checks run.
    pub checks: usize,
    /// Checks failed.
    pub failed: usize,
    /// Largest deviation met, as a share of its check's bound.
    pub worst: f64,
    /// What the first failures were.
    pub failures: Vec<String>,
}

impl Report {
    /// An empty report; `device` names the device and its mode.
    pub(super) fn new(suite: &'static str, device: &str, mode: &str) -> Self {
        Report { suite, device: format!("{device} ({mode})"), groups: Vec::new() }
    }

    /// Adds a check that saw a deviation of `share` of its bound; above 1 it failed, and `explain` says
    /// how.
    pub(super) fn check(&mut self, group: &'static str, share: f64, explain: impl FnOnce() -> String) {
        let outcome = self.group(group);
        outcome.checks += 1;
        outcome.worst = outcome.worst.max(share);
        if share > 1.0 {
            outcome.fail(explain());
        }
    }

    /// Adds a check that could not run to its end.
    pub(super) fn error(&mut self, group: &'static str, message: String) {
        let outcome = self.group(group);
        outcome.checks += 1;
        outcome.worst = f64::INFINITY;
        outcome.fail(message);
    }

    /// The suite's name.
    pub fn suite(&self) -> &'static str {
        self.suite
    }

    /// Its groups, in the order in which they ran.
    pub fn groups(&self) -> &[GroupOutcome] {
        &self.groups
    }

    /// Whether every check passed, and there was at least one.
    pub fn passed(&self) -> bool {
        !self.groups.is_empty() && !self.failed()
    }

    /// Whether a check failed.
    pub(super) fn failed(&self) -> bool {
        self.groups.iter().any(|group| group.failed > 0)
    }

    /// Checks run, over all groups.
    pub fn checks(&self) -> usize {
        self.groups.iter().map(|group| group.checks).sum()
    }

    /// # Panics
    /// With the whole report, if a check failed or none ran.
    pub fn assert_passed(&self) {
        assert!(self.passed(), "{self}");
    }

    fn group(&mut self, name: &'static str) -> &mut GroupOutcome {
        let index = self.groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            self.groups.push(GroupOutcome { name, ..GroupOutcome::default() });
            self.groups.len() - 1
        });
        &mut self.groups[index]
    }
}

impl GroupOutcome {
    fn fail(&mut self, message: String) {
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(message);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in &self.groups {
            for failure in &group.failures {
                writeln!(out, "FAILED {} {}: {failure}", self.suite, group.name)?;
            }
        }
        for group in &self.groups {
            let outcome =
                if group.failed == 0 { "passed".into() } else { format!("{} failed", group.failed) };
            writeln!(
                out,
                "SUMMARY {} {} on {}: {} checks, worst deviation {:.3} of its bound, {outcome}",
                self.suite, group.name, self.device, group.checks, group.worst
            )?;
        }
        Ok(())
    }
}
