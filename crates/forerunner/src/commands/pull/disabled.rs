//! A build that fetches nothing.

use anyhow::{Result, bail};

use crate::flags::PullFlags;

/// Says that it cannot, and what can be done instead.
pub(crate) fn pull(flags: &PullFlags) -> Result<()> {
    bail!(
        "this build cannot fetch {}: build it with the cargo feature pull, or download the model with the hub's own \
         tools and name its directory with --model",
        flags.model
    )
}
