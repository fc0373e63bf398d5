//! Responses that later ones may go on from, as many as fit a bound.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

use super::output::ResponseObject;

/// Most responses kept.
const MOST_RESPONSES: usize = 1024;

/// Most bytes of JSON kept.
const MOST_BYTES: usize = 64 << 20;

/// The responses, oldest forgotten first.
#[derive(Debug, Default)]
pub(crate) struct ResponseStore(Mutex<Kept<Stored>>);

/// A response and what led to it.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// The conversation up to its end, as chat messages.
    pub(super) messages: Vec<Value>,
    /// As it was answered.
    pub(super) response: ResponseObject,
}

/// Things by their id, with their bytes.
#[derive(Debug)]
struct Kept<T> {
    by_id: HashMap<String, (T, usize)>,
    /// Ids by age. Some may have been removed.
    ages: VecDeque<String>,
    bytes: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept { by_id: HashMap::new(), ages: VecDeque::new(), bytes: 0 }
    }
}

impl ResponseStore {
    pub(super) fn get(&self, id: &str) -> Option<Stored> {
        self.lock().by_id.get(id).map(|(stored, _)| stored.clone())
    }

    pub(super) fn keep(&self, id: &str, stored: Stored) {
        let bytes = json_bytes(&stored.response) + stored.messages.iter().map(json_bytes).sum::<usize>();
        self.lock().keep(id, stored, bytes, MOST_RESPONSES, MOST_BYTES);
    }

    /// Whether there was one.
    pub(super) fn remove(&self, id: &str) -> bool {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, Kept<Stored>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kept<T> {
    fn keep(&mut self, id: &str, kept: T, bytes: usize, most: usize, most_bytes: usize) {
        self.bytes += bytes;
        self.by_id.insert(id.to_owned(), (kept, bytes));
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

fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_when_a_bound_is_met() {
        let mut kept = Kept::default();
        for id in ["a", "b", "c"] {
            kept.keep(id, (), 10, 2, 1000);
        }
        assert!(!kept.remove("a") && kept.by_id.len() == 2);
        kept.keep("d", (), 400, 9, 409);
        assert_eq!(kept.by_id.keys().collect::<Vec<_>>(), ["d"]);
        kept.keep("e", (), 900, 9, 809);
        assert_eq!((kept.by_id.len(), kept.bytes, kept.ages.len()), (0, 0, 0));
    }
}
