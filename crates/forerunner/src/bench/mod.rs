//! What `forerunner bench` is made of: prompts, runs with and without HTTP, statistics, receipts.
//!
//! A speed here always stands beside an equality: drafts and neighbours may change time, never text, and a figure of
//! replies that differ is worth nothing.

pub(crate) mod bandwidth;
pub(crate) mod compare;
pub(crate) mod equality;
pub(crate) mod hashes;
pub(crate) mod latency;
pub(crate) mod local;
pub(crate) mod prompts;
pub(crate) mod serve;
pub(crate) mod statistics;
pub(crate) mod throughput;
pub(crate) mod timings;
