//! Whatever tokens are drawn under a grammar, the reply is of the grammar; and windows and rollbacks change no mask.

mod support;

use forerunner_text::{
    Constraint, GrammarSpec, Grammars, Tokenizer, ToolChoice, ToolGrammar, WindowMasks, parse_reply,
};
use serde_json::{Value, json};
use support::{Random, tokenizer};

const STOP: u32 = 7;

fn allowed(constraint: &mut Constraint) -> Vec<u32> {
    let mut mask = vec![0; 256];
    constraint.mask(&mut mask).unwrap();
    (0..mask.len() as u32 * 32).filter(|token| mask[*token as usize / 32] >> (token % 32) & 1 == 1).collect()
}

/// Draws a token that is allowed; now and then one that brings a text or a list to its end.
fn draw(random: &mut Random, tokenizer: &Tokenizer, allowed: &[u32]) -> u32 {
    if allowed.contains(&STOP) {
        return STOP;
    }
    let ends =
        |token: &&u32| matches!(tokenizer.token_bytes(**token), [b'"' | b'\'' | b'}' | b']' | b')' | b'.']);
    let ending: Vec<u32> = allowed.iter().filter(ends).copied().collect();
    let among = if ending.is_empty() || random.below(4) != 0 { allowed } else { &ending };
    among[random.below(among.len())]
}

/// A whole reply, or none if it did not end in time.
fn reply(grammars: &Grammars, tokenizer: &Tokenizer, spec: &GrammarSpec, seed: u64) -> Option<String> {
    let mut random = Random(seed);
    let mut constraint = Constraint::new(grammars, spec).unwrap();
    let mut tokens = Vec::new();
    while tokens.len() < 400 {
        let token = draw(&mut random, tokenizer, &allowed(&mut constraint));
        constraint.advance(token).unwrap();
        if token == STOP {
            return Some(tokenizer.decode(&tokens, false));
        }
        tokens.push(token);
    }
    None
}

/// Many replies, each held to a property.
#[track_caller]
fn replies_are(spec: &GrammarSpec, holds: impl Fn(&str) -> bool) {
    let tokenizer = tokenizer();
    let grammars = Grammars::new(&tokenizer, 8192, &[STOP]).unwrap();
    let mut ended = 0;
    for seed in 0..60 {
        if let Some(reply) = reply(&grammars, &tokenizer, spec, seed) {
            assert!(holds(&reply), "seed {seed}: {reply}");
            ended += 1;
        }
    }
    assert!(ended >= 30, "{ended} of 60 replies ended");
}

fn json_is(schema: Value, holds: impl Fn(&Value) -> bool) {
    replies_are(&GrammarSpec::JsonSchema(schema), |reply| {
        serde_json::from_str(reply).is_ok_and(|value| holds(&value))
    });
}

#[test]
fn json_follows_its_schema() {
    replies_are(&GrammarSpec::JsonObject, |reply| {
        serde_json::from_str::<Value>(reply).is_ok_and(|value| value.is_object())
    });
    let person = json!({"type": "object", "additionalProperties": false, "required": ["name", "age"], "properties": {
        "name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}}});
    json_is(person, |value| {
        let age = value["age"].as_u64().is_some_and(|age| age <= 150);
        let name = value["name"].as_str().is_some_and(|name| name.chars().count() <= 20);
        let tags = value.get("tags").is_none_or(|tags| {
            tags.as_array()
                .is_some_and(|tags| tags.len() <= 3 && tags.iter().all(|tag| tag == "a" || tag == "b"))
        });
        age && name && tags && value.as_object().is_some_and(|fields| fields.len() <= 3)
    });
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "additionalProperties": false,
        "required": ["value"], "properties": {"value": {"type": ["boolean", "null"]},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}}});
    fn is_node(value: &Value) -> bool {
        let next = value.get("next").is_none_or(|next| next.is_null() || is_node(next));
        (value["value"].is_boolean() || value["value"].is_null()) && next
    }
    json_is(tree, is_node);
    json_is(json!({"type": "string", "pattern": "^[a-f]{2}-[0-9]+$", "maxLength": 9}), |value| {
        let text = value.as_str().unwrap_or_default();
        text.len() <= 9 && text.as_bytes()[2] == b'-' && text[3..].bytes().all(|byte| byte.is_ascii_digit())
    });
}

fn weather() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
        "required": ["city", "unit"], "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "it's F"]},
        "days": {"type": "integer", "minimum": 1}, "alerts": {"type": "boolean"},
        "area": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        "where": {"type": "object", "required": ["b"], "properties": {"b": {"type": "boolean"}}, "additionalProperties": false},
        "code": {"type": "string", "pattern": "^[a-z]{3}$"}, "next": {"$ref": "#/$defs/next"}},
        "$defs": {"next": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/next"}}]}}}}},
        {"name": "now.utc"}])
}

fn is_weather(arguments: &Value) -> bool {
    let optional = |key: &str, holds: &dyn Fn(&Value) -> bool| arguments.get(key).is_none_or(holds);
    fn is_next(value: &Value) -> bool {
        value.is_null() || value.as_array().is_some_and(|items| items.iter().all(is_next))
    }
    arguments["city"].is_string()
        && (arguments["unit"] == "C" || arguments["unit"] == "it's F")
        && optional("days", &|days| days.as_u64().is_some_and(|days| days > 0))
        && optional("alerts", &Value::is_boolean)
        && optional("area", &|area| {
            area.as_array().is_some_and(|area| area.len() == 2 && area.iter().all(Value::is_number))
        })
        && optional("where", &|place| {
            place["b"].is_boolean() && place.as_object().is_some_and(|fields| fields.len() == 1)
        })
        && optional("code", &|code| code.as_str().is_some_and(|code| code.len() == 3))
        && optional("next", &is_next)
}

#[test]
fn calls_follow_their_tools() {
    let tools = |choice, calls_max| GrammarSpec::Tools(ToolGrammar { tools: weather(), choice, calls_max });
    let is_call = |name: &str, arguments: &Value| match name {
        "get_weather" => is_weather(arguments),
        "now.utc" => *arguments == json!({}),
        _ => false,
    };
    replies_are(&tools(ToolChoice::Required, 0), |text| {
        let reply = parse_reply(text);
        let holds = reply.calls.iter().all(|call| is_call(&call.name, &call.arguments));
        holds && !reply.calls.is_empty() && reply.content.is_empty()
    });
    replies_are(&tools(ToolChoice::Named("get_weather".to_owned()), 2), |text| {
        let reply = parse_reply(text);
        let holds = reply.calls.iter().all(|call| call.name == "get_weather" && is_weather(&call.arguments));
        holds && (1..=2).contains(&reply.calls.len()) && reply.content.is_empty()
    });
    replies_are(&tools(ToolChoice::Required, 1), |text| parse_reply(text).calls.len() == 1);
}

#[test]
fn lenient_parameters_take_any_literal() {
    let tools = json!([{"name": "f", "parameters": {"properties": {"a": {}, "b": true, "c": {"type": ["string", "null"]}}}}]);
    let spec = GrammarSpec::Tools(ToolGrammar { tools, choice: ToolChoice::Required, calls_max: 1 });
    replies_are(&spec, |text| {
        let reply = parse_reply(text);
        reply.calls.len() == 1 && reply.content.is_empty()
    });
}

/// The masks of the rows of a window, from a fresh constraint that takes each row's tokens one by one.
fn masks_by_steps(
    grammars: &Grammars,
    spec: &GrammarSpec,
    history: &[u32],
    drafts: &[u32],
) -> (Vec<Vec<u32>>, usize) {
    let mut constraint = Constraint::new(grammars, spec).unwrap();
    history.iter().for_each(|&token| constraint.advance(token).unwrap());
    let mut masks = vec![vec![0; 256]];
    constraint.mask(&mut masks[0]).unwrap();
    for &draft in drafts.iter().take_while(|&&draft| draft != STOP) {
        if constraint.advance(draft).is_err() {
            break;
        }
        masks.push(vec![0; 256]);
        constraint.mask(masks.last_mut().unwrap()).unwrap();
    }
    let permitted = masks.len() - 1;
    (masks, permitted)
}

#[test]
fn windows_have_the_masks_of_single_steps() {
    let tokenizer = tokenizer();
    let grammars = Grammars::new(&tokenizer, 8192, &[STOP]).unwrap();
    let tools = ToolGrammar { tools: weather(), choice: ToolChoice::Required, calls_max: 0 };
    for spec in [GrammarSpec::JsonObject, GrammarSpec::Tools(tools)] {
        for seed in 0..12 {
            let mut random = Random(seed);
            let mut constraint = Constraint::new(&grammars, &spec).unwrap();
            let mut history = Vec::new();
            let mut window = WindowMasks::default();
            for _ in 0..25 {
                let mut drafts = constraint.forced();
                let mut ahead = constraint.clone();
                drafts.iter().for_each(|&draft| ahead.advance(draft).unwrap());
                for _ in 0..random.below(6) {
                    let token = if random.below(4) == 0 {
                        random.below(8300) as u32
                    } else {
                        draw(&mut random, &tokenizer, &allowed(&mut ahead))
                    };
                    drafts.push(token);
                    if token == STOP || ahead.advance(token).is_err() {
                        break;
                    }
                }
                constraint.masks_for_window(&drafts, &mut window).unwrap();
                let rows: Vec<Vec<u32>> = (0..window.rows()).map(|row| window.row(row).to_vec()).collect();
                let wanted = masks_by_steps(&grammars, &spec, &history, &drafts);
                assert_eq!((rows, window.permitted), wanted, "seed {seed}, {history:?}, {drafts:?}");
                let token = draw(&mut random, &tokenizer, &allowed(&mut constraint));
                constraint.advance(token).unwrap();
                if token == STOP {
                    constraint.masks_for_window(&[5, 6], &mut window).unwrap();
                    assert_eq!((window.permitted, window.rows()), (0, 1));
                    break;
                }
                history.push(token);
            }
            constraint.rollback(history.len().min(3)).unwrap();
        }
    }
}

#[test]
fn what_a_schema_forces_is_drafted() {
    let tokenizer = tokenizer();
    let grammars = Grammars::new(&tokenizer, 8192, &[STOP]).unwrap();
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["temperature_in_celsius"],
        "properties": {"temperature_in_celsius": {"enum": ["unusually warm"]}}});
    let spec =
        GrammarSpec::JsonSchema(json!({"x-guidance": {"whitespace_flexible": false}, "allOf": [schema]}));
    let mut constraint = Constraint::new(&grammars, &spec).unwrap();
    let forced = constraint.forced();
    let text = tokenizer.decode(&forced, false);
    assert!(
        text.len() > 20 && "{\"temperature_in_celsius\":\"unusually warm\"}".starts_with(&text),
        "{text}"
    );
    assert_eq!(constraint.permitted(&forced), forced.len());
}
