//! What gateways ask: `GET /version` and `GET /v1/loads`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::service::{Service, unix_seconds};

/// The version, and what the replies depend on besides it.
pub(crate) async fn version(State(service): State<Arc<Service>>) -> Json<Value> {
    let info = service.engine.info();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": info.model,
        "drafter": info.drafter,
        "device": info.device,
    }))
}

/// How busy the engine is, in the words that gateways read.
pub(crate) async fn loads(State(service): State<Arc<Service>>) -> Json<Value> {
    let (status, counts) = (service.engine.status(), service.engine.counts());
    let parallel = service.engine.info().parallel;
    let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let (used, total) = (status.pages_in_use * status.page_tokens, status.pages * status.page_tokens);
    Json(json!({
        "timestamp": unix_seconds(),
        "dp_rank_count": 1,
        "loads": [{
            "dp_rank": 0,
            "num_running_reqs": status.running,
            "num_waiting_reqs": status.waiting,
            "num_waiting_uncached_tokens": counts.unread_tokens,
            "num_total_reqs": status.running + status.waiting,
            "num_used_tokens": used,
            "max_total_num_tokens": total,
            "token_usage": ratio(used as f64, total as f64),
            "gen_throughput": counts.tokens_per_second,
            "cache_hit_rate": ratio(counts.cached_tokens as f64, counts.prompt_tokens as f64),
            "utilization": ratio(status.running as f64, parallel as f64),
            "max_running_requests": parallel,
        }],
    }))
}
