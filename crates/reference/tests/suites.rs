//! The oracle passes its own suites, and every planted fault fails one.

use forerunner_reference::oracle::OracleDevice;
use forerunner_reference::suites::faults::{Fault, Faulty, missed};
use forerunner_reference::suites::{Group, draws, parity, row_invariance};

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

#[test]
fn every_planted_fault_is_caught() {
    assert_eq!(missed(), Vec::<String>::new());
}

#[test]
fn the_device_that_faults_are_planted_in_is_sound() {
    parity::run(&Faulty::sound()).assert_passed();
    draws::run(&Faulty::sound()).assert_passed();
}

#[test]
fn another_order_of_summation_is_within_the_bounds() {
    for (fault, groups) in [
        (Fault::SumsDependOnRowCount, [Group::Linear, Group::FeedForward, Group::Experts].as_slice()),
        (Fault::NormDependsOnRowCount, &[Group::Norm]),
        (Fault::ScoresDependOnRowCount, &[Group::Attention]),
    ] {
        let report = parity::run_groups(&Faulty::new(fault), groups);
        println!("{report}");
        report.assert_passed();
    }
}

#[test]
fn choices_are_made_with_margins() {
    let device = Faulty::new(Fault::RulesDisturbed);
    parity::run_groups(&device, &[Group::Draws, Group::Drafter]).assert_passed();
    draws::run(&device).assert_passed();
}
