//! The gates of replies that are held to a grammar: the same equalities, and every reply is of its grammar.

use forerunner_lanes::{NewSequence, TokenId};
use forerunner_text::{Constraint, GrammarSpec, Grammars, TextError, ToolChoice, ToolGrammar};
use serde_json::json;

use super::{GateCase, GateLanes, GateOutcome, GateSequence, GateSettings, compare, replies};

/// A grammar of the gates.
#[derive(Debug, Clone)]
pub struct GateGrammar {
    /// Name, for reports.
    pub name: String,
    /// At the start of a reply.
    pub constraint: Constraint,
}

/// Grammars of all kinds, of which some force long texts.
pub fn gate_grammars(grammars: &Grammars) -> Result<Vec<GateGrammar>, TextError> {
    let address = json!({"type": "object", "additionalProperties": false, "required": ["street", "country_code"],
        "properties": {"street": {"type": "string", "maxLength": 9}, "country_code": {"enum": ["NO", "IT"]}}});
    let person = json!({"type": "object", "additionalProperties": false, "required": ["first_name", "age", "address"],
        "properties": {"first_name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150}, "address": address}});
    let tools = json!([{"name": "get_weather", "parameters": {"required": ["city", "unit"], "properties": {
        "city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}}}]);
    let tools = ToolGrammar { tools, choice: ToolChoice::Required, calls_max: 2 };
    let date = "Today is the [0-3][0-9]\\. of (June|July), [0-9]{4}\\.".to_owned();
    let specs = [
        ("a person", GrammarSpec::JsonSchema(person)),
        ("JSON", GrammarSpec::JsonObject),
        ("calls", GrammarSpec::Tools(tools)),
        ("a date", GrammarSpec::Regex(date)),
    ];
    let grammar = |(name, spec): (&str, GrammarSpec)| {
        Ok(GateGrammar { name: name.to_owned(), constraint: Constraint::new(grammars, &spec)? })
    };
    specs.into_iter().map(grammar).collect()
}

/// Runs `sequences`, one a case, each under the next grammar of the settings. `plain` are their replies without.
pub(super) fn constrained(
    lanes: &mut GateLanes,
    cases: &[GateCase],
    settings: &GateSettings,
    sequences: &[NewSequence],
    plain: &[Vec<TokenId>],
    manner: &str,
) -> Vec<GateOutcome> {
    if settings.grammars.is_empty() {
        return Vec::new();
    }
    let grammars = || settings.grammars.iter().cycle();
    let cases: Vec<GateCase> = cases
        .iter()
        .zip(grammars())
        .map(|(case, grammar)| GateCase {
            name: format!("{} as {}", case.name, grammar.name),
            ..case.clone()
        })
        .collect();
    let held = |draft: bool| -> Vec<GateSequence> {
        let held = |(sequence, grammar): (&NewSequence, &GateGrammar)| GateSequence {
            new: NewSequence { draft, ..sequence.clone() },
            constraint: Some(grammar.constraint.clone()),
        };
        sequences.iter().zip(grammars()).map(held).collect()
    };
    let alone = |lanes: &mut GateLanes, draft| -> Vec<Vec<TokenId>> {
        held(draft).into_iter().flat_map(|sequence| replies(lanes, vec![sequence])).collect()
    };
    let expected = alone(lanes, false);
    let of_grammar: Vec<_> = expected
        .iter()
        .zip(grammars())
        .map(|(reply, grammar)| allowed(reply, grammar.constraint.clone()))
        .collect();
    let drafted = alone(lanes, true);
    let mut outcomes = vec![
        compare(
            format!("constrained: replies are of their grammar, {manner}"),
            &cases,
            &expected,
            &of_grammar,
        ),
        compare(format!("constrained: drafted = plain, {manner}"), &cases, &expected, &drafted),
    ];
    let most = lanes.limits().lanes;
    for count in settings.shared.iter().filter(|count| **count <= most) {
        // Every other lane is free, so that masks have neighbours without.
        let mixed = held(true).into_iter().enumerate().map(|(index, sequence)| {
            if index % 2 == 0 { sequence } else { GateSequence { constraint: None, ..sequence } }
        });
        let mixed: Vec<GateSequence> = mixed.collect();
        let found: Vec<_> = mixed.chunks(*count).flat_map(|group| replies(lanes, group.to_vec())).collect();
        let expected: Vec<_> = (0..cases.len())
            .map(|index| if index % 2 == 0 { expected[index].clone() } else { plain[index].clone() })
            .collect();
        let name = format!("constrained: alone = among {count} lanes, every other one free, {manner}");
        outcomes.push(compare(name, &cases, &expected, &found));
    }
    outcomes
}

/// As much of a reply as a grammar allows.
fn allowed(reply: &[TokenId], mut constraint: Constraint) -> Vec<TokenId> {
    reply.iter().copied().take_while(|&token| constraint.advance(token).is_ok()).collect()
}
