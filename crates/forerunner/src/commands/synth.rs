//! `forerunner synth`: makes checkpoints from others, for tests and benchmarks.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use forerunner_checkpoint::{TargetCheckpoint, TensorInfo, TensorSource, write_dequantized, write_source};
use forerunner_synth::{GrownCheckpoint, Specification};

use crate::demo::demo_pair;
use crate::flags::SynthFlags;
use crate::grown::grow;

/// Bytes of a file of weights, as the hub's libraries cut them.
const SHARD_BYTES: u64 = 5_000_000_000;

/// Grows the demo pair, or writes a checkpoint's bf16 twin.
pub(crate) fn synth(flags: &SynthFlags) -> anyhow::Result<()> {
    if let [source, destination] = flags.dequantize.as_slice() {
        write_dequantized(&TargetCheckpoint::open(source)?, source, destination)?;
        return Ok(());
    }
    let (Some(shape), Some(directory)) = (&flags.shape, &flags.directory) else {
        unreachable!("the parser asks for both");
    };
    let specification = Specification::new(shape, &flags.format, flags.skew)?;
    let (target, drafter) = grow(&specification)?;
    write(&target, Some(&demo_pair()?.target), &directory.join("target"))?;
    write(&drafter, None, &directory.join("drafter"))
}

fn write(grown: &GrownCheckpoint, companions: Option<&Path>, destination: &Path) -> anyhow::Result<()> {
    let bytes: usize = grown.tensors().iter().map(TensorInfo::byte_count).sum();
    let (name, shown) = (grown.name(), destination.display());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{shown}: {name}, {} tensors, {:.2} GB", grown.tensors().len(), bytes as f64 / 1e9)?;
    write_source(grown, companions, destination, SHARD_BYTES)
        .with_context(|| format!("writing {shown} failed"))
}
