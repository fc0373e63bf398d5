//! The server over loopback, with the fake target behind its engine.

mod access;
mod cancel;
mod client;
mod document;
mod drain;
mod events;
mod field_reports;
mod forms;
mod messages;
mod observe;
mod page;
mod refusals;
mod replies;
mod responses;
mod robust;
mod scripted;
mod telling;
mod tools;
mod world;
