//! The server over loopback, with the fake target behind its engine.

mod cancel;
mod client;
mod drain;
mod messages;
mod observe;
mod refusals;
mod replies;
mod responses;
mod scripted;
mod tools;
mod world;
