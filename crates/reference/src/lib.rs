//! The models in plain fp32 loops, to be read beside the papers; the suites that hold every device to them.

pub mod oracle;
pub mod suites;
