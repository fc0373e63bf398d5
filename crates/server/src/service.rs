//! What every handler needs: the engine, the text model, and whether the server still takes requests.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use forerunner_engine::EngineHandle;
use forerunner_text::{TextError, TextModel};
use tokio::sync::{Semaphore, watch};

use crate::defaults::SamplingDefaults;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::responses::ResponseStore;

/// Grammars compiled at once. Each takes a thread that nothing can stop.
const COMPILERS: usize = 4;

/// What is served, shared by all connections.
pub struct Service {
    pub(crate) engine: EngineHandle,
    pub(crate) defaults: SamplingDefaults,
    /// When this server started, for `/v1/models`.
    pub(crate) created: u64,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) responses: ResponseStore,
    pub(crate) options: ServerOptions,
    /// One permit for each grammar that may be compiled now.
    pub(crate) compilers: Arc<Semaphore>,
    text: Arc<TextModel>,
    /// True once the server drains. Every reply in progress holds a receiver, so that the channel is closed when
    /// none is left.
    draining: watch::Sender<bool>,
}

/// Held for as long as a reply is in progress: a draining server waits for it.
pub(crate) struct Admission {
    _held: watch::Receiver<bool>,
}

impl Service {
    /// Serves `engine`, whose model has the tokenizer and the template of `text`.
    pub fn new(engine: EngineHandle, text: Arc<TextModel>, defaults: SamplingDefaults) -> Self {
        Service {
            engine,
            defaults,
            created: unix_seconds(),
            metrics: Arc::default(),
            responses: ResponseStore::default(),
            options: ServerOptions::default(),
            compilers: Arc::new(Semaphore::new(COMPILERS)),
            text,
            draining: watch::Sender::new(false),
        }
    }

    /// The same service with other options.
    pub fn with_options(self, options: ServerOptions) -> Self {
        Service { options, ..self }
    }

    /// The id that requests name the model by.
    pub(crate) fn model(&self) -> &str {
        &self.engine.info().model
    }

    /// The tokenizer and the template.
    pub(crate) fn text(&self) -> &TextModel {
        &self.text
    }

    /// Admits a request, unless the server drains.
    pub(crate) fn admit(&self) -> Result<Admission, ApiError> {
        // Held before the look: a drain that begins in between waits for this request.
        let held = self.draining.subscribe();
        if self.is_draining() {
            return Err(ApiError::stopping());
        }
        Ok(Admission { _held: held })
    }

    /// Whether the server has stopped taking requests.
    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Takes no more requests, and returns when no reply is in progress.
    pub(crate) async fn drain(&self) {
        self.draining.send_replace(true);
        self.draining.closed().await;
    }

    /// Renders or encodes on a thread that may take its time: a long prompt must not hold up other connections.
    pub(crate) async fn encode<T: Send + 'static>(
        &self,
        encode: impl FnOnce(&TextModel) -> Result<T, TextError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let text = self.text.clone();
        match tokio::task::spawn_blocking(move || encode(&text)).await {
            Ok(encoded) => Ok(encoded?),
            Err(error) => Err(ApiError::internal(format!("encoding the prompt failed: {error}"))),
        }
    }
}

/// The time as replies state it.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
