//! `forerunner check --kernels`: every operation of a device held to the oracle, to itself and to committed draws.

use std::io;

use anyhow::bail;
use forerunner_reference::suites::{GroupOutcome, Report, faults};
use forerunner_tensor::LaunchLimit;
use serde_json::{Value, json};

use crate::device::{SuiteDevice, faulty_device, suite_devices};
use crate::flags::CheckFlags;
use crate::receipt::Receipt;
use crate::terminal::say;

/// What all devices and the planted faults have given.
#[derive(Debug, Default)]
struct Found {
    devices: Vec<Value>,
    limits: usize,
    groups: usize,
    failed_groups: usize,
    checks: usize,
    failed_checks: usize,
    /// Planted faults, each as often as a group must catch it.
    planted: usize,
    missed: Vec<String>,
}

/// Runs the suites and then the planted faults; an error when a check fails or a fault is missed.
pub(crate) fn check_kernels(flags: &CheckFlags) -> anyhow::Result<()> {
    let devices = match &flags.plant {
        Some(fault) => vec![faulty_device(fault)?],
        None => suite_devices(&flags.model)?,
    };
    let mut found = Found::default();
    for device in &devices {
        found.run(&**device)?;
    }
    found.plant()?;
    say(found.summary())?;
    let mut receipt = Receipt::new();
    receipt.set("kernels", found.devices.clone());
    receipt.set("controls", json!({ "planted": found.planted, "missed": found.missed }));
    receipt.set("summary", found.summary());
    receipt.write(&flags.receipt)?;
    if !found.passed() {
        let Found { failed_groups, groups, missed, .. } = &found;
        bail!("check failed: {failed_groups} of {groups} groups, {} planted faults missed", missed.len());
    }
    Ok(())
}

impl Found {
    fn run(&mut self, device: &dyn SuiteDevice) -> io::Result<()> {
        say(format_args!("kernels of {}", device.name()))?;
        for limit in device.launch_limits() {
            say(limit_line(limit))?;
        }
        self.limits += device.launch_limits().len();
        let mut suites = Vec::new();
        device.run(&mut |report| {
            suites.push(suite_json(report));
            self.add(report)
        })?;
        let limits: Vec<Value> = device.launch_limits().iter().map(limit_json).collect();
        self.devices.push(json!({ "device": device.name(), "launch_limits": limits, "suites": suites }));
        Ok(())
    }

    fn add(&mut self, report: &Report) -> io::Result<()> {
        for group in report.groups() {
            self.groups += 1;
            self.failed_groups += usize::from(group.failed > 0);
            self.checks += group.checks;
            self.failed_checks += group.failed;
            say(group_line(report.suite(), group))?;
            for failure in &group.failures {
                say(format_args!("     {failure}"))?;
            }
        }
        Ok(())
    }

    /// Proves the suites: devices that are broken in known ways must fail them.
    fn plant(&mut self) -> io::Result<()> {
        (self.planted, self.missed) = (faults::planted(), faults::missed());
        let caught = self.planted - self.missed.len();
        let verdict = verdict(self.missed.is_empty());
        say(format_args!("{verdict} planted faults: {caught} of {} caught", self.planted))?;
        self.missed.iter().try_for_each(|missed| say(format_args!("     missed: {missed}")))
    }

    fn passed(&self) -> bool {
        self.groups > 0 && self.failed_groups == 0 && self.missed.is_empty()
    }

    /// The last line. Programs read it: keys keep their names, and new ones come before the outcome.
    fn summary(&self) -> String {
        let Found { limits, groups, failed_groups, checks, failed_checks, planted, missed, .. } = self;
        format!(
            "SUMMARY kernels devices={} limits={limits} groups={groups} failed_groups={failed_groups} \
             checks={checks} failed_checks={failed_checks} planted={planted} caught={} outcome={}",
            self.devices.len(),
            planted - missed.len(),
            if self.passed() { "passed" } else { "failed" }
        )
    }
}

fn verdict(passed: bool) -> &'static str {
    if passed { "ok  " } else { "FAIL" }
}

fn group_line(suite: &str, group: &GroupOutcome) -> String {
    let GroupOutcome { name, checks, failed, worst, .. } = group;
    let verdict = verdict(*failed == 0);
    format!(
        "{verdict} {suite} {name}: {checks} checks, {failed} failed, worst deviation {worst:.3} of its bound"
    )
}

fn limit_line(LaunchLimit { kernel, most }: &LaunchLimit) -> String {
    let most: Vec<String> = most.iter().map(|(what, amount)| format!("{amount} {what}")).collect();
    format!("     {kernel}: at most {}", most.join(", "))
}

fn suite_json(report: &Report) -> Value {
    let group = |group: &GroupOutcome| {
        json!({
            "group": group.name, "checks": group.checks, "failed": group.failed,
            // A check that could not run has no deviation, which JSON writes as null.
            "worst_deviation_of_bound": group.worst, "failures": group.failures,
        })
    };
    json!({ "suite": report.suite(), "groups": report.groups().iter().map(group).collect::<Vec<_>>() })
}

fn limit_json(LaunchLimit { kernel, most }: &LaunchLimit) -> Value {
    let amount = |(what, amount): &(&str, u64)| json!({ "of": what, "most": amount });
    json!({ "kernel": kernel, "limits": most.iter().map(amount).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_group_or_a_missed_fault_fails_the_check() {
        let sound = || Found { groups: 2, checks: 9, planted: 3, ..Found::default() };
        assert!(sound().passed());
        let missed = Found { missed: vec!["a fault".into()], ..sound() };
        let expected = "SUMMARY kernels devices=0 limits=0 groups=2 failed_groups=0 checks=9 failed_checks=0 planted=3 \
                        caught=2 outcome=failed";
        assert_eq!(missed.summary(), expected);
        assert!(!Found { failed_groups: 1, ..sound() }.passed());
        assert!(!Found::default().passed(), "nothing was checked");
    }

    #[test]
    fn a_limit_is_told_with_what_it_is_of() {
        let limit = LaunchLimit::new("route", &[("experts", 256), ("picks of a row", 32)]);
        assert_eq!(limit_line(&limit), "     route: at most 256 experts, 32 picks of a row");
    }
}
