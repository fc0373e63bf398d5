//! Replies of the demo model under random schemas: each is of its grammar, parses when it has ended, and is the same
//! drafted, plain, alone and among others.

mod grammars;
mod support;

use forerunner_cpu::{CpuDevice, CpuOptions};
use forerunner_engine::gates::{GateSequence, run_all};
use forerunner_lanes::fake::Random;
use forerunner_lanes::{NewSequence, SamplingRule};
use forerunner_text::{Constraint, GrammarSpec, Tokenizer};
use grammars::grammars;
use serde_json::{Value, json};
use support::{demo, golden, lanes, target};

/// A schema of small values, nested up to `depth` times.
fn schema(random: &mut Random, depth: u64) -> Value {
    let kinds = if depth == 0 { 5 } else { 8 };
    match random.below(kinds) {
        0 => json!({"type": "boolean"}),
        1 => json!({"type": "integer", "minimum": -5, "maximum": random.below(1000)}),
        2 => json!({"type": "string", "maxLength": 1 + random.below(8)}),
        3 => json!({"enum": ["red", "green", 7, null, "deep blue"]}),
        4 => json!({"type": "string", "pattern": "^[A-C]{2}-[0-9]{1,3}$"}),
        5 => {
            let items = schema(random, depth - 1);
            json!({"type": "array", "items": items, "minItems": random.below(2), "maxItems": 2})
        }
        6 => json!({"anyOf": [schema(random, depth - 1), {"type": "null"}]}),
        _ => object(random, depth),
    }
}

fn object(random: &mut Random, depth: u64) -> Value {
    const NAMES: [&str; 5] = ["name", "a_rather_long_property", "ß", "with \"quotes\"", "n"];
    let mut properties = serde_json::Map::new();
    for name in &NAMES[..1 + random.below(NAMES.len() as u64) as usize] {
        properties.insert((*name).to_owned(), schema(random, depth - 1));
    }
    let required: Vec<&String> = properties.keys().filter(|_| random.chance(0.7)).collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

/// Whether a value follows a schema of the kinds above.
fn follows(value: &Value, schema: &Value) -> bool {
    if let Some(choices) = schema["enum"].as_array() {
        return choices.contains(value);
    }
    if let Some(schemas) = schema["anyOf"].as_array() {
        return schemas.iter().any(|schema| follows(value, schema));
    }
    match schema["type"].as_str() {
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("integer") => {
            let most = schema["maximum"].as_i64().expect("a bound");
            value.as_i64().is_some_and(|value| (-5..=most).contains(&value))
        }
        Some("string") => {
            let most = schema["maxLength"].as_u64().unwrap_or(6) as usize;
            value.as_str().is_some_and(|text| text.chars().count() <= most)
        }
        Some("array") => {
            let items = value
                .as_array()
                .is_some_and(|items| items.iter().all(|item| follows(item, &schema["items"])));
            items && value.as_array().is_some_and(|items| items.len() <= 2)
        }
        _ => value.as_object().is_some_and(|fields| {
            let required = schema["required"].as_array().expect("a list");
            let known = |(name, value): (&String, &Value)| follows(value, &schema["properties"][name]);
            required.iter().all(|name| fields.contains_key(name.as_str().expect("a name")))
                && fields.iter().all(known)
        }),
    }
}

#[test]
fn replies_follow_random_schemas() {
    let device = CpuDevice::new(CpuOptions { mode: None, threads: None }).expect("a device");
    let mut lanes = lanes(target(device, 8, 1024, true), true);
    let (grammars, tokenizer) = (grammars(), Tokenizer::open(&demo("target")).expect("a tokenizer"));
    let prompts = golden();
    let (mut ended, mut forced, mut drafted) = (0, 0, 0);
    for round in 0..3 {
        let cases: Vec<(Value, GateSequence)> = (0..8)
            .map(|index| {
                let seed = 8 * round + index;
                let schema = object(&mut Random::new(seed), 3);
                let constraint = Constraint::new(&grammars, &GrammarSpec::JsonSchema(schema.clone()));
                let constraint = constraint.unwrap_or_else(|error| panic!("seed {seed}: {error}: {schema}"));
                let temperature = [0.0, 0.8, 1.5][seed as usize % 3];
                let new = NewSequence {
                    prompt: prompts[seed as usize % prompts.len()].0.prompt.clone(),
                    max_tokens: 100,
                    rule: SamplingRule { temperature, seed, ..SamplingRule::default() },
                    stop_tokens: vec![2, 7],
                    draft: true,
                    logprobs: None,
                };
                (schema, GateSequence { new, constraint: Some(constraint) })
            })
            .collect();
        let shared = run_all(&mut lanes, cases.iter().map(|(_, sequence)| sequence.clone()).collect());
        for (index, ((schema, sequence), reply)) in cases.into_iter().zip(shared).enumerate() {
            let at = format!("round {round}, reply {index}, {schema}");
            let mut walk = sequence.constraint.clone().expect("just given");
            reply
                .tokens
                .iter()
                .for_each(|&token| walk.advance(token).unwrap_or_else(|error| panic!("{at}: {error}")));
            let text = tokenizer.decode(&reply.tokens, true);
            if reply.tokens.last().is_some_and(|last| [2, 7].contains(last)) {
                let value: Value =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{at}: {error}: {text}"));
                assert!(follows(&value, &schema), "{at}: {text}");
                ended += 1;
            }
            forced += reply.statistics.forced_accepted;
            drafted += reply.statistics.accepted - reply.statistics.forced_accepted;
            let new = NewSequence { draft: false, ..sequence.new.clone() };
            let plain = run_all(&mut lanes, vec![GateSequence { new, ..sequence }]).remove(0);
            assert_eq!(plain.tokens, reply.tokens, "{at}: {text}");
            assert_eq!(plain.statistics.drafts, 0, "{at}");
        }
    }
    println!("{ended} of 24 ended, {forced} forced tokens and {drafted} other drafts accepted");
    assert!(ended >= 8 && forced > 50 && drafted > 0, "{ended} ended, {forced} forced, {drafted} drafted");
    assert_eq!(lanes.pages_in_use(), 0);
}
