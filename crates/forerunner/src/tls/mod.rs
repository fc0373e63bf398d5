//! TLS for the server, in builds with the cargo feature `tls`.

#[cfg(not(feature = "tls"))]
mod disabled;
#[cfg(feature = "tls")]
mod enabled;

#[cfg(not(feature = "tls"))]
pub(crate) use disabled::handshaking;
#[cfg(feature = "tls")]
pub(crate) use enabled::handshaking;
