//! What `forerunner check` is made of: its prompts, planted faults, the comparison with the reference, the receipt.

pub(crate) mod cases;
pub(crate) mod plant;
pub(crate) mod receipt;
pub(crate) mod reference;
