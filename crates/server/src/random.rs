//! Random numbers for seeds and ids: unpredictable enough to be distinct, and never used for secrets.

use std::hash::{BuildHasher, RandomState};

/// A seed for a request that named none. Below 2^53, so that clients that read JSON numbers as doubles can send
/// it back unchanged.
pub fn random_seed() -> u64 {
    random() >> 11
}

/// An id with this prefix, such as `chatcmpl-`.
pub(crate) fn random_id(prefix: &str) -> String {
    format!("{prefix}{:016x}{:016x}", random(), random())
}

/// The standard library keys its hash maps from the system's random source; an empty hash under fresh keys is as
/// random as they are.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_distinct_and_survive_a_double() {
        let (first, second) = (random_seed(), random_seed());
        assert_ne!(first, second);
        assert!(first < 1 << 53 && second < 1 << 53);
    }

    #[test]
    fn ids_have_their_prefix_and_one_length() {
        let id = random_id("cmpl-");
        assert!(id.starts_with("cmpl-") && id.len() == 5 + 32, "{id}");
    }
}
