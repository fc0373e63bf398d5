//! MLX affine quantization as `config.json` describes it, with its per-path overrides.

use std::collections::BTreeMap;

use serde_json::Value;

use super::QuantizationConfig;
use super::fields::Fields;
use crate::CheckpointError;
use crate::archive::canonical;

/// Fields of the object that are not paths.
const SETTINGS: [&str; 3] = ["group_size", "bits", "mode"];

/// `quantization`, or its copy `quantization_config`; `None` when the checkpoint is not quantized.
pub(super) fn read_quantization(config: &Fields) -> Result<Option<QuantizationConfig>, CheckpointError> {
    let section = match config.section("quantization")? {
        Some(section) => section,
        None => match config.section("quantization_config")? {
            Some(section) => section,
            None => return Ok(None),
        },
    };
    if let Some(method) = section.value("quant_method") {
        return Err(section.unknown(
            "quant_method",
            method,
            "MLX affine quantization, which names no method",
        ));
    }
    let (bits, group_size) = read_widths(&section)?;
    let mut overrides = BTreeMap::new();
    for (path, value) in section.iter().filter(|(path, _)| !SETTINGS.contains(path)) {
        let widths = match value {
            Value::Bool(false) => None,
            Value::Bool(true) => Some((bits, group_size)),
            Value::Object(_) => section.section(path)?.map(|section| read_widths(&section)).transpose()?,
            other => return Err(section.invalid(path, other, "{\"group_size\": …, \"bits\": …} or false")),
        };
        overrides.insert(override_key(path), widths);
    }
    Ok(Some(QuantizationConfig { bits, group_size, overrides }))
}

/// The key of a path in [`QuantizationConfig::overrides`]: `model.` and what follows.
pub(super) fn override_key(path: &str) -> String {
    format!("model.{}", canonical(path))
}

fn read_widths(section: &Fields) -> Result<(u32, usize), CheckpointError> {
    section.only_text("mode", &["affine"])?;
    let one_of = |name: &str, supported: &[usize]| {
        let accepted = supported.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let value = section.value(name).ok_or_else(|| section.missing(name, &accepted))?;
        match value.as_u64() {
            Some(number) if supported.contains(&(number as usize)) => Ok(number as usize),
            _ => Err(section.unknown(name, value, &accepted)),
        }
    };
    let bits = one_of("bits", &[4, 8])?;
    let group_size = one_of("group_size", &[32, 64, 128])?;
    Ok((bits as u32, group_size))
}
