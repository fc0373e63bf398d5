//! `forerunner bench compare`: two servers or two commands in turn, A B A B, so that what drifts drifts for both.

mod commands;
mod servers;
mod words;

use std::fmt;
use std::io::Write;

use anyhow::bail;
use serde_json::{Map, Value, json};

use super::equality::Equality;
use super::statistics::Spread;
use crate::flags::CompareFlags;
use crate::receipt::Receipt;

/// One run of a side: its figures, and what its output was.
pub(super) struct Measured {
    /// Figures that are compared.
    figures: Vec<(&'static str, f64)>,
    /// Names and hashes of outputs or replies.
    outputs: Vec<(String, String)>,
    /// All else that a receipt keeps.
    raw: Map<String, Value>,
}

/// What all rounds have found.
struct Comparison {
    rounds: Vec<(Measured, Measured)>,
    equality: Equality,
}

/// Runs both sides in turn, prints the ratios and writes the receipt.
pub(crate) fn compare(flags: &CompareFlags) -> anyhow::Result<()> {
    let mut receipt = Receipt::of_bench("compare");
    let mut out = std::io::stdout();
    let mut comparison = Comparison { rounds: Vec::new(), equality: Equality::default() };
    let sides = Sides::new(flags)?;
    for round in 1..=flags.rounds {
        let pair = (sides.run(&flags.a)?, sides.run(&flags.b)?);
        writeln!(out, "round {round}: A {}; B {}", figures(&pair.0), figures(&pair.1))?;
        comparison.add(pair);
    }
    writeln!(out, "{comparison}")?;
    receipt.set("a", flags.a.clone());
    receipt.set("b", flags.b.clone());
    receipt.set("ratios", comparison.ratios_json());
    receipt.set("a_equals_b", comparison.equality.to_json());
    receipt.set("rounds", comparison.rounds.iter().map(round_json).collect::<Vec<_>>());
    receipt.write(&flags.receipt)?;
    if flags.equal && !comparison.equality.holds() {
        bail!("A and B differ: {}", comparison.equality);
    }
    Ok(())
}

/// What both sides are.
enum Sides<'a> {
    Servers(servers::Servers<'a>),
    Commands,
}

impl<'a> Sides<'a> {
    fn new(flags: &'a CompareFlags) -> anyhow::Result<Self> {
        let is_server = |side: &str| side.starts_with("http://") || side.starts_with("https://");
        match (is_server(&flags.a), is_server(&flags.b)) {
            (true, true) => Ok(Sides::Servers(servers::Servers::new(flags)?)),
            (false, false) => Ok(Sides::Commands),
            _ => bail!("A is {} and B is {}; accepted: two URLs or two commands", flags.a, flags.b),
        }
    }

    fn run(&self, side: &str) -> anyhow::Result<Measured> {
        match self {
            Sides::Servers(servers) => servers.run(side),
            Sides::Commands => commands::run(side),
        }
    }
}

impl Comparison {
    fn add(&mut self, pair: (Measured, Measured)) {
        for (name, a) in &pair.0.outputs {
            // What one side failed to answer is in its counts of failures.
            if let Some((_, b)) = pair.1.outputs.iter().find(|(other, _)| other == name) {
                self.equality.compare(name, a, b);
            }
        }
        self.rounds.push(pair);
    }

    /// B over A of each figure that both have in every round.
    fn ratios(&self) -> Vec<(&'static str, Spread)> {
        let Some((first, _)) = self.rounds.first() else { return Vec::new() };
        let of = |measured: &Measured, name: &str| {
            measured.figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        };
        let ratio = |(name, _): &(&'static str, f64)| {
            let pairs = self.rounds.iter().map(|(a, b)| Some((of(a, name)?, of(b, name)?)));
            Some((*name, Spread::of_ratios(&pairs.collect::<Option<Vec<_>>>()?)?))
        };
        first.figures.iter().filter_map(ratio).collect()
    }

    fn ratios_json(&self) -> Value {
        let ratios = self.ratios().into_iter().map(|(name, spread)| (name.to_owned(), spread.to_json()));
        Value::Object(ratios.collect())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Spread { median, min, max, .. }) in self.ratios() {
            writeln!(f, "B / A, {name}: {median:.3} ({min:.3} to {max:.3})")?;
        }
        write!(f, "A = B: {}", self.equality)
    }
}

fn figures(measured: &Measured) -> String {
    measured.figures.iter().map(|(name, value)| format!("{name} {value:.3}")).collect::<Vec<_>>().join(", ")
}

fn round_json((a, b): &(Measured, Measured)) -> Value {
    let side = |measured: &Measured| {
        let mut fields = measured.raw.clone();
        fields.extend(measured.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        Value::Object(fields)
    };
    json!({ "a": side(a), "b": side(b) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(seconds: f64, hash: &str) -> Measured {
        Measured {
            figures: vec![("seconds", seconds)],
            outputs: vec![("output".into(), hash.into())],
            raw: Map::new(),
        }
    }

    #[test]
    fn ratios_are_of_rounds_and_outputs_are_compared() {
        let mut comparison = Comparison { rounds: Vec::new(), equality: Equality::default() };
        for (a, b) in [(1.0, 2.0), (2.0, 6.0), (1.0, 4.0)] {
            comparison.add((measured(a, "x"), measured(b, "x")));
        }
        assert_eq!(comparison.to_string(), "B / A, seconds: 3.000 (2.000 to 4.000)\nA = B: equal");
        comparison.add((measured(1.0, "x"), measured(1.0, "y")));
        assert!(!comparison.equality.holds());
    }
}
