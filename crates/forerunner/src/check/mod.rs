//! What `forerunner check` is made of: its prompts, planted faults, the suites of kernels, the comparisons with the
//! reference.

pub(crate) mod cases;
pub(crate) mod kernels;
pub(crate) mod lengths;
pub(crate) mod outcomes;
pub(crate) mod plant;
pub(crate) mod reference;
