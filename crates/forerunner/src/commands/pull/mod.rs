//! `forerunner pull`: a model's files from the hub, in builds with the cargo feature `pull`.

#[cfg(not(feature = "pull"))]
mod disabled;
#[cfg(feature = "pull")]
mod download;
#[cfg(feature = "pull")]
mod enabled;
#[cfg(feature = "pull")]
mod hub;

#[cfg(not(feature = "pull"))]
pub(crate) use disabled::pull;
#[cfg(feature = "pull")]
pub(crate) use enabled::pull;
