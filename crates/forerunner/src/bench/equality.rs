//! Whether replies are equal, by the hashes of their tokens or texts.

use std::fmt;

use serde_json::{Value, json};

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

    /// Adds what another one has found.
    pub(crate) fn add(&mut self, other: &Equality) {
        self.compared += other.compared;
        for name in &other.differing {
            if !self.differing.contains(name) {
                self.differing.push(name.clone());
            }
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
        one.add(&other);
        assert_eq!(one.to_json()["differing"], json!(["a", "b"]));
    }
}
