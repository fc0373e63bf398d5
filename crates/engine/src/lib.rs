//! Binds lanes, models and text: the engine thread, its requests and replies, and a target over a device.
//!
//! **Architecture invariant:** nothing here knows HTTP or a particular device. Data goes down once as a
//! [`Request`] and up once as [`Event`]s; nothing calls back. A dropped [`Reply`] is a cancel command.

mod active;
mod constraint;
mod counter;
mod device_target;
pub mod gates;
mod handle;
mod pages;
mod prefix;
mod request;
mod teller;
mod thread;

pub use device_target::{DeviceTarget, TargetOptions, kept_page_bytes};
pub use handle::{Engine, EngineHandle};
pub use request::{
    Counts, EngineInfo, Event, Fault, FinishReason, Reply, Request, RequestError, Statistics, Status,
    StopRule, ToldToken,
};

// What a request and the counts are made of, so that their users need not know the scheduler.
pub use forerunner_lanes::{
    GuardState, MAX_ALTERNATIVES, Origin, SamplingRule, Side, SideRecord, TokenId, TokenLogprob, Totals,
};
