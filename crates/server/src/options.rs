//! Whom a server answers, and how much it takes in.

use crate::keys::ApiKeys;

/// Set at start.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Who may ask.
    pub api_keys: ApiKeys,
    /// Origins of the web pages that may ask; `*` stands for any.
    pub cors_origins: Vec<String>,
    /// Largest body of a request.
    pub body_limit_bytes: usize,
    /// Connections at once; more wait in the system's queue.
    pub connections: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            api_keys: ApiKeys::default(),
            cors_origins: Vec::new(),
            body_limit_bytes: 8 << 20,
            connections: 1024,
        }
    }
}
