//! `forerunner bench`: speeds, each beside an equality.

use crate::bench::{compare, latency, serve, throughput};
use crate::flags::{Bench, BenchFlags};

/// Runs a benchmark; an error when replies differ that should be equal.
pub(crate) fn bench(flags: &BenchFlags) -> anyhow::Result<()> {
    match &flags.bench {
        Bench::Throughput(flags) => throughput::throughput(flags),
        Bench::Latency(flags) => latency::latency(flags),
        Bench::Serve(flags) => serve::serve(flags),
        Bench::Compare(flags) => compare::compare(flags),
    }
}
