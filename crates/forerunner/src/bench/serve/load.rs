//! Load on a server: as many requests at once as are allowed, or as many a second as are asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::exchange::{Asked, Outcome, Sample, exchange};
use super::server::Server;

/// How requests follow one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// A closed loop: each of so many clients sends its next request when its reply has ended.
    Concurrency(usize),
    /// An open loop: so many requests a second on average, at random, whatever the server does.
    Rate { per_second: f64, seed: u64 },
}

/// What a load has found, in the order in which requests were sent.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) seconds: f64,
}

/// Sends all requests at a pace and waits for all replies.
pub(crate) async fn load(server: &Arc<Server>, asked: &[Asked], pace: Pace, limit: Duration) -> Loaded {
    let started = Instant::now();
    let mut outcomes = match pace {
        Pace::Concurrency(clients) => closed(server, asked, clients, started, limit).await,
        Pace::Rate { per_second, seed } => {
            open(server, asked, &delays(asked.len(), per_second, seed), started, limit).await
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    outcomes.sort_by_key(|(index, _)| *index);
    Loaded { outcomes: outcomes.into_iter().map(|(_, outcome)| outcome).collect(), seconds }
}

async fn closed(
    server: &Arc<Server>,
    asked: &[Asked],
    clients: usize,
    started: Instant,
    limit: Duration,
) -> Vec<(usize, Outcome)> {
    let waiting: VecDeque<(usize, Asked)> = asked.iter().cloned().enumerate().collect();
    let waiting = Arc::new(Mutex::new(waiting));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (server, waiting) = (server.clone(), waiting.clone());
        tasks.spawn(async move {
            let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let mut outcomes = Vec::new();
            while let Some((index, asked)) = next() {
                outcomes.push((index, exchange(&server, &asked, started, limit, None).await));
            }
            outcomes
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

async fn open(
    server: &Arc<Server>,
    asked: &[Asked],
    delays: &[Duration],
    started: Instant,
    limit: Duration,
) -> Vec<(usize, Outcome)> {
    let mut tasks = JoinSet::new();
    let mut due = tokio::time::Instant::from_std(started);
    for (index, (asked, delay)) in asked.iter().cloned().zip(delays).enumerate() {
        due += *delay;
        tokio::time::sleep_until(due).await;
        let server = server.clone();
        tasks.spawn(async move { (index, exchange(&server, &asked, started, limit, None).await) });
    }
    tasks.join_all().await
}

/// Times between requests that arrive independently of one another: exponentially distributed, as in vLLM's load.
fn delays(count: usize, per_second: f64, seed: u64) -> Vec<Duration> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The highest 53 bits, as a number above 0 and at most 1.
        ((state >> 11) + 1) as f64 / (1u64 << 53) as f64
    };
    (0..count).map(|_| Duration::from_secs_f64(-uniform().ln() / per_second)).collect()
}

impl Loaded {
    /// The replies that were measured.
    pub(crate) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Measured(sample) => Some(&**sample),
            Outcome::Unmeasured { .. } | Outcome::Failed { .. } => None,
        })
    }

    /// Tokens a second while `clients` streams run: from when the first of each has its first token until the first
    /// client has nothing left to send. A reply's tokens are spread evenly over its events. Nothing if that was never.
    pub(crate) fn steady_tokens_per_second(&self, clients: usize) -> Option<f64> {
        let samples: Vec<&Sample> = self.samples().collect();
        if samples.len() < clients {
            return None;
        }
        let firsts = samples.iter().take(clients).map(|sample| sample.sent_s + sample.timing.first_token_s);
        let start = firsts.fold(0.0, f64::max);
        let last_sent = samples.iter().map(|sample| sample.sent_s).fold(0.0, f64::max);
        let ends = samples.iter().map(|sample| sample.sent_s + sample.timing.latency_s);
        let end = ends.filter(|end| *end > last_sent).fold(f64::INFINITY, f64::min);
        let tokens: f64 = samples.iter().map(|sample| tokens_between(sample, start, end)).sum();
        (end > start && end.is_finite()).then(|| tokens / (end - start))
    }
}

fn tokens_between(sample: &Sample, start: f64, end: f64) -> f64 {
    let within = |event: &&f64| (start..end).contains(&(sample.sent_s + **event));
    let events = sample.events_s.iter().filter(within).count();
    sample.timing.output_tokens as f64 * events as f64 / sample.events_s.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::timings::Timing;

    fn sample(sent_s: f64, events_s: &[f64], latency_s: f64) -> Outcome {
        let timing = Timing {
            output_tokens: 2 * events_s.len(),
            first_token_s: events_s[0],
            latency_s,
            ..Timing::default()
        };
        Outcome::Measured(Box::new(Sample {
            sent_s,
            events_s: events_s.to_vec(),
            timing,
            ..Sample::default()
        }))
    }

    #[test]
    fn arrivals_are_at_random_and_repeat() {
        let delays = delays(4000, 10.0, 3);
        let total: f64 = delays.iter().map(Duration::as_secs_f64).sum();
        assert!((total / 400.0 - 1.0).abs() < 0.1, "{total}");
        assert_eq!(delays, super::delays(4000, 10.0, 3));
        assert_ne!(delays, super::delays(4000, 10.0, 4));
    }

    #[test]
    fn steady_is_while_all_streams_run() {
        let outcomes = vec![sample(0.0, &[1.0, 2.0, 3.0, 4.0], 4.0), sample(0.0, &[2.0, 3.0, 4.0, 5.0], 6.0)];
        let loaded = Loaded { outcomes, seconds: 6.0 };
        // Between 2 and 4 seconds each stream has two events of two tokens.
        assert_eq!(loaded.steady_tokens_per_second(2), Some(4.0));
        assert_eq!(loaded.steady_tokens_per_second(3), None);
    }

    #[test]
    fn what_failed_is_no_sample() {
        let failed = Outcome::Failed { name: "a".into(), reason: "b".into() };
        let loaded = Loaded { outcomes: vec![failed, sample(0.0, &[1.0], 2.0)], seconds: 2.0 };
        assert_eq!(loaded.samples().count(), 1);
    }
}
