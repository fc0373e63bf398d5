//! What may stand between an accepted connection and HTTP, such as TLS: this crate has none of its own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The end of a handshake: what HTTP is spoken over.
pub type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// Makes accepted connections into those that HTTP is spoken over.
pub trait Handshake: Send + Sync {
    /// Begins one. It goes on in the connection's own task and for a bounded time, so that a slow client holds up
    /// nobody else.
    fn begin(&self, accepted: Box<dyn Duplex>) -> Opening;
}

/// A handshake, if a server has one; as an option it is printed as whether there is one.
#[derive(Clone, Default)]
pub struct Handshaking(pub Option<Arc<dyn Handshake>>);

impl std::fmt::Debug for Handshaking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "a handshake" } else { "no handshake" })
    }
}
