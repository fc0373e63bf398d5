//! Masks are exact: on languages that can be listed, a token is allowed if and only if some text of the language goes on
//! with it.

mod support;

use std::collections::BTreeSet;

use forerunner_text::{
    Constraint, GrammarSpec, Grammars, TextError, ThoughtStart, Tokenizer, ToolChoice, ToolGrammar,
    WindowMasks,
};
use serde_json::json;
use support::{Random, tokenizer};

const STOP: u32 = 7;

fn grammars(tokenizer: &Tokenizer) -> Grammars {
    Grammars::new(tokenizer, 8192, &[STOP, 2]).unwrap()
}

fn tokens_in(mask: &[u32]) -> BTreeSet<u32> {
    (0..mask.len() as u32 * 32).filter(|token| mask[*token as usize / 32] >> (token % 32) & 1 == 1).collect()
}

fn mask(constraint: &mut Constraint) -> BTreeSet<u32> {
    let mut mask = vec![0; 256];
    constraint.mask(&mut mask).unwrap();
    tokens_in(&mask)
}

/// By definition: the tokens that a text of the language goes on with after `so_far`, and the stop tokens after a whole one.
fn expected(tokenizer: &Tokenizer, language: &[String], so_far: &[u8]) -> BTreeSet<u32> {
    let goes_on = |token: &u32| {
        let bytes = tokenizer.token_bytes(*token);
        let is_text = !bytes.is_empty() && !tokenizer.is_special(*token);
        is_text
            && language
                .iter()
                .any(|text| text.as_bytes().strip_prefix(so_far).is_some_and(|rest| rest.starts_with(bytes)))
    };
    let mut tokens: BTreeSet<u32> = (0..tokenizer.vocabulary_size() as u32).filter(goes_on).collect();
    if language.iter().any(|text| text.as_bytes() == so_far) {
        tokens.extend([STOP, 2]);
    }
    tokens
}

/// What a walk may do wrong, so that the check can be seen to find it.
type Mask = fn(&mut Constraint) -> BTreeSet<u32>;

/// Walks through the language at random, and holds every mask on the way to the definition.
fn masks_are_exact(mask: Mask, spec: &GrammarSpec, language: &[String]) -> Result<(), String> {
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut constraint = Constraint::new(&grammars, spec).map_err(|error| error.to_string())?;
        let mut so_far = Vec::new();
        loop {
            let (found, wanted) = (mask(&mut constraint), expected(&tokenizer, language, &so_far));
            if found != wanted {
                let so_far = String::from_utf8_lossy(&so_far);
                let (more, less) = (found.difference(&wanted), wanted.difference(&found));
                return Err(format!("after {so_far:?}: {:?} too many, {:?} missing", more.max(), less.max()));
            }
            let token = *found.iter().nth(random.below(found.len())).expect("a mask is not empty");
            constraint.advance(token).map_err(|error| error.to_string())?;
            if token == STOP || token == 2 {
                break;
            }
            so_far.extend_from_slice(tokenizer.token_bytes(token));
        }
        assert!(constraint.is_finished());
    }
    Ok(())
}

/// Grammars with all their texts.
fn languages() -> Vec<(GrammarSpec, Vec<String>)> {
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let choices = own(&["the", "there", "the end", "日本", "日", "a\nb", "\"q\\", "é\u{7f}"]);
    let letters = ["a", "b"];
    let mut words = Vec::new();
    for first in letters {
        words.push(first.to_owned());
        for second in letters {
            words.push(format!("{first}{second}"));
        }
    }
    let regex = words.iter().flat_map(|word| ["é", "🙂", ""].map(|end| format!("{word}{end}c"))).collect();
    let numbers = (0..=120).map(|number: u32| number.to_string()).collect();
    vec![
        (GrammarSpec::Choice(choices.clone()), choices),
        (GrammarSpec::Regex("^[ab]{1,2}(é|🙂)?c$".to_owned()), regex),
        (GrammarSpec::Lark("start: \"f(\" (\"x\" | y) \")\"\ny: \"the \" /[0-9]{2}/\n".to_owned()), {
            let numbers = (0..100).map(|number| format!("f(the {number:02})"));
            numbers.chain(["f(x)".to_owned()]).collect()
        }),
        (GrammarSpec::JsonSchema(json!({"type": "integer", "minimum": 0, "maximum": 120})), numbers),
        (
            GrammarSpec::JsonSchema(json!({"enum": ["the", "日", 1, null]})),
            own(&["\"the\"", "\"日\"", "1", "null"]),
        ),
    ]
}

#[test]
fn a_token_is_allowed_if_and_only_if_a_text_goes_on_with_it() {
    for (spec, language) in languages() {
        masks_are_exact(mask, &spec, &language).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    }
}

#[test]
fn asking_for_forced_tokens_changes_nothing() {
    let asks = |constraint: &mut Constraint| {
        let _ = constraint.forced();
        mask(constraint)
    };
    for (spec, language) in languages() {
        masks_are_exact(asks, &spec, &language).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    }
}

#[test]
fn planted_faults_are_found() {
    let stops_anywhere = |constraint: &mut Constraint| {
        let mut mask = mask(constraint);
        mask.insert(STOP);
        mask
    };
    let misses_one = |constraint: &mut Constraint| {
        let mut mask = mask(constraint);
        if mask.len() > 3 {
            mask.pop_last();
        }
        mask
    };
    for wrong in [stops_anywhere as Mask, misses_one as Mask] {
        let (spec, language) = &languages()[0];
        masks_are_exact(wrong, spec, language).expect_err("a wrong mask was not noticed");
    }
}

#[test]
fn a_token_that_is_not_allowed_is_refused_and_changes_nothing() {
    let tokenizer = tokenizer();
    let spec = GrammarSpec::Choice(vec!["abc".to_owned()]);
    let mut constraint = Constraint::new(&grammars(&tokenizer), &spec).unwrap();
    let before = mask(&mut constraint);
    for token in [STOP, 10, tokenizer.encode("z", false).unwrap()[0], 8192, u32::MAX] {
        let error = constraint.advance(token).unwrap_err();
        assert!(matches!(error, TextError::TokenNotAllowed { token: named } if named == token), "{error}");
        assert_eq!(mask(&mut constraint), before);
    }
    assert!(!constraint.is_finished() && !constraint.may_end());
}

#[test]
fn padded_vocabularies_are_masked_to_their_end() {
    let spec = GrammarSpec::Choice(vec!["abc".to_owned()]);
    let tokenizer = tokenizer();
    let padded = Grammars::new(&tokenizer, 9600, &[STOP, 2, 9000]).unwrap();
    let mut allowed = vec![u32::MAX; padded.mask_words()];
    let mut constraint = Constraint::new(&padded, &spec).unwrap();
    constraint.mask(&mut allowed).unwrap();
    assert_eq!((allowed.len(), &allowed[256..]), (300, &[0; 44][..]));
    assert_eq!(tokens_in(&allowed), mask(&mut Constraint::new(&grammars(&tokenizer), &spec).unwrap()));
    assert!(constraint.advance(9000).is_err());
}

#[test]
fn a_constraint_may_move_to_another_thread() {
    fn check<T: Send>() {}
    check::<Constraint>();
    check::<Grammars>();
}

#[test]
fn a_thought_comes_first_where_the_model_thinks() {
    let tokenizer = tokenizer();
    let grammars = grammars(&tokenizer);
    let spec = GrammarSpec::Choice(vec!["yes".to_owned()]);
    let accepts = |start, text: &str| {
        let mut constraint = Constraint::after_thought(&grammars, &spec, start).unwrap();
        let tokens = tokenizer.encode(text, false).unwrap();
        tokens.iter().all(|&token| constraint.advance(token).is_ok()) && constraint.may_end()
    };
    for text in ["yes", "<think>no {\"日</think>yes", "<think>a\n</think>\n\nyes", "<think></think>yes"] {
        assert!(accepts(ThoughtStart::Closed, text), "{text:?}");
    }
    for text in ["no", "<think>yes", "<think>a</think>no", "a</think>yes", "<think>a<|im_end|>"] {
        assert!(!accepts(ThoughtStart::Closed, text), "{text:?}");
    }
    for (text, wanted) in
        [("hm</think>yes", true), ("</think>\nyes", true), ("yes", false), ("<think></think>yes", false)]
    {
        assert_eq!(accepts(ThoughtStart::Open, text), wanted, "{text:?}");
    }
    let tools = json!([{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}]);
    for (spec, answer) in [
        (GrammarSpec::JsonSchema(json!({"type": "array"})), "[1, {\"a\": \"b\"}]"),
        (GrammarSpec::Regex("[0-9]+".to_owned()), "12"),
        (
            GrammarSpec::Tools(ToolGrammar { tools, choice: ToolChoice::Required, calls_max: 0 }),
            "<|tool_call_start|>[f(a=1), f()]<|tool_call_end|>",
        ),
    ] {
        for text in [answer.to_owned(), format!("<think>{{</think>\n{answer}")] {
            let mut constraint = Constraint::after_thought(&grammars, &spec, ThoughtStart::Closed).unwrap();
            for token in tokenizer.encode(&text, false).unwrap() {
                constraint.advance(token).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
            constraint.advance(STOP).unwrap();
        }
    }
}

/// Whether a reply may be this text.
fn accepts(constraint: &Constraint, text: &str) -> bool {
    let mut constraint = constraint.clone();
    let tokens = tokenizer().encode(text, false).unwrap();
    tokens.iter().all(|&token| constraint.advance(token).is_ok()) && constraint.may_end()
}

#[test]
fn a_reply_may_be_of_any_of_several_forms() {
    let grammars = grammars(&tokenizer());
    let tools = json!([{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}]);
    let tools = GrammarSpec::Tools(ToolGrammar { tools, choice: ToolChoice::Required, calls_max: 1 });
    let schema = GrammarSpec::JsonSchema(json!({"type": "object", "properties": {"a": {"type": "boolean"}}}));
    let spec = GrammarSpec::AnyOf(vec![tools, schema]);
    let whole = Constraint::new(&grammars, &spec).unwrap();
    let thinking = Constraint::after_thought(&grammars, &spec, ThoughtStart::Closed).unwrap();
    for (text, wanted) in [
        ("{\"a\": true}", true),
        ("<|tool_call_start|>[f(a=1)]<|tool_call_end|>", true),
        ("{\"a\": 1}", false),
        ("<|tool_call_start|>[f(a=1), f()]<|tool_call_end|>", false),
        ("hello", false),
    ] {
        assert_eq!(accepts(&whole, text), wanted, "{text}");
        assert_eq!(accepts(&thinking, &format!("<think>hm</think>{text}")), wanted, "{text}");
    }
    let nested = GrammarSpec::AnyOf(vec![spec]);
    assert!(Constraint::new(&grammars, &nested).unwrap_err().is_callers_fault());
}

#[test]
fn tools_that_may_be_called_hold_the_calls_and_not_the_text() {
    let grammars = grammars(&tokenizer());
    let tools = json!([{"name": "f", "strict": true, "parameters": {"required": ["a"], "properties": {"a": {"enum": ["x"]}}}}]);
    let spec = GrammarSpec::Tools(ToolGrammar { tools, choice: ToolChoice::Auto, calls_max: 0 });
    let constraint = Constraint::new(&grammars, &spec).unwrap();
    for (text, wanted) in [
        ("", true),
        ("I like [f(a='y')] and 日本.\n\n", true),
        ("Look:<|tool_call_start|>[f(a='x')]<|tool_call_end|>", true),
        ("<|tool_call_start|>[f(a='x'), f(a='x')]<|tool_call_end|>\nDone.", true),
        ("Look:<|tool_call_start|>[f(a='y')]<|tool_call_end|>", false),
        ("Look:<|tool_call_start|>[f(a='x')", false),
        ("a<|im_start|>b", false),
    ] {
        assert_eq!(accepts(&constraint, text), wanted, "{text}");
    }
}

#[test]
fn a_loose_schema_is_followed_as_far_as_it_is_understood() {
    let grammars = grammars(&tokenizer());
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "string", "format": "colour", "not": {"const": "red"}}}});
    let error = Constraint::new(&grammars, &GrammarSpec::JsonSchema(schema.clone())).unwrap_err();
    assert!(error.to_string().contains("not"), "{error}");
    let loose = Constraint::new(&grammars, &GrammarSpec::LooseJsonSchema(schema.clone())).unwrap();
    assert!(accepts(&loose, "{\"a\": \"blue\"}") && !accepts(&loose, "{\"b\": 1}"));
    let tool = |strict| json!([{"function": {"name": "f", "strict": strict, "parameters": {"properties": {"a": schema}}}}]);
    let required =
        |tools| GrammarSpec::Tools(ToolGrammar { tools, choice: ToolChoice::Required, calls_max: 1 });
    assert!(Constraint::new(&grammars, &required(tool(true))).is_err());
    let loose = Constraint::new(&grammars, &required(tool(false))).unwrap();
    assert!(accepts(&loose, "<|tool_call_start|>[f(a={\"a\": \"blue\"})]<|tool_call_end|>"));
}

/// A text of two ways on, of which one ends in nothing: no letter is two letters.
fn half_dead() -> GrammarSpec {
    GrammarSpec::Lark("start: \"so \" (\"good\" | \"bad\" NOTHING)\nNOTHING: /x/ & /y/\n".to_owned())
}

#[test]
fn a_dead_end_is_named_with_the_text_before_it() {
    let tokenizer = tokenizer();
    let mut constraint = Constraint::new(&grammars(&tokenizer), &half_dead()).unwrap();
    for token in tokenizer.encode("so bad", false).unwrap() {
        constraint.advance(token).unwrap();
    }
    let error = constraint.mask(&mut [0; 256]).unwrap_err();
    assert!(error.is_callers_fault());
    let expected = "the Lark grammar leads nowhere after \"so bad\": no text follows it";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn drafts_that_lead_to_a_dead_end_are_cut_and_the_other_way_stays() {
    let tokenizer = tokenizer();
    let mut constraint = Constraint::new(&grammars(&tokenizer), &half_dead()).unwrap();
    let (good, bad) =
        (tokenizer.encode("so good", false).unwrap(), tokenizer.encode("so bad", false).unwrap());
    let mut masks = WindowMasks::default();
    for _ in 0..2 {
        constraint.masks_for_window(&bad, &mut masks).unwrap();
        assert_eq!((masks.permitted, masks.rows()), (bad.len() - 1, bad.len()));
        constraint.masks_for_window(&good, &mut masks).unwrap();
        assert_eq!((masks.permitted, masks.rows()), (good.len(), good.len() + 1));
    }
    assert!(accepts(&constraint, "so good"));
}

#[test]
fn only_stop_tokens_follow_a_stop_token() {
    let grammars = grammars(&tokenizer());
    let spec = GrammarSpec::Regex("a*".to_owned());
    let mut constraint = Constraint::new(&grammars, &spec).unwrap();
    constraint.advance(STOP).unwrap();
    assert_eq!(mask(&mut constraint), BTreeSet::from([2, STOP]));
    constraint.advance(2).unwrap();
    constraint.rollback(2).unwrap();
    assert!(mask(&mut constraint).len() > 2);
}

/// Windows of drafts go forth and back, which such rules do not allow.
#[test]
fn grammars_that_cannot_go_back_are_refused() {
    let grammars = grammars(&tokenizer());
    for rule in ["x[stop=\"c\"]: /a+/", "x[max_tokens=3]: /a+/"] {
        let spec = GrammarSpec::Lark(format!("start: x \"b\"\n{rule}\n"));
        let error = Constraint::new(&grammars, &spec).expect_err(rule);
        assert!(error.is_callers_fault() && error.to_string().contains("rollback"), "{error}");
    }
}

/// Chains of rules that a compiler follows by recursion: the largest that the limits let through.
#[test]
fn large_grammars_do_not_use_up_the_stack() {
    let grammars = grammars(&tokenizer());
    let rules: String = (0..5000).map(|index| format!("a{index}: a{}\n", index + 1)).collect();
    let lark = GrammarSpec::Lark(format!("start: a0\n{rules}a5000: \"x\"\n"));
    let step = |index: usize| (format!("{index}"), json!({"$ref": format!("#/$defs/{}", index + 1)}));
    let mut definitions: serde_json::Map<_, _> = (0..30_000).map(step).collect();
    definitions.insert("30000".to_owned(), json!({"type": "null"}));
    let schema = GrammarSpec::JsonSchema(json!({"$ref": "#/$defs/0", "$defs": definitions}));
    let properties: serde_json::Map<_, _> =
        (0..1000).map(|index| (format!("p{index}"), json!({"type": "string"}))).collect();
    let tools = json!([{"name": "f", "parameters": {"properties": properties}}]);
    let tools = GrammarSpec::Tools(ToolGrammar { tools, choice: ToolChoice::Required, calls_max: 0 });
    for spec in [lark, schema, tools] {
        Constraint::new(&grammars, &spec).unwrap();
    }
}

#[test]
fn wrong_grammars_are_the_callers_fault_and_named() {
    let grammars = grammars(&tokenizer());
    let tool = |name: &str, parameters| json!([{"type": "function", "function": {"name": name, "parameters": parameters}}]);
    let tools = |tools, choice| GrammarSpec::Tools(ToolGrammar { tools, choice, calls_max: 0 });
    let required = |list| tools(list, ToolChoice::Required);
    let named = ToolChoice::Named("g".to_owned());
    let cases = [
        (GrammarSpec::JsonSchema(json!([])), "the JSON schema cannot be used: it is not an object"),
        (GrammarSpec::JsonSchema(json!({"type": "strin"})), "strin"),
        (GrammarSpec::JsonSchema(json!({"not": {}})), "not"),
        (GrammarSpec::JsonSchema(json!({"$ref": "#/$defs/a"})), "$defs"),
        (GrammarSpec::JsonSchema(json!({"$ref": "https://example.com/a"})), "https://example.com/a"),
        (GrammarSpec::Regex("a(".to_owned()), "the regular expression cannot be used"),
        (GrammarSpec::Lark("begin: \"a\"".to_owned()), "start"),
        (GrammarSpec::Lark("start: nothing".to_owned()), "nothing"),
        (GrammarSpec::Lark("(".repeat(100_000)), "it has 100000 bytes, accepted are 65536"),
        (GrammarSpec::Lark(format!("start: {}", "(".repeat(1000))), "nested"),
        (
            GrammarSpec::JsonSchema(json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})),
            "no text follows it",
        ),
        (GrammarSpec::Regex("(".repeat(8000)), "the regular expression cannot be used"),
        (GrammarSpec::Choice(vec!["a".to_owned(); 10_001]), "10001 texts"),
        (GrammarSpec::Lark(String::new()), "the Lark grammar"),
        (GrammarSpec::Choice(vec![]), "no texts"),
        (required(json!([])), "no tools"),
        (required(tool("a b", json!({}))), "tools[0].function.name is \"a b\""),
        (required(tool("f", json!(1))), "tools[0].function.parameters is a number"),
        (required(tool("f", json!({"properties": {"a b": {}}}))), "\"a b\""),
        (
            required(tool("f", json!({"properties": {"a": {"type": "integer", "multipleOf": "x"}}}))),
            "multipleOf",
        ),
        (tools(tool("f", json!({})), named), "names \"g\", accepted is one of the tools: f"),
    ];
    for (spec, part) in cases {
        let error = Constraint::new(&grammars, &spec).expect_err(part);
        assert!(error.is_callers_fault());
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}
