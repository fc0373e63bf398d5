//! `forerunner info`: what a model directory holds, and whether a drafter fits it.

use std::io::Write;

use forerunner_checkpoint::{
    DrafterCheckpoint, DrafterConfig, Family, LayerKind, Summary, TargetCheckpoint, TargetConfig,
};

use crate::flags::InfoFlags;
use crate::setup::ModelPaths;

/// Names and values, written below each other.
type Lines = Vec<(&'static str, String)>;

/// Describes a model.
pub(crate) fn info(flags: &InfoFlags) -> anyhow::Result<()> {
    let paths = ModelPaths::choose(flags.model.as_deref(), flags.drafter.as_deref())?;
    let target = TargetCheckpoint::open(&paths.target)?;
    let mut lines: Lines = vec![("model", format!("{} ({})", paths.name, paths.target.display()))];
    lines.extend(target_lines(target.config()));
    lines.extend(size_lines(&target.summary()));
    if let Some(path) = &paths.drafter {
        let drafter = DrafterCheckpoint::open(path, target.config())?;
        lines.push(("", String::new()));
        lines.push(("drafter", format!("dspark, fits this model ({})", path.display())));
        lines.extend(drafter_lines(drafter.config()));
        lines.extend(size_lines(&drafter.summary()));
    }
    let mut out = std::io::stdout().lock();
    for (name, value) in lines {
        writeln!(out, "{name:<13} {value}")?;
    }
    Ok(())
}

fn target_lines(config: &TargetConfig) -> Lines {
    let attention = config.layers.iter().filter(|kind| **kind == LayerKind::Attention).count();
    let layers = config.layers.len();
    let mut lines = vec![
        ("family", family(config.family).into()),
        ("layers", format!("{layers}: {} convolution, {attention} attention", layers - attention)),
        ("hidden", config.hidden.to_string()),
        ("heads", heads(config.query_heads, config.key_value_heads, config.head_dim)),
        ("vocabulary", config.vocabulary.to_string()),
        ("context", config.max_positions.to_string()),
    ];
    if let Some(synthetic) = &config.synthetic {
        lines.push(("trained", format!("no: {synthetic} (docs/synth.md)")));
    }
    if config.intermediate > 0 {
        lines.push(("feed-forward", format!("{} wide", config.intermediate)));
    }
    if let Some(mixture) = &config.mixture {
        let (experts, picks, width) = (mixture.experts, mixture.picks, mixture.intermediate);
        let dense = mixture.dense_layers;
        lines.push((
            "experts",
            format!("{experts}, {picks} a token, {width} wide, after {dense} dense layers"),
        ));
    }
    if let Some(quantization) = &config.quantization {
        let (bits, group) = (quantization.bits, quantization.group_size);
        let others = quantization.overrides.len();
        lines.push((
            "quantization",
            format!("affine {bits}-bit, groups of {group}, {others} matrices otherwise"),
        ));
    }
    lines
}

fn family(family: Family) -> &'static str {
    match family {
        Family::Lfm2 => "lfm2",
        Family::Lfm2Moe => "lfm2_moe",
    }
}

fn drafter_lines(config: &DrafterConfig) -> Lines {
    let taps: Vec<_> = config.taps.iter().map(usize::to_string).collect();
    vec![
        ("block", format!("{} drafts", config.block)),
        ("taps", format!("after layers {}", taps.join(", "))),
        ("layers", format!("{} attention", config.layers)),
        ("heads", heads(config.query_heads, config.key_value_heads, config.head_dim)),
        ("confidence", if config.has_confidence { "yes" } else { "no" }.into()),
    ]
}

fn size_lines(summary: &Summary) -> Lines {
    let stored: Vec<_> =
        summary.stored.iter().map(|(kind, count)| format!("{} {kind}", millions(*count))).collect();
    let active = match summary.active_parameters == summary.parameters {
        true => String::new(),
        false => format!(", {} of them for a token", millions(summary.active_parameters)),
    };
    let megabytes = summary.bytes as f64 / 1e6;
    vec![
        ("parameters", format!("{}{active} ({})", millions(summary.parameters), stored.join(", "))),
        ("size", format!("{megabytes:.1} MB in {} safetensors", summary.files.len())),
    ]
}

fn heads(query: usize, key_value: usize, width: usize) -> String {
    format!("{query} for queries, {key_value} for keys and values, {width} wide")
}

fn millions(count: u64) -> String {
    match count {
        1_000_000_000.. => format!("{:.2}B", count as f64 / 1e9),
        100_000.. => format!("{:.1}M", count as f64 / 1e6),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_as_people_say_them() {
        assert_eq!(millions(768), "768");
        assert_eq!(millions(22_710_000), "22.7M");
        assert_eq!(millions(23_843_000_000), "23.84B");
    }
}
