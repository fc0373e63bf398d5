//! OpenAI-compatible HTTP over an engine.
//!
//! **Architecture invariant:** HTTP ends here. A body becomes a validated
//! [`Request`](forerunner_engine::Request) or a refusal that names the field; a reply comes back as
//! [`Event`](forerunner_engine::Event)s and is written as it arrives. A client that leaves drops its handler or
//! its stream, and with it the engine's [`Reply`](forerunner_engine::Reply): that is the only way to cancel.

mod body;
mod chat;
mod chunks;
mod completions;
mod connections;
mod defaults;
mod error;
mod fields;
mod form;
mod front;
mod generation;
mod handshake;
mod keys;
mod loads;
mod messages;
mod metrics;
mod openapi;
mod options;
mod origins;
mod page;
mod parts;
mod random;
mod reply;
mod responses;
mod routes;
mod serve;
mod service;
mod session;
mod stream;
mod telling;
mod thinking;
mod tokenize;
mod tool_use;
mod types;
mod unsupported;

pub use defaults::SamplingDefaults;
pub use handshake::{Duplex, Handshake, Handshaking, Opening};
pub use keys::ApiKeys;
pub use options::ServerOptions;
pub use random::random_seed;
pub use serve::{DRAIN_LIMIT, serve, serve_while_loading};
pub use service::Service;
