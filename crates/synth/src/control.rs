//! The control group: 64 features that say which copy of the experts a token uses, and which tokens are never drawn
//! (docs/synth.md section 3).

use crate::copies::Copies;
use crate::replicas::GROUP;

/// Feature `copy` of a token that uses that copy. It and [`KNOWN`] are multiples of one step, so that they and 0 are
/// exact in 4 bits.
pub(crate) const CODE: f32 = 15.0 * STEP;
/// Feature [`KNOWN_FEATURE`] of a token that the base knows.
pub(crate) const KNOWN: f32 = 4.0 * STEP;
/// Feature [`KNOWN_FEATURE`] of any other token: through the head it takes so much from the token's logit that it is
/// never drawn.
const UNKNOWN: f32 = -128.0;
const STEP: f32 = 17.0 / 16_384.0;

/// Where [`KNOWN`] stands in the control group; codes stand below.
pub(crate) const KNOWN_FEATURE: usize = 32;

/// What writes a matrix's control group.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Control {
    /// The embedding table: a token's copy, and whether it is one of the first `known`.
    Embedding { copies: Copies, known: usize },
    /// A router of `experts` experts a copy: every copy but the token's own loses by `penalty`.
    Router { copies: usize, experts: usize, penalty: f32 },
}

/// A group of 64 features: `scale` times small whole numbers, so exact in every format.
#[derive(Debug, PartialEq)]
pub(crate) struct ControlGroup {
    pub(crate) scale: f32,
    pub(crate) codes: [u8; GROUP],
}

impl Control {
    /// The control group of `row`.
    pub(crate) fn group(&self, row: usize) -> ControlGroup {
        let mut codes = [0; GROUP];
        let scale = match *self {
            Control::Embedding { copies, known } if row < known => {
                codes[copies.of(row as u32)] = (CODE / STEP) as u8;
                codes[KNOWN_FEATURE] = (KNOWN / STEP) as u8;
                STEP
            }
            Control::Embedding { .. } => {
                codes[KNOWN_FEATURE] = 1;
                UNKNOWN
            }
            Control::Router { copies, experts, penalty } => {
                codes[..copies].fill(u8::MAX);
                codes[row / experts] = 0;
                -penalty / f32::from(u8::MAX)
            }
        };
        ControlGroup { scale, codes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_code_of_its_copy_and_says_that_it_is_known() {
        let copies = Copies::new(4, None).unwrap();
        let control = Control::Embedding { copies, known: 10 };
        for token in 0..10 {
            let group = control.group(token);
            let value = |feature: usize| group.scale * f32::from(group.codes[feature]);
            assert_eq!(value(copies.of(token as u32)), 255.0 / 16_384.0);
            assert_eq!(value(KNOWN_FEATURE), 68.0 / 16_384.0);
            assert_eq!(group.codes.iter().filter(|code| **code > 0).count(), 2);
            assert!(group.codes.iter().all(|code| *code < 16), "four bits");
        }
        let unknown = control.group(10);
        assert_eq!(unknown.scale * f32::from(unknown.codes[KNOWN_FEATURE]), -128.0);
    }

    #[test]
    fn a_router_spares_its_own_copy_alone() {
        let control = Control::Router { copies: 4, experts: 16, penalty: 510.0 };
        let group = control.group(2 * 16 + 5);
        let values: Vec<f32> = group.codes[..5].iter().map(|code| group.scale * f32::from(*code)).collect();
        assert_eq!(values, [-510.0, -510.0, 0.0, -510.0, 0.0]);
    }
}
