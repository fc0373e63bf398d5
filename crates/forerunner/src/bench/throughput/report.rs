//! What is printed while throughput is measured.

use forerunner_engine::EngineInfo;

use super::cell::{Cell, Side};
use crate::bench::statistics::Spread;
use crate::flags::ThroughputFlags;
use crate::terminal::banner;

/// Above the rows.
pub(super) const COLUMNS: &str = "      kind streams    plain tok/s  (min to max)  drafted tok/s  (min to max)  a stream  drafted / plain time  pairs  tokens/round  drafted = plain  shared = alone";

/// What runs.
pub(super) fn head(info: &EngineInfo, flags: &ThroughputFlags) -> String {
    let prompts = if flags.same { "the same prompt" } else { "distinct prompts" };
    format!(
        "{}\nmedians of {} or more alternated pairs of runs, {prompts}, replies of at most {} tokens",
        banner(info),
        flags.pairs,
        flags.prompts.max_tokens
    )
}

/// A cell's row.
pub(super) fn row(cell: &Cell) -> String {
    let ratio = cell.time_ratio().map_or_else(String::new, |Spread { median, low, high, .. }| {
        format!("{median:.3} ({low:.3}-{high:.3})")
    });
    format!(
        "{:>10} {:>7} {} {} {:>9.0} {ratio:>21} {:>6} {:>13.2}  {:>15}  {:>14}",
        cell.kind,
        cell.streams,
        speed(&cell.plain),
        speed(&cell.drafted),
        cell.drafted.per_stream().unwrap_or_default(),
        cell.pairs(),
        cell.drafted.tokens_per_round(),
        cell.drafted_is_plain,
        cell.shared_is_alone,
    )
}

fn speed(side: &Side) -> String {
    let Some(Spread { median, min, max, .. }) = side.aggregate() else { return String::new() };
    format!("{median:>14.0} {:>13}", format!("({min:.0}-{max:.0})"))
}
