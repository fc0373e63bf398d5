//! Responses that later ones may go on from, as many as fit a bound.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Most responses kept.
const MOST_RESPONSES: usize = 1024;

/// Most bytes of JSON kept.
const MOST_BYTES: usize = 64 << 20;

/// The responses, oldest forgotten first.
#[derive(Debug, Default)]
pub(crate) struct ResponseStore(Mutex<Responses>);

/// A response and what led to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    /// The conversation up to its end, as chat messages.
    pub(super) messages: Vec<Value>,
    /// As it was answered.
    pub(super) response: Value,
}

#[derive(Debug, Default)]
struct Responses {
    by_id: HashMap<String, (Stored, usize)>,
    /// Ids by age. Some may have been removed.
    ages: VecDeque<String>,
    bytes: usize,
}

impl ResponseStore {
    pub(super) fn get(&self, id: &str) -> Option<Stored> {
        self.lock().by_id.get(id).map(|(stored, _)| stored.clone())
    }

    pub(super) fn keep(&self, id: &str, stored: Stored) {
        self.lock().keep(id, stored, MOST_RESPONSES, MOST_BYTES);
    }

    /// Whether there was one.
    pub(super) fn remove(&self, id: &str) -> bool {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, Responses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Responses {
    fn keep(&mut self, id: &str, stored: Stored, most: usize, most_bytes: usize) {
        let bytes = json_bytes(&stored.response) + stored.messages.iter().map(json_bytes).sum::<usize>();
        self.bytes += bytes;
        self.by_id.insert(id.to_owned(), (stored, bytes));
        self.ages.push_back(id.to_owned());
        while self.by_id.len() > most || self.bytes > most_bytes {
            let Some(oldest) = self.ages.pop_front() else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, id: &str) -> bool {
        let removed = self.by_id.remove(id);
        if let Some((_, bytes)) = &removed {
            self.bytes -= bytes;
            self.ages.retain(|other| other != id);
        }
        removed.is_some()
    }
}

fn json_bytes(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(text: &str) -> Stored {
        Stored { messages: vec![json!(text)], response: json!(text) }
    }

    #[test]
    fn the_oldest_are_forgotten_when_a_bound_is_met() {
        let mut responses = Responses::default();
        for id in ["a", "b", "c"] {
            responses.keep(id, stored(id), 2, 1000);
        }
        assert!(!responses.remove("a") && responses.by_id.len() == 2);
        responses.keep("d", stored(&"x".repeat(400)), 9, 809);
        assert_eq!(responses.by_id.keys().collect::<Vec<_>>(), ["d"]);
        responses.keep("e", stored(&"x".repeat(900)), 9, 809);
        assert_eq!((responses.by_id.len(), responses.bytes, responses.ages.len()), (0, 0, 0));
    }
}
