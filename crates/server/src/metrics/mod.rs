//! `GET /metrics`: what is really counted, under vLLM's names where there is one, and under our own.

mod exposition;
mod histogram;
mod page;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use forerunner_engine::Statistics;

use crate::openapi::Limits;
use crate::parts::Ending;
use crate::service::Service;
use histogram::Histogram;

const FIRST_TOKEN_SECONDS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 60.0];
const TOKEN_SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0];
const REPLY_SECONDS: [f64; 14] = [0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 240.0];

/// What is counted where replies are written.
#[derive(Debug)]
pub(crate) struct Metrics(Mutex<ReplyMetrics>);

#[derive(Debug)]
struct ReplyMetrics {
    first_token: Histogram,
    per_token: Histogram,
    whole: Histogram,
    /// Replies by ending: stop, length, tool calls.
    endings: [u64; 3],
    /// Replies by why they, or their ends, ran without drafts.
    draft_off: BTreeMap<String, u64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics(Mutex::new(ReplyMetrics {
            first_token: Histogram::new(&FIRST_TOKEN_SECONDS),
            per_token: Histogram::new(&TOKEN_SECONDS),
            whole: Histogram::new(&REPLY_SECONDS),
            endings: [0; 3],
            draft_off: BTreeMap::new(),
        }))
    }
}

impl Metrics {
    /// Counts a reply that is whole.
    pub(crate) fn count(&self, ending: Ending, statistics: &Statistics) {
        let mut metrics = self.lock();
        let (first, rest) = (statistics.time_to_first_token, statistics.decode_time);
        metrics.first_token.observe(first.as_secs_f64());
        metrics.whole.observe((first + rest).as_secs_f64());
        if statistics.reply_tokens > 1 {
            metrics.per_token.observe(rest.as_secs_f64() / (statistics.reply_tokens - 1) as f64);
        }
        if let Some(reason) = &statistics.draft_off_reason {
            *metrics.draft_off.entry(reason.clone()).or_default() += 1;
        }
        metrics.endings[match ending {
            Ending::Stop | Ending::StopString(_) => 0,
            Ending::Length => 1,
            Ending::ToolCalls => 2,
        }] += 1;
    }

    fn lock(&self) -> MutexGuard<'_, ReplyMetrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The page that Prometheus reads.
#[utoipa::path(
    get, path = "/metrics", tag = "operation",
    responses((status = 200, description = "In the text format.", body = String, content_type = "text/plain"), Limits),
)]
pub(crate) async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page::page(&service))
}
