//! The oracle passes its own suites.

use forerunner_reference::oracle::OracleDevice;
use forerunner_reference::suites::{draws, parity, row_invariance};

#[test]
fn the_oracle_is_equal_to_itself() {
    let report = parity::run(&OracleDevice);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn a_row_of_the_oracle_is_what_it_is_alone() {
    let report = row_invariance::run(&OracleDevice);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn the_oracle_draws_the_committed_tokens() {
    let report = draws::run(&OracleDevice);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn the_committed_vectors_are_what_the_definition_draws() {
    assert_eq!(draws::Vectors::committed(), draws::generate());
}
