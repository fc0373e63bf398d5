//! The arithmetic of a device: which modes exist, which this processor has, and the choice at start.

use std::fmt;
use std::str::FromStr;

use forerunner_tensor::DeviceError;

/// One arithmetic for every row count, chosen once. To add a mode: a variant here, its place in [`Mode::ALL`], a
/// file with its [`Arithmetic`](crate::arithmetic::Arithmetic), and its line in `with_mode!`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Tiles of bf16 products (AMX-BF16, on Linux) beside what [`Mode::Avx512`] needs.
    Amx,
    /// AVX-512 with bf16 products (F, BW, VL and BF16).
    Avx512,
    /// Multiply-adds of 256 bits in fp32 (AVX2 and FMA).
    Avx2,
    /// The arithmetic of [`Mode::Avx2`] in registers of 128 bits (aarch64).
    Neon,
    /// Plain loops, for any processor.
    Portable,
}

impl Mode {
    /// Best first.
    pub const ALL: [Mode; 5] = [Mode::Amx, Mode::Avx512, Mode::Avx2, Mode::Neon, Mode::Portable];

    /// Name on the command line and in receipts.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Amx => "amx",
            Mode::Avx512 => "avx512",
            Mode::Avx2 => "avx2",
            Mode::Neon => "neon",
            Mode::Portable => "portable",
        }
    }

    /// What the processor needs for it, for messages.
    fn needs(self) -> &'static str {
        match self {
            Mode::Amx => "Linux, AMX-TILE, AMX-BF16 and AVX-512 F, BW, VL and BF16",
            Mode::Avx512 => "AVX-512 F, BW, VL and BF16",
            Mode::Avx2 => "AVX2 and FMA",
            Mode::Neon => "aarch64",
            Mode::Portable => "nothing",
        }
    }

    /// Whether this processor can run it.
    pub fn is_supported(self) -> bool {
        match self {
            Mode::Amx => has_amx(),
            Mode::Avx512 => has_avx512(),
            Mode::Avx2 => has_avx2(),
            Mode::Neon => cfg!(target_arch = "aarch64"),
            Mode::Portable => true,
        }
    }

    /// The modes this processor can run, best first.
    pub fn supported() -> impl Iterator<Item = Mode> {
        Mode::ALL.into_iter().filter(|mode| mode.is_supported())
    }

    /// The mode asked for, or the best one.
    pub(crate) fn choose(asked: Option<Mode>) -> Result<Mode, DeviceError> {
        match asked {
            None => Ok(Mode::supported().next().unwrap_or(Mode::Portable)),
            Some(mode) if mode.is_supported() => Ok(mode),
            Some(mode) => Err(DeviceError::Unsupported {
                device: crate::NAME.into(),
                what: "the mode".into(),
                found: format!("{mode}, which needs {} on this processor", mode.needs()),
                accepted: names(Mode::supported()),
            }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_amx() -> bool {
    has_avx512() && crate::amx::are_available()
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_amx() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

fn names(modes: impl Iterator<Item = Mode>) -> String {
    modes.map(Mode::name).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mode's name that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMode {
    found: String,
}

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no mode of the CPU; accepted: {}", self.found, names(Mode::ALL.into_iter()))
    }
}

impl std::error::Error for UnknownMode {}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| UnknownMode { found: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_others_are_refused_by_name() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        let message = "sse9".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(message, "sse9 is no mode of the CPU; accepted: amx, avx512, avx2, neon, portable");
    }

    #[test]
    fn the_best_supported_mode_is_the_default() {
        let chosen = Mode::choose(None).unwrap();
        assert!(chosen.is_supported());
        assert_eq!(Mode::supported().next(), Some(chosen));
        assert_eq!(Mode::choose(Some(Mode::Portable)).unwrap(), Mode::Portable);
    }
}
