//! `calibration.json` beside a drafter: temperatures that make its confidences chances.

use std::path::Path;

use anyhow::{Context, ensure};
use forerunner_lanes::Calibration;
use serde::{Deserialize, Serialize};

/// The file's name, in the drafter's directory.
pub(crate) const FILE: &str = "calibration.json";

/// What the file holds: one temperature a draft position, for greedy and for sampled replies.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Temperatures {
    greedy: Vec<f32>,
    sampled: Vec<f32>,
}

/// The drafter's calibration; without a file every temperature is 1.
pub(crate) fn read(drafter: &Path, block: usize) -> anyhow::Result<Calibration> {
    let path = drafter.join(FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Calibration::default()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    parse(&bytes, block).with_context(|| path.display().to_string())
}

fn parse(bytes: &[u8], block: usize) -> anyhow::Result<Calibration> {
    let Temperatures { greedy, sampled } = serde_json::from_slice(bytes)?;
    for (name, temperatures) in [("greedy", &greedy), ("sampled", &sampled)] {
        let count = temperatures.len();
        ensure!(
            count <= block,
            "{name} has {count} temperatures; accepted: at most {block}, the drafter's block"
        );
        let odd = temperatures.iter().find(|value| !(value.is_finite() && **value > 0.0));
        ensure!(odd.is_none(), "{name} has the temperature {}; accepted: above 0", odd.unwrap_or(&0.0));
    }
    Ok(Calibration { greedy, sampled })
}

/// Writes a calibration.
pub(crate) fn write(path: &Path, calibration: &Calibration) -> anyhow::Result<()> {
    let Calibration { greedy, sampled } = calibration.clone();
    let json = serde_json::to_vec_pretty(&Temperatures { greedy, sampled })?;
    std::fs::write(path, json).with_context(|| format!("writing {} failed", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = format!("{:#}", parse(text.as_bytes(), 2).unwrap_err());
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = std::env::temp_dir().join(format!("forerunner-calibration-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        assert!(read(&directory, 9).unwrap().greedy.is_empty());
        let calibration = Calibration { greedy: vec![1.5, 0.5], sampled: vec![2.0] };
        write(&directory.join(FILE), &calibration).unwrap();
        let again = read(&directory, 9).unwrap();
        assert_eq!((again.greedy, again.sampled), (calibration.greedy, calibration.sampled));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn bad_files_are_named_by_what_is_wrong() {
        refused(r#"{"greedy": [1, 1, 1], "sampled": []}"#, "greedy has 3 temperatures; accepted: at most 2");
        refused(r#"{"greedy": [], "sampled": [0]}"#, "sampled has the temperature 0; accepted: above 0");
        refused(r#"{"greedy": []}"#, "missing field `sampled`");
        refused(r#"{"greedy": [], "sampled": [], "tau": 1}"#, "unknown field `tau`");
    }
}
