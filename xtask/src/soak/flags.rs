//! What the soak is told.

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask soak [--minutes N] [--streams N] [--receipt FILE]";

/// How long, how many at once, and where the receipt goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flags {
    pub(super) minutes: f64,
    pub(super) streams: u64,
    /// Relative to the root; among the receipts, by the date, when there is none.
    pub(super) receipt: Option<String>,
}

impl Flags {
    pub(super) fn read(arguments: &[String]) -> Result<Self> {
        let mut flags = Flags { minutes: 10.0, streams: 16, receipt: None };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let Some(value) = rest.next() else { bail!("{flag} has no value\n{USAGE}") };
            match flag.as_str() {
                "--minutes" => flags.minutes = number(flag, value)?,
                "--streams" => flags.streams = number(flag, value)?,
                "--receipt" => flags.receipt = Some(value.clone()),
                _ => bail!("{flag} is not a flag\n{USAGE}"),
            }
        }
        if !(flags.minutes > 0.0 && flags.minutes.is_finite() && (1..=256).contains(&flags.streams)) {
            bail!(
                "{} minutes of {} streams; accepted: more than 0, and 1 to 256",
                flags.minutes,
                flags.streams
            );
        }
        Ok(flags)
    }
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T> {
    value.parse().or_else(|_| bail!("{flag} is {value}; accepted: a number\n{USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &str) -> Result<Flags, String> {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        Flags::read(&arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_read_and_what_is_wrong_is_named() {
        assert_eq!(read("").unwrap(), Flags { minutes: 10.0, streams: 16, receipt: None });
        let receipt = Some("a.json".to_owned());
        let all = read("--streams 4 --minutes 0.5 --receipt a.json").unwrap();
        assert_eq!(all, Flags { minutes: 0.5, streams: 4, receipt });
        for (arguments, fragment) in [
            ("--minutes", "--minutes has no value"),
            ("--minutes ten", "--minutes is ten"),
            ("--minutes 0", "accepted: more than 0"),
            ("--streams 0", "accepted: more than 0, and 1 to 256"),
            ("--hours 1", "--hours is not a flag"),
        ] {
            assert!(read(arguments).unwrap_err().contains(fragment), "{arguments}");
        }
    }
}
