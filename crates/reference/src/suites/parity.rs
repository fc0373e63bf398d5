//! Parity: every operation against the oracle, at many shapes, with a stated bound for each of its outputs.
//!
//! Copies, picked experts, ring and value pages, draws, acceptance and drafts are equal. bf16 results have
//! a cosine of at least 0.9999 a row and are at most 2 bf16 steps of the row's largest value away (3 where
//! roundings follow one another); fp32 results are within 1e-4. The inputs leave margins wherever a choice
//! is made.

use forerunner_tensor::{Device, DeviceError};

use super::compare::{Key, Output, deviation, first_difference};
use super::memory;
use super::ops::{self, Group, RowOp, Visitor};
use super::places::{self, Cut, Layout};
use super::report::Report;
use crate::oracle::OracleDevice;

/// Runs all groups.
pub fn run<D: Device>(device: &D) -> Report {
    run_groups(device, &Group::ALL)
}

/// Runs some of the groups.
pub fn run_groups<D: Device>(device: &D, groups: &[Group]) -> Report {
    let mut report = Report::new("parity", device.name(), device.mode());
    for group in groups {
        visit(device, *group, false, &mut report);
    }
    report
}

/// Whether some check of the group fails; the first one that does is the last one run.
pub(super) fn fails<D: Device>(device: &D, group: Group) -> bool {
    let mut report = Report::new("parity", device.name(), device.mode());
    visit(device, group, true, &mut report);
    !report.passed()
}

fn visit<D: Device>(device: &D, group: Group, until_failure: bool, report: &mut Report) {
    if group == Group::Memory {
        memory::check(device, report);
    }
    ops::visit(group, &mut Parity { device, group: group.name(), until_failure, report });
}

struct Parity<'a, D: Device> {
    device: &'a D,
    group: &'static str,
    until_failure: bool,
    report: &'a mut Report,
}

impl<D: Device> Visitor for Parity<'_, D> {
    fn operation<O: RowOp>(&mut self, operation: &O) {
        for forwards in schedules(operation) {
            if self.until_failure && self.report.failed() {
                return;
            }
            if let Err(error) = self.compare(operation, &forwards) {
                self.report.error(self.group, format!("{}: {error}", operation.name()));
            }
        }
    }
}

/// Forwards of several widths; rows with a history also cut in two, lane by lane.
fn schedules<O: RowOp>(operation: &O) -> Vec<Vec<Layout>> {
    let (lanes, cut) = (operation.lanes(), operation.cut());
    let widths: &[usize] = if operation.large() { &[1, 9] } else { &[1, 3, 17, 40] };
    let mut schedules: Vec<Vec<Layout>> =
        widths.iter().map(|count| vec![places::beside(&lanes, cut, *count)]).collect();
    schedules.push(vec![places::all_rows(&lanes, cut)]);
    if cut != Cut::Free {
        schedules.push(places::alone(&lanes, cut));
    }
    if cut == Cut::Chunks {
        let long = |lane: &usize| lanes[*lane].count > 1;
        schedules.extend(
            (0..lanes.len()).filter(long).map(|lane| places::cut_after(&lanes, lane, lanes[lane].count / 2)),
        );
    }
    schedules
}

impl<D: Device> Parity<'_, D> {
    fn compare<O: RowOp>(&mut self, operation: &O, forwards: &[Layout]) -> Result<(), DeviceError> {
        let expected = ops::run(operation, &OracleDevice, forwards)?;
        let found = ops::run(operation, self.device, forwards)?;
        for (found, expected) in found.iter().zip(&expected) {
            self.compare_output(&operation.name(), found, expected);
        }
        Ok(())
    }

    fn compare_output(&mut self, operation: &str, found: &Output, expected: &Output) {
        for (row, ((key, found), (_, values))) in found.rows().zip(expected.rows()).enumerate() {
            if key != Key::Nothing {
                self.report.check(self.group, deviation(expected.bound, found, values), || {
                    let difference = first_difference(found, values);
                    let (name, bound) = (expected.name, expected.bound);
                    format!("{operation}: {name} of row {row} ({key:?}) beyond {bound:?}: {difference}")
                });
            }
        }
    }
}
