//! What gateways ask: `/health`, `/version`, `/v1/models` and `/v1/loads`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::openapi::Limits;
use crate::service::{Service, unix_seconds};

/// Whether the server takes requests, and how many it has.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    status: HealthStatus,
    /// Replies being generated.
    running: usize,
    /// Requests without a lane yet.
    waiting: usize,
}

/// What a server can be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum HealthStatus {
    /// Its model is not there yet.
    Loading,
    /// It takes requests.
    Ok,
    /// It finishes what runs and takes nothing new.
    Draining,
    /// Its engine has ended and will not come back.
    Failed,
}

/// Whether this server takes requests; also answered while the model is busy.
#[utoipa::path(
    get, path = "/health", tag = "operation",
    responses(
        (status = 200, description = "It does.", body = Health),
        (status = 503, description = "It does not.", body = Health),
        Limits,
    ),
)]
pub(crate) async fn health(State(service): State<Arc<Service>>) -> (StatusCode, Json<Health>) {
    let (code, health) = match service.is_draining() {
        _ if !service.engine.is_alive() => (StatusCode::SERVICE_UNAVAILABLE, HealthStatus::Failed),
        true => (StatusCode::SERVICE_UNAVAILABLE, HealthStatus::Draining),
        false => (StatusCode::OK, HealthStatus::Ok),
    };
    let status = service.engine.status();
    (code, Json(Health { status: health, running: status.running, waiting: status.waiting }))
}

/// [`health`] of a server that has no engine yet.
pub(crate) async fn health_while_loading() -> (StatusCode, Json<Health>) {
    let health = Health { status: HealthStatus::Loading, running: 0, waiting: 0 };
    (StatusCode::SERVICE_UNAVAILABLE, Json(health))
}

/// What replies depend on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    version: &'static str,
    model: String,
    drafter: Option<String>,
    device: String,
}

/// The version, and what the replies depend on besides it.
#[utoipa::path(
    get, path = "/version", tag = "operation",
    responses((status = 200, description = "The same on every replica that replies the same.", body = Version), Limits),
)]
pub(crate) async fn version(State(service): State<Arc<Service>>) -> Json<Version> {
    let info = service.engine.info();
    Json(Version {
        version: env!("CARGO_PKG_VERSION"),
        model: info.model.clone(),
        drafter: info.drafter.clone(),
        device: info.device.clone(),
    })
}

/// The models, of which there is one.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    object: &'static str,
    data: [Model; 1],
}

#[derive(Debug, Serialize, ToSchema)]
struct Model {
    /// What requests name it by.
    id: String,
    object: &'static str,
    /// When this server started.
    created: u64,
    owned_by: &'static str,
    /// Most tokens of a prompt and its reply together.
    max_model_len: usize,
}

/// What is served.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai",
    responses((status = 200, description = "One model.", body = ModelList), Limits),
)]
pub(crate) async fn models(State(service): State<Arc<Service>>) -> Json<ModelList> {
    let info = service.engine.info();
    let model = Model {
        id: info.model.clone(),
        object: "model",
        created: service.created,
        owned_by: "forerunner",
        max_model_len: info.context,
    };
    Json(ModelList { object: "list", data: [model] })
}

/// How busy the engine is, in the words that gateways read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Loads {
    timestamp: u64,
    dp_rank_count: usize,
    loads: [Load; 1],
}

#[derive(Debug, Serialize, ToSchema)]
struct Load {
    dp_rank: usize,
    num_running_reqs: usize,
    num_waiting_reqs: usize,
    /// Tokens of prompts that wait or are being read.
    num_waiting_uncached_tokens: usize,
    num_total_reqs: usize,
    num_used_tokens: usize,
    max_total_num_tokens: usize,
    /// 0 to 1.
    token_usage: f64,
    /// Reply tokens a second, of about the last second.
    gen_throughput: f64,
    /// 0 to 1.
    cache_hit_rate: f64,
    /// 0 to 1.
    utilization: f64,
    max_running_requests: usize,
}

/// How busy the engine is.
#[utoipa::path(
    get, path = "/v1/loads", tag = "operation",
    responses((status = 200, description = "The load of the one engine.", body = Loads), Limits),
)]
pub(crate) async fn loads(State(service): State<Arc<Service>>) -> Json<Loads> {
    let (status, counts) = (service.engine.status(), service.engine.counts());
    let parallel = service.engine.info().parallel;
    let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let (used, total) = (status.pages_in_use * status.page_tokens, status.pages * status.page_tokens);
    let load = Load {
        dp_rank: 0,
        num_running_reqs: status.running,
        num_waiting_reqs: status.waiting,
        num_waiting_uncached_tokens: counts.unread_tokens,
        num_total_reqs: status.running + status.waiting,
        num_used_tokens: used,
        max_total_num_tokens: total,
        token_usage: ratio(used as f64, total as f64),
        gen_throughput: counts.tokens_per_second,
        cache_hit_rate: ratio(counts.cached_tokens as f64, counts.prompt_tokens as f64),
        utilization: ratio(status.running as f64, parallel as f64),
        max_running_requests: parallel,
    };
    Json(Loads { timestamp: unix_seconds(), dp_rank_count: 1, loads: [load] })
}
