//! Time as the scheduler sees it, so that tests can script it.

use std::time::{Duration, Instant};

/// Tells the time since some fixed moment.
pub trait Clock {
    /// Time passed since the clock's origin; never goes back.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Milliseconds of a duration, the unit of the cost table.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
