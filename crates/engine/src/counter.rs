//! Counts what the engine thread does, beside what the scheduler counts itself.

use std::time::{Duration, Instant};

use forerunner_lanes::{Lanes, SequenceStatistics, Target};

use crate::request::Counts;

/// How often the rate of reply tokens is taken.
const RATE_PERIOD: Duration = Duration::from_millis(500);

/// The counts in the making.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    prompt_tokens: u64,
    cached_tokens: u64,
    /// Of prompts that are not read to their end.
    pub(crate) unread_tokens: usize,
    tokens_per_second: f64,
    /// When the rate was last taken, and how many tokens there were then; nothing while nothing runs.
    rate_taken: Option<(Instant, u64)>,
}

impl Counter {
    /// Counts a prompt that has been read to its end.
    pub(crate) fn count_prompt(&mut self, statistics: &SequenceStatistics) {
        self.prompt_tokens += statistics.prompt_tokens as u64;
        self.cached_tokens += statistics.cached_tokens as u64;
    }

    /// Writes everything to where the engine's handles read it, reusing the memory there.
    pub(crate) fn publish<T: Target>(&mut self, lanes: &Lanes<T>, counts: &mut Counts) {
        self.take_rate(lanes.is_idle(), lanes.totals().reply_tokens);
        counts.totals = lanes.totals().clone();
        counts.guards.clear();
        counts.guards.extend(lanes.guards());
        counts.prompt_tokens = self.prompt_tokens;
        counts.cached_tokens = self.cached_tokens;
        counts.unread_tokens = self.unread_tokens;
        counts.tokens_per_second = self.tokens_per_second;
    }

    fn take_rate(&mut self, is_idle: bool, tokens: u64) {
        let now = Instant::now();
        match self.rate_taken {
            _ if is_idle => (self.rate_taken, self.tokens_per_second) = (None, 0.0),
            None => self.rate_taken = Some((now, tokens)),
            Some((taken, before)) if now - taken >= RATE_PERIOD => {
                self.tokens_per_second = (tokens - before) as f64 / (now - taken).as_secs_f64();
                self.rate_taken = Some((now, tokens));
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_time_that_something_ran() {
        let mut counter = Counter::default();
        counter.take_rate(false, 10);
        counter.take_rate(false, 20);
        assert_eq!(counter.tokens_per_second, 0.0);
        counter.rate_taken = Instant::now().checked_sub(Duration::from_secs(2)).map(|taken| (taken, 10));
        counter.take_rate(false, 30);
        assert!((9.0..10.1).contains(&counter.tokens_per_second), "{}", counter.tokens_per_second);
        counter.take_rate(true, 30);
        assert_eq!((counter.tokens_per_second, counter.rate_taken), (0.0, None));
    }
}
