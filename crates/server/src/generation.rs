//! The fields that every generating endpoint shares, from what was typed to what the engine takes.

use std::collections::BTreeMap;

use forerunner_engine::{EngineInfo, MAX_ALTERNATIVES, Request, SamplingRule, StopRule, TokenId};
use serde::Deserialize;
use serde_json::{Number, Value};
use utoipa::ToSchema;

use crate::body::Body;
use crate::defaults::SamplingDefaults;
use crate::error::ApiError;
use crate::fields::OneOrMany;
use crate::random::random_seed;
use crate::telling::Asked;
use crate::unsupported::refuse_unsupported;

/// Most stop strings of a request.
const MOST_STOP_STRINGS: usize = 16;

/// What a client may say about generation, as it says it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct GenerationFields {
    /// The served model, or none.
    model: Option<String>,
    /// Whether the reply comes in chunks as it is drawn.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Most tokens of the reply.
    #[schema(minimum = 1)]
    max_tokens: Option<usize>,
    /// The same; it counts when both are given.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<usize>,
    /// 0 takes the likeliest token each time.
    #[schema(minimum = 0, maximum = 100)]
    temperature: Option<f32>,
    /// How many candidates are kept; 0 or -1 for all.
    #[schema(minimum = -1)]
    top_k: Option<i64>,
    #[schema(exclusive_minimum = 0, maximum = 1)]
    top_p: Option<f32>,
    #[schema(minimum = 0, maximum = 1)]
    min_p: Option<f32>,
    #[schema(exclusive_minimum = 0, maximum = 100)]
    repetition_penalty: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f32>,
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f32>,
    /// By token id, -100 to 100.
    #[schema(value_type = Option<BTreeMap<String, f32>>)]
    logit_bias: Option<BTreeMap<TokenId, f32>>,
    /// The same seed draws the same reply; a reply says which was used.
    #[schema(value_type = Option<i64>)]
    seed: Option<Number>,
    /// The reply ends before the first of these.
    stop: Option<OneOrMany>,
    /// Whether the reply goes on past the model's own end.
    ignore_eos: Option<bool>,
    /// Whether drafting is allowed, which changes time and never text [default: true].
    draft: Option<bool>,
    /// Whether the reply's tokens are told.
    return_token_ids: Option<bool>,
    /// Whether replies say where each token comes from.
    token_origins: Option<bool>,
    /// Replies asked for, as many as there are lanes at most; one where an endpoint answers with one.
    #[schema(minimum = 1)]
    n: Option<usize>,
    /// The same as `n`, or absent.
    #[schema(minimum = 1)]
    best_of: Option<usize>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct StreamOptions {
    /// Whether a stream ends with a chunk of its usage.
    include_usage: Option<bool>,
}

/// How a reply is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplyFormat {
    /// As server-sent events, or at once.
    pub(crate) stream: bool,
    /// A streamed reply ends with a usage chunk. One written at once always has its usage.
    pub(crate) include_usage: bool,
    /// With the reply's token ids.
    pub(crate) token_ids: bool,
    /// What is told of each token.
    pub(crate) asked: Asked,
}

/// What a request asks for, with everything checked that can be without its prompt.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Complete but for the prompt.
    pub(crate) request: Request,
    pub(crate) format: ReplyFormat,
    /// Replies asked for, each drawn on its own.
    pub(crate) choices: usize,
}

impl Generation {
    /// Reads and checks a body's fields.
    pub(crate) fn read(
        body: &Body,
        engine: &EngineInfo,
        defaults: &SamplingDefaults,
    ) -> Result<Self, ApiError> {
        let fields: GenerationFields = body.read()?;
        refuse_unsupported(body.fields())?;
        check_model(fields.model.as_deref(), &engine.model)?;
        let choices = choices(&fields, engine.parallel)?;
        let format = ReplyFormat {
            stream: fields.stream.unwrap_or(false),
            include_usage: fields.stream_options.as_ref().and_then(|options| options.include_usage)
                == Some(true),
            token_ids: fields.return_token_ids.unwrap_or(false),
            asked: Asked { logprobs: None, origins: fields.token_origins.unwrap_or(false) },
        };
        let request = Request {
            prompt: Vec::new(),
            max_tokens: fields.max_completion_tokens.or(fields.max_tokens),
            draft: fields.draft.unwrap_or(true),
            constraint: None,
            tells_tokens: format.asked.origins,
            logprobs: None,
            rule: rule(&fields, defaults)?,
            stop: stop_rule(fields)?,
        };
        Ok(Generation { request, format, choices })
    }

    /// Refuses more than one choice, for endpoints whose reply has no place for another.
    pub(crate) fn single(self) -> Result<Self, ApiError> {
        match self.choices {
            1 => Ok(self),
            more => Err(ApiError::value("n", &more.into(), "1, as this endpoint answers with one reply")),
        }
    }

    /// Asks for log-probabilities with so many alternatives, if any; each endpoint has its own words for it.
    pub(crate) fn ask_logprobs(&mut self, alternatives: Option<usize>) {
        self.format.asked.logprobs = alternatives;
        self.request.logprobs = alternatives;
        self.request.tells_tokens |= alternatives.is_some();
    }
}

/// What `logprobs` and `top_logprobs` ask for together. `what` names the first in refusals.
pub(crate) fn alternatives(
    is_asked: bool,
    top_logprobs: Option<usize>,
    what: &str,
) -> Result<Option<usize>, ApiError> {
    let top = top_logprobs.unwrap_or(0);
    if top > MAX_ALTERNATIVES {
        return Err(ApiError::value("top_logprobs", &top.into(), &format!("0 to {MAX_ALTERNATIVES}")));
    }
    if top > 0 && !is_asked {
        return Err(ApiError::value("top_logprobs", &top.into(), &format!("0 without {what}")));
    }
    Ok(is_asked.then_some(top))
}

/// Choices run beside one another, so there can be as many as there are lanes.
fn choices(fields: &GenerationFields, parallel: usize) -> Result<usize, ApiError> {
    let choices = fields.n.unwrap_or(1);
    if !(1..=parallel).contains(&choices) {
        return Err(ApiError::value("n", &choices.into(), &format!("1 to {parallel}")));
    }
    match fields.best_of {
        Some(best_of) if best_of != choices => {
            Err(ApiError::value("best_of", &best_of.into(), "the same as n"))
        }
        _ => Ok(choices),
    }
}

/// Refuses another model than the served one.
pub(crate) fn check_model(asked: Option<&str>, served: &str) -> Result<(), ApiError> {
    match asked {
        None | Some("") => Ok(()),
        Some(asked) if asked == served => Ok(()),
        Some(asked) => {
            let message = format!("the model {asked:?} is not served here; accepted: {served:?}");
            let error = ApiError::not_found(message, "model_not_found");
            Err(ApiError { param: Some("model".into()), ..error })
        }
    }
}

/// Ranges are checked by the engine, which serves other callers too.
fn rule(fields: &GenerationFields, defaults: &SamplingDefaults) -> Result<SamplingRule, ApiError> {
    let default = defaults.rule();
    Ok(SamplingRule {
        temperature: fields.temperature.unwrap_or(default.temperature),
        top_k: fields.top_k.map_or(Ok(default.top_k), top_k)?,
        top_p: fields.top_p.unwrap_or(default.top_p),
        min_p: fields.min_p.unwrap_or(default.min_p),
        repetition_penalty: fields.repetition_penalty.unwrap_or(default.repetition_penalty),
        presence_penalty: fields.presence_penalty.unwrap_or(default.presence_penalty),
        frequency_penalty: fields.frequency_penalty.unwrap_or(default.frequency_penalty),
        logit_bias: fields.logit_bias.iter().flatten().map(|(token, bias)| (*token, *bias)).collect(),
        seed: fields.seed.as_ref().map_or_else(|| Ok(random_seed()), seed)?,
        choice: 0,
    })
}

/// Both 0 and -1 are in use for "all candidates".
fn top_k(value: i64) -> Result<u32, ApiError> {
    u32::try_from(value.max(0)).ok().filter(|_| value >= -1).ok_or_else(|| {
        ApiError::value("top_k", &value.into(), "0 or -1 for all candidates, or how many are kept")
    })
}

/// Any 64-bit integer; a negative one is the seed with the same bits.
fn seed(value: &Number) -> Result<u64, ApiError> {
    value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)).ok_or_else(|| {
        ApiError::value("seed", &Value::Number(value.clone()), "an integer of at most 64 bits")
    })
}

fn stop_rule(fields: GenerationFields) -> Result<StopRule, ApiError> {
    let strings = fields.stop.map_or(Vec::new(), |stop| stop.0);
    if strings.len() > MOST_STOP_STRINGS {
        let message = format!("stop has {} strings; accepted: at most {MOST_STOP_STRINGS}", strings.len());
        return Err(ApiError::field("stop", message));
    }
    Ok(StopRule { strings, ignore_end_of_sequence: fields.ignore_eos.unwrap_or(false) })
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<Generation, ApiError> {
        let body = Body::parse(body.to_string().as_bytes())?;
        let engine = EngineInfo {
            model: "demo".into(),
            drafter: None,
            device: "none".into(),
            context: 64,
            parallel: 4,
            vocabulary: 64,
        };
        Generation::read(&body, &engine, &SamplingDefaults::default())
    }

    #[track_caller]
    fn refused(body: Value, param: &str, fragment: &str) {
        let error = read(&body).expect_err("refused");
        assert_eq!(error.status, StatusCode::BAD_REQUEST, "{}", error.message);
        assert_eq!(error.param.as_deref(), Some(param), "{}", error.message);
        assert!(error.message.contains(fragment), "{}", error.message);
    }

    #[test]
    fn an_empty_body_is_drafted_and_drawn_at_temperature_one_with_a_random_seed() {
        let (first, second) = (read(&json!({})).unwrap(), read(&json!({})).unwrap());
        assert_eq!(first.format, ReplyFormat::default());
        assert!(first.request.draft);
        assert_eq!(first.request.max_tokens, None);
        assert_eq!(first.request.rule.temperature, 1.0);
        assert_ne!(first.request.rule.seed, second.request.rule.seed);
    }

    #[test]
    fn every_field_reaches_the_engine() {
        let generation = read(&json!({
            "model": "demo", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 5,
            "max_completion_tokens": 7, "temperature": 0.5, "top_k": 40, "top_p": 0.5, "min_p": 0.25,
            "repetition_penalty": 1.5, "presence_penalty": 0.5, "frequency_penalty": -0.5,
            "logit_bias": {"12": -100, "3": 1.5}, "seed": -1, "stop": "x", "ignore_eos": true, "draft": false,
            "return_token_ids": true, "token_origins": true, "user": "somebody",
        }))
        .unwrap();
        let rule = SamplingRule {
            temperature: 0.5,
            top_k: 40,
            top_p: 0.5,
            min_p: 0.25,
            repetition_penalty: 1.5,
            presence_penalty: 0.5,
            frequency_penalty: -0.5,
            logit_bias: vec![(3, 1.5), (12, -100.0)],
            seed: u64::MAX,
            choice: 0,
        };
        assert_eq!(generation.request.rule, rule);
        assert_eq!(generation.request.max_tokens, Some(7));
        assert_eq!(generation.request.stop.strings, ["x"]);
        assert!(generation.request.stop.ignore_end_of_sequence && !generation.request.draft);
        let asked = Asked { logprobs: None, origins: true };
        let format = ReplyFormat { stream: true, include_usage: true, token_ids: true, asked };
        assert_eq!(generation.format, format);
        assert!(generation.request.tells_tokens);
    }

    #[test]
    fn a_wrong_value_is_refused_by_name() {
        refused(json!({"temperature": "hot"}), "temperature", "invalid type");
        refused(json!({"max_tokens": 1.5}), "max_tokens", "invalid type");
        refused(json!({"top_k": -2}), "top_k", "top_k is -2");
        refused(json!({"seed": 1.5}), "seed", "seed is 1.5");
        refused(json!({"seed": "1"}), "seed", "seed:");
        refused(json!({"stop": ["a", 1]}), "stop[1]", "expected a string");
        refused(json!({"stop": vec!["a"; 17]}), "stop", "stop has 17 strings");
        refused(json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage", "boolean");
        refused(json!({"logit_bias": {"12": "x"}}), "logit_bias.12", "invalid type");
        refused(json!({"logit_bias": [1]}), "logit_bias", "expected a map");
        refused(json!({"token_origins": "yes"}), "token_origins", "boolean");
        refused(json!({"n": 5}), "n", "accepted: 1 to 4");
        refused(json!({"n": 0}), "n", "accepted: 1 to 4");
        refused(json!({"n": 2, "best_of": 3}), "best_of", "accepted: the same as n");
    }

    #[test]
    fn alternatives_come_with_log_probabilities_and_are_at_most_20() {
        let read = |is_asked, top| alternatives(is_asked, top, "logprobs").map_err(|error| error.message);
        assert_eq!(read(false, None), Ok(None));
        assert_eq!(read(false, Some(0)), Ok(None));
        assert_eq!(read(true, None), Ok(Some(0)));
        assert_eq!(read(true, Some(20)), Ok(Some(20)));
        assert_eq!(read(true, Some(21)).unwrap_err(), "top_logprobs is 21; accepted: 0 to 20");
        assert_eq!(read(false, Some(3)).unwrap_err(), "top_logprobs is 3; accepted: 0 without logprobs");
    }

    #[test]
    fn another_model_is_not_found_and_none_is_the_served_one() {
        let error = read(&json!({"model": "gpt"})).unwrap_err();
        assert_eq!((error.status, error.code), (StatusCode::NOT_FOUND, Some("model_not_found")));
        assert!(error.message.contains("\"gpt\"") && error.message.contains("\"demo\""), "{}", error.message);
        assert!(read(&json!({"model": ""})).is_ok());
    }
}
