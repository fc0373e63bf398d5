//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod capabilities;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod info;
pub(crate) mod pull;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod synth;
