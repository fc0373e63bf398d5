//! The built binary, run as its users run it, on the demo pair.

mod bench;
mod binary;
mod calibrate;
mod chat;
mod check;
#[path = "../../../server/tests/http/client.rs"]
mod client;
mod config;
#[cfg(target_os = "linux")]
mod costs;
mod errors;
mod field_reports;
mod leaving;
mod packaging;
#[cfg(feature = "pull")]
mod pull;
mod replies;
mod scratch;
mod serving;
mod shown;
#[cfg(unix)]
mod starting;
#[cfg(unix)]
mod terminal;
#[cfg(feature = "tls")]
mod tls;
