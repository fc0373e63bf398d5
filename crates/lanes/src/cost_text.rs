//! The cost table as lines of text, to be kept between starts.

use std::fmt::{self, Write};
use std::str::FromStr;

use crate::cost::{CostTable, HoldCosts, are_samples};

/// First line of the text; another version is measured anew.
const HEADER: &str = "forerunner costs 2";

/// Names of a table's samples in the text, one sample a line.
const KINDS: [&str; 5] = ["round", "hold-depth", "hold-lanes", "experts", "absorb"];

/// Why a text is not a cost table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CostTextError {
    /// It begins with another line.
    Header(String),
    /// A line is not a kind, a count and a value.
    Line {
        /// Its number, from 1.
        number: usize,
        /// What it says.
        text: String,
    },
    /// The samples of a kind do not rise, or are negative or not finite.
    Samples(&'static str),
}

impl fmt::Display for CostTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostTextError::Header(found) => write!(f, "the first line is {found:?}, expected {HEADER:?}"),
            CostTextError::Line { number, text } => {
                write!(f, "line {number} is {text:?}, expected one of {KINDS:?}, a count and a value")
            }
            CostTextError::Samples(kind) => write!(f, "the samples of {kind:?} do not rise or are not costs"),
        }
    }
}

impl std::error::Error for CostTextError {}

impl CostTable {
    /// The table as text; [`CostTable::from_text`] of it is an equal table.
    pub fn to_text(&self) -> String {
        let HoldCosts { by_depth, by_lanes } = self.hold_samples();
        let absorb = [(1, self.absorb_ms(1))];
        let samples = [self.row_samples(), by_depth, by_lanes, self.expert_samples(), &absorb[..]];
        let mut text = format!("{HEADER}\n");
        for (kind, samples) in KINDS.iter().zip(samples) {
            for (at, value) in samples {
                writeln!(text, "{kind} {at} {value}").expect("a string takes all that is written");
            }
        }
        text
    }

    /// Reads what [`CostTable::to_text`] wrote.
    pub fn from_text(text: &str) -> Result<CostTable, CostTextError> {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        if header != HEADER {
            return Err(CostTextError::Header(header.to_owned()));
        }
        let mut samples: [Vec<(usize, f64)>; KINDS.len()] = Default::default();
        for (index, line) in lines.enumerate() {
            let (kind, sample) = parse_line(line)
                .ok_or_else(|| CostTextError::Line { number: index + 2, text: line.to_owned() })?;
            samples[kind].push(sample);
        }
        if let Some(bad) = samples.iter().position(|samples| !are_samples(samples)) {
            return Err(CostTextError::Samples(KINDS[bad]));
        }
        let [rows, by_depth, by_lanes, experts, absorb] = samples;
        let absorb_row_ms = absorb.first().map_or(0.0, |(rows, ms)| ms / *rows as f64);
        let table = CostTable::new(rows, HoldCosts { by_depth, by_lanes });
        Ok(table.with_experts(experts).with_absorption(absorb_row_ms))
    }
}

fn parse_line(line: &str) -> Option<(usize, (usize, f64))> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let kind = KINDS.iter().position(|known| *known == kind)?;
    let (at, value) = (usize::from_str(words.next()?).ok()?, f64::from_str(words.next()?).ok()?);
    words.next().is_none().then_some((kind, (at, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_equal_after_a_round_trip() {
        let holds = HoldCosts { by_depth: vec![(1, 0.1), (7, 1.0 / 3.0)], by_lanes: vec![(1, 0.5)] };
        let rows = vec![(1, 0.7), (2, 0.1 + 0.2), (64, 1e-9)];
        let table = CostTable::new(rows, holds).with_experts(vec![(1, 4.0), (2, 7.5), (64, 32.0)]);
        let table = table.with_absorption(0.3);
        for table in [table, CostTable::default()] {
            assert_eq!(CostTable::from_text(&table.to_text()), Ok(table));
        }
    }

    #[test]
    fn a_bad_text_is_refused_with_its_place() {
        let error = |text: &str| CostTable::from_text(text).unwrap_err();
        assert_eq!(error("costs 0"), CostTextError::Header("costs 0".into()));
        for line in ["round 1", "round one 2", "rounds 1 2", "round 1 2 3", "", "hold-depth -1 2"] {
            let text = format!("{HEADER}\nround 1 2\n{line}\n");
            assert_eq!(error(&text), CostTextError::Line { number: 3, text: line.into() });
        }
        for lines in ["round 2 1\nround 1 1", "round 0 1", "round 1 NaN", "round 1 -1", "round 1 inf"] {
            assert_eq!(error(&format!("{HEADER}\n{lines}\n")), CostTextError::Samples("round"));
        }
    }
}
