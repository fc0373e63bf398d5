//! Whom a server answers, and how much it takes in.

use std::time::Duration;

use crate::handshake::Handshaking;
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
    /// How long a client may take for a handshake or for a request's headers; as long a connection may be idle.
    pub header_limit: Duration,
    /// What precedes HTTP on every connection.
    pub handshaking: Handshaking,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            api_keys: ApiKeys::default(),
            cors_origins: Vec::new(),
            body_limit_bytes: 8 << 20,
            connections: 1024,
            // Longer than the minute for which load balancers keep idle connections: they hang up first.
            header_limit: Duration::from_secs(75),
            handshaking: Handshaking::default(),
        }
    }
}
