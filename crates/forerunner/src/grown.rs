//! Grows the demo pair to a shape, for measurements.

use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint};
use forerunner_synth::{Base, GrownCheckpoint, Specification};

use crate::demo::demo_pair;

/// The grown target and its drafter: recipes, of which nothing large is made yet.
pub(crate) fn grow(specification: &Specification) -> anyhow::Result<(GrownCheckpoint, GrownCheckpoint)> {
    let pair = demo_pair()?;
    let target = TargetCheckpoint::open(&pair.target)?;
    let drafter = DrafterCheckpoint::open(&pair.drafter, target.config())?;
    let base = Base::load(&target, &drafter, specification.format)?;
    Ok((base.grow_target(specification)?, base.grow_drafter(specification)?))
}
