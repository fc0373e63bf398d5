//! `forerunner synth`: makes checkpoints from others, for tests and benchmarks.

use forerunner_checkpoint::{TargetCheckpoint, write_dequantized};

use crate::flags::SynthFlags;

/// Writes a checkpoint's bf16 twin.
pub(crate) fn synth(flags: &SynthFlags) -> anyhow::Result<()> {
    let [source, destination] = flags.dequantize.as_slice() else {
        unreachable!("the parser takes exactly two");
    };
    let target = TargetCheckpoint::open(source)?;
    write_dequantized(&target, source, destination)?;
    Ok(())
}
