//! Whether replies are equal, by the hashes of their tokens or texts.

use std::fmt;

use anyhow::ensure;
use serde_json::{Value, json};

/// An error unless all columns hold, each named for what it compares.
pub(crate) fn ensure_all(columns: &[(&str, Equality)]) -> anyhow::Result<()> {
    let shown: Vec<String> = columns.iter().map(|(name, found)| format!("{name} {found}")).collect();
    ensure!(columns.iter().all(|(_, found)| found.holds()), "replies differ: {}", shown.join(", "));
    Ok(())
}

/// What a comparison has found so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Equality {
    compared: usize,
    /// The replies that differ, each once.
    differing: Vec<String>,
}

impl Equality {
    /// Compares one reply by what its hash should be and what it is.
    pub(crate) fn compare(&mut self, name: &str, expected: &str, found: &str) {
        self.compared += 1;
        if expected != found && !self.differing.iter().any(|known| known == name) {
            self.differing.push(name.to_owned());
        }
    }

    /// Whether nothing that was compared differs.
    pub(crate) fn holds(&self) -> bool {
        self.differing.is_empty()
    }

    /// As a receipt has it.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "equal": self.holds(), "compared": self.compared, "differing": self.differing })
    }
}

impl<'a> FromIterator<&'a Equality> for Equality {
    /// What all of them have found.
    fn from_iter<I: IntoIterator<Item = &'a Equality>>(all: I) -> Self {
        let mut whole = Equality::default();
        for found in all {
            whole.compared += found.compared;
            for name in &found.differing {
                if !whole.differing.contains(name) {
                    whole.differing.push(name.clone());
                }
            }
        }
        whole
    }
}

impl fmt::Display for Equality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.compared, self.differing.len()) {
            (0, _) => f.pad("-"),
            (_, 0) => f.pad("equal"),
            (_, differing) => f.pad(&format!("{differing} DIFFER")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_differs_twice_is_named_once() {
        let mut equality = Equality::default();
        assert_eq!(equality.to_string(), "-");
        equality.compare("a", "1", "1");
        assert!(equality.holds());
        assert_eq!(equality.to_string(), "equal");
        equality.compare("b", "1", "2");
        equality.compare("b", "1", "3");
        assert!(!equality.holds());
        assert_eq!(equality.to_string(), "1 DIFFER");
        assert_eq!(equality.to_json(), json!({"equal": false, "compared": 3, "differing": ["b"]}));
    }

    #[test]
    fn equalities_add_up() {
        let mut one = Equality::default();
        one.compare("a", "1", "2");
        let mut other = one.clone();
        other.compare("b", "1", "2");
        let both: Equality = [&one, &other].into_iter().collect();
        assert_eq!(both.to_json(), json!({"equal": false, "compared": 3, "differing": ["a", "b"]}));
        let error = ensure_all(&[("a = b", Equality::default()), ("b = c", both)]).unwrap_err();
        assert_eq!(error.to_string(), "replies differ: a = b -, b = c 2 DIFFER");
        assert!(ensure_all(&[("a = b", Equality::default())]).is_ok());
    }
}
