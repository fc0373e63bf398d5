//! Breaks a promise on purpose, so that what holds it can be seen to fail.

use anyhow::bail;
use forerunner_engine::gates::{Planted, PlantedFault};
use forerunner_lanes::Target;

use crate::device::OpenTarget;

/// The target with the fault that `--plant` names, if it names one.
pub(crate) fn planted(
    target: Box<dyn OpenTarget + Send>,
    name: Option<&str>,
) -> anyhow::Result<Box<dyn Target + Send>> {
    let target: Box<dyn Target + Send> = target;
    let Some(name) = name else { return Ok(target) };
    let Some((_, fault)) = PlantedFault::ALL.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = PlantedFault::ALL.iter().map(|(name, _)| *name).collect();
        bail!("--plant is {name}; accepted: {}", names.join(", "));
    };
    Ok(Box::new(Planted::new(target, *fault)))
}
