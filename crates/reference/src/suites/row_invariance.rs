//! Row-invariance: what a row gets, bit for bit, wherever it stands and whatever stands beside it.
//!
//! Each row is first computed alone. Then forwards of 1 to 40 rows, and one of all rows, bring it to every
//! index, with other lanes and pad rows beside it, and rows with a history are cut into two forwards at
//! every place. All bits must be those of the row alone, and nothing else may have been written.

use std::collections::BTreeMap;

use forerunner_tensor::{Device, DeviceError};

use super::compare::{Key, Output, first_difference, same_bits};
use super::ops::{self, Group, RowOp, Visitor};
use super::places::{self, Cut, Layout};
use super::report::Report;

/// Row counts of operations that are too large for all of 1 to 40.
const WIDTHS_OF_LARGE: [usize; 9] = [1, 2, 3, 8, 9, 16, 17, 33, 40];

/// Runs all groups.
pub fn run<D: Device>(device: &D) -> Report {
    run_groups(device, &Group::ALL)
}

/// Runs some of the groups.
pub fn run_groups<D: Device>(device: &D, groups: &[Group]) -> Report {
    let mut report = Report::new("row-invariance", device.name(), device.mode());
    for group in groups {
        visit(device, *group, false, &mut report);
    }
    report
}

/// Whether some check of the group fails; the first one that does is the last one run.
pub(super) fn fails<D: Device>(device: &D, group: Group) -> bool {
    let mut report = Report::new("row-invariance", device.name(), device.mode());
    visit(device, group, true, &mut report);
    !report.passed()
}

fn visit<D: Device>(device: &D, group: Group, until_failure: bool, report: &mut Report) {
    ops::visit(group, &mut Invariance { device, group: group.name(), until_failure, report });
}

struct Invariance<'a, D: Device> {
    device: &'a D,
    group: &'static str,
    until_failure: bool,
    report: &'a mut Report,
}

/// What rows got when they were alone.
type Alone = BTreeMap<(&'static str, Key), Vec<f64>>;

impl<D: Device> Visitor for Invariance<'_, D> {
    fn operation<O: RowOp>(&mut self, operation: &O) {
        if self.until_failure && self.report.failed() {
            return;
        }
        if let Err(error) = self.check(operation) {
            self.report.error(self.group, format!("{}: {error}", operation.name()));
        }
    }
}

impl<D: Device> Invariance<'_, D> {
    fn check<O: RowOp>(&mut self, operation: &O) -> Result<(), DeviceError> {
        let (lanes, cut) = (operation.lanes(), operation.cut());
        let mut state = operation.prepare(self.device)?;
        let outputs = ops::run_from(operation, self.device, &mut state, &places::alone(&lanes, cut))?;
        let alone = collect(&outputs);
        for (label, forwards) in schedules(operation) {
            if self.until_failure && self.report.failed() {
                break;
            }
            // Weights are loaded once; what has a history starts afresh.
            if cut != Cut::Free {
                state = operation.prepare(self.device)?;
            }
            let outputs = ops::run_from(operation, self.device, &mut state, &forwards)?;
            for output in &outputs {
                self.compare(&format!("{}, {label}", operation.name()), &alone, output);
            }
        }
        Ok(())
    }

    fn compare(&mut self, label: &str, alone: &Alone, output: &Output) {
        for (row, (key, found)) in output.rows().enumerate() {
            if matches!(key, Key::Forward | Key::Nothing) {
                continue;
            }
            let name = output.name;
            let Some(expected) = alone.get(&(name, key)) else {
                self.report.error(self.group, format!("{label}: {name} of {key:?} is not there alone"));
                continue;
            };
            let share = if same_bits(found, expected) { 0.0 } else { f64::INFINITY };
            self.report.check(self.group, share, || {
                let difference = first_difference(found, expected);
                format!("{label}: {name} at row {row} ({key:?}) is not what it is alone: {difference}")
            });
        }
    }
}

fn collect(outputs: &[Output]) -> Alone {
    let mut alone = Alone::new();
    for output in outputs {
        for (key, values) in output.rows() {
            alone.insert((output.name, key), values.to_vec());
        }
    }
    alone
}

/// Forwards with names for messages.
fn schedules<O: RowOp>(operation: &O) -> Vec<(String, Vec<Layout>)> {
    let (lanes, cut) = (operation.lanes(), operation.cut());
    let widths: Vec<usize> =
        if operation.large() { WIDTHS_OF_LARGE.to_vec() } else { (1..=places::ROWS).collect() };
    let mut schedules: Vec<(String, Vec<Layout>)> = widths
        .into_iter()
        .map(|count| (format!("{count} rows"), vec![places::beside(&lanes, cut, count)]))
        .collect();
    schedules.push(("all rows".into(), vec![places::all_rows(&lanes, cut)]));
    if cut == Cut::Chunks {
        for (lane, rows) in lanes.iter().enumerate() {
            let name = |at: usize| format!("lane {lane} cut after {at} of {}", rows.count);
            let cuts = places::cuts(*rows, operation.large());
            schedules.extend(cuts.into_iter().map(|at| (name(at), places::cut_after(&lanes, lane, at))));
        }
    }
    schedules
}
