//! How tokens are drawn when a request does not say.

use forerunner_engine::SamplingRule;
use serde::Deserialize;

/// What a model's `generation_config.json` recommends, for requests that say nothing else.
///
/// A model that recommends nothing is drawn from as OpenAI clients expect: temperature 1, everything else off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct SamplingDefaults {
    /// `temperature`
    pub temperature: Option<f32>,
    /// `top_k`
    pub top_k: Option<u32>,
    /// `top_p`
    pub top_p: Option<f32>,
    /// `min_p`
    pub min_p: Option<f32>,
    /// `repetition_penalty`
    pub repetition_penalty: Option<f32>,
}

impl SamplingDefaults {
    /// The rule of a request without sampling fields; its seed is still to be set.
    pub fn rule(&self) -> SamplingRule {
        let off = SamplingRule::default();
        SamplingRule {
            temperature: self.temperature.unwrap_or(1.0),
            top_k: self.top_k.unwrap_or(off.top_k),
            top_p: self.top_p.unwrap_or(off.top_p),
            min_p: self.min_p.unwrap_or(off.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(off.repetition_penalty),
            ..off
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_recommends_holds_and_the_rest_is_off() {
        let config = r#"{"bos_token_id": 1, "temperature": 0.3, "min_p": 0.15}"#;
        let rule = serde_json::from_str::<SamplingDefaults>(config).unwrap().rule();
        assert_eq!((rule.temperature, rule.min_p, rule.top_p), (0.3, 0.15, 1.0));
        assert_eq!(SamplingDefaults::default().rule().temperature, 1.0);
    }
}
