//! What to grow, in a line: `lfm2.5-24b-a2b,4bit,0.40`.

use std::str::FromStr;

use crate::{Format, Shape, SynthError};

/// A shape, a format and a skew of the experts' copies.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    /// What to grow to.
    pub shape: Shape,
    /// How the target is stored.
    pub format: Format,
    /// Share of the tokens that use the first copy of the experts; all copies equally often when absent.
    pub skew: Option<f64>,
}

impl Specification {
    /// The shape called `shape` or in the file of that name, stored in the format called `format`.
    pub fn new(shape: &str, format: &str, skew: Option<f64>) -> Result<Self, SynthError> {
        let shape = Shape::find(shape)?;
        let format = Format::find(format).ok_or_else(|| SynthError::UnknownPart {
            specification: shape.name.clone(),
            found: format.into(),
        })?;
        Ok(Specification { shape, format, skew })
    }
}

impl FromStr for Specification {
    type Err = SynthError;

    /// `SHAPE[,FORMAT][,SKEW]`; 4 bits and no skew when left out.
    fn from_str(text: &str) -> Result<Self, SynthError> {
        let mut parts = text.split(',');
        let shape = Shape::find(parts.next().unwrap_or_default())?;
        let mut specification = Specification { shape, format: Format::Bits4, skew: None };
        for part in parts {
            match (Format::find(part), part.parse()) {
                (Some(format), _) => specification.format = format,
                (None, Ok(skew)) => specification.skew = Some(skew),
                (None, Err(_)) => {
                    return Err(SynthError::UnknownPart { specification: text.into(), found: part.into() });
                }
            }
        }
        Ok(specification)
    }
}

impl std::fmt::Display for Specification {
    /// As it is parsed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{}", self.shape.name, self.format.name())?;
        match self.skew {
            Some(skew) => write!(f, ",{skew}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_may_be_left_out() {
        for (text, shown) in [
            ("mid", "mid,4bit"),
            ("mid,bf16", "mid,bf16"),
            ("mid,0.40", "mid,4bit,0.4"),
            ("lfm2.5-24b-a2b,4bit,0.6", "lfm2.5-24b-a2b,4bit,0.6"),
        ] {
            assert_eq!(text.parse::<Specification>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (text, parts) in [
            ("huge", ["huge", "lfm2.5-24b-a2b, lfm2-8b-a1b, mid"]),
            ("", ["``", "lfm2.5-24b-a2b"]),
            ("mid,5bit", ["5bit", "4bit or bf16"]),
            ("mid,4bit,", ["``", "mid,4bit,"]),
        ] {
            let error = text.parse::<Specification>().unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
