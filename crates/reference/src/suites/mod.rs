//! Suites that hold every device to the oracle, to row-invariance and to the committed draws.
//!
//! A device crate's tests are three lines: `parity::run(&device).assert_passed()`, and the same for
//! [`row_invariance`] and [`draws`]. Each run ends with one SUMMARY line a group. [`faults`] proves the
//! suites: a device that is broken in one known way must fail them.

pub mod draws;
pub mod faults;
pub mod parity;
pub mod row_invariance;

mod compare;
mod inputs;
mod memory;
mod ops;
mod places;
mod report;

pub use ops::Group;
pub use report::{GroupOutcome, Report};
