//! Calls are read as the model meant them at every cut of the text, and what is no call is content.

mod support;

use forerunner_text::{ParsedReply, ToolCall, ToolCallParser, ToolEvent, parse_reply};
use serde_json::{Value, json};

/// A parser under test: pieces in, and out come the content and the calls with their arguments' text.
type Run = fn(&[&str]) -> Result<(String, Vec<(String, String)>), String>;

fn run(pieces: &[&str]) -> Result<(String, Vec<(String, String)>), String> {
    let mut parser = ToolCallParser::new();
    let mut events: Vec<ToolEvent> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish());
    let (mut content, mut calls, mut open) = (String::new(), Vec::<(String, String)>::new(), None);
    for event in events {
        match event {
            ToolEvent::Content(text) if open.is_none() => content += &text,
            ToolEvent::CallBegin { index, name } if index == calls.len() && open.is_none() => {
                open = Some(index);
                calls.push((name, String::new()));
            }
            ToolEvent::ArgumentsDelta { index, fragment } if open == Some(index) && !fragment.is_empty() => {
                calls[index].1 += &fragment;
            }
            ToolEvent::CallEnd { index } if open == Some(index) => open = None,
            ToolEvent::CallBroken { index, raw } if open == Some(index) => {
                open = None;
                calls.pop();
                content += &raw;
            }
            wrong => return Err(format!("{wrong:?} out of order")),
        }
    }
    Ok((content, calls))
}

/// One text, at every cut in two, and one character at a time.
fn check(run: Run, text: &str, content: &str, calls: &[(&str, Value)]) -> Result<(), String> {
    let calls: Vec<(String, String)> =
        calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.to_string())).collect();
    let wanted = (content.to_owned(), calls);
    let mut cuts: Vec<Vec<&str>> =
        text.char_indices().map(|(at, _)| vec![&text[..at], &text[at..]]).collect();
    cuts.push(text.split_inclusive(|_: char| true).collect());
    for pieces in cuts {
        let found = run(&pieces)?;
        if found != wanted {
            return Err(format!("{pieces:?}\n  wanted {wanted:?}\n  found  {found:?}"));
        }
    }
    Ok(())
}

/// A reply, its content and its calls.
type Report = (String, &'static str, Vec<(&'static str, Value)>);

/// Field reports: each text came from a model, and some parser lost it.
fn reports() -> Vec<Report> {
    let marked = |list: &str| format!("<|tool_call_start|>{list}<|tool_call_end|>");
    let one = |list: &str, name, arguments| (marked(list), "", vec![(name, arguments)]);
    vec![
        // vllm#48171
        one(r#" [run(cmd='grep -F "]" a.log')]"#, "run", json!({"cmd": "grep -F \"]\" a.log"})),
        one("[geo(lon=-74.004)]", "geo", json!({"lon": -74.004})),
        one("[size(wh=(800, 600))]", "size", json!({"wh": [800, 600]})),
        one("[get(from=1)]", "get", json!({"from": 1})),
        one(r"[w(p='C:\\dir\\')]", "w", json!({"p": r"C:\dir\"})),
        one(r"[w(p='C:\dir\')]", "w", json!({"p": r"C:\dir\"})),
        one("[w(t='a\nb')]", "w", json!({"t": "a\nb"})),
        one(" \n[w()]\n", "w", json!({})),
        // mlxcel#1306
        one(
            "[f(a='Rome', b=True, c=None, d=['x','y'])]",
            "f",
            json!({"a": "Rome", "b": true, "c": null, "d": ["x", "y"]}),
        ),
        // mlx-vlm#1792
        (
            format!("Let me look.\n{}Done.", marked("[weather(city='Oslo')]")),
            "Let me look.\nDone.",
            vec![("weather", json!({"city": "Oslo"}))],
        ),
        // cookbook#72
        one(r#"[{"name":"f","arguments":{"a":1}}]"#, "f", json!({"a": 1})),
        one(r#"{"name": "f", "parameters": {"a": [1.5, null]}}"#, "f", json!({"a": [1.5, null]})),
        one(r#"<tool_call>{"name": "f", "arguments": {}}</tool_call>"#, "f", json!({})),
        (
            r#"<tool_call>{"name": "f", "arguments": {"a": "é"}}</tool_call>"#.to_owned(),
            "",
            vec![("f", json!({"a": "é"}))],
        ),
    ]
}

#[test]
fn reported_calls_are_read() {
    for (text, content, calls) in reports() {
        check(run, &text, content, &calls).unwrap();
    }
}

#[track_caller]
fn reads(list: &str, calls: &[(&str, Value)]) {
    check(run, &format!("<|tool_call_start|>{list}<|tool_call_end|>"), "", calls).unwrap();
}

#[test]
fn values_are_those_of_python() {
    reads("[f(a=1e5, b=-.5, c=+3, d=0x10)]", &[("f", json!({"a": 1e5, "b": -0.5, "c": 3, "d": 16}))]);
    reads(
        "[f(a=[], b=(), c={}, d=(1,), e=(2))]",
        &[("f", json!({"a": [], "b": [], "c": {}, "d": [1], "e": 2}))],
    );
    reads(
        r#"[f(a={"x": [true, false, null], 'y': (None, {"z": -1})})]"#,
        &[("f", json!({"a": {"x": [true, false, null], "y": [null, {"z": -1}]}}))],
    );
    reads(r"[f(a='\t\x41\u00e9\ud83d\ude42\N')]", &[("f", json!({"a": "\tAé🙂\\N"}))]);
    reads(r"[f(a=r'\d+\.', b='''x'y''z''')]", &[("f", json!({"a": r"\d+\.", "b": "x'y''z"}))]);
    reads("[f(a=\"\"\"\n\"q\"\n\"\"\")]", &[("f", json!({"a": "\n\"q\"\n"}))]);
    reads("[f(a='), g(b=', b=\"[({'\")]", &[("f", json!({"a": "), g(b=", "b": "[({'"}))]);
}

#[test]
fn several_calls_and_odd_names_are_read() {
    reads(
        "[f(a=1), g.h-i.j(b='x'), f()]",
        &[("f", json!({"a": 1})), ("g.h-i.j", json!({"b": "x"})), ("f", json!({}))],
    );
    reads("[f(a=1,),]", &[("f", json!({"a": 1}))]);
    reads("f(class=1, max-n=2)", &[("f", json!({"class": 1, "max-n": 2}))]);
    reads("f(a=1), g()", &[("f", json!({"a": 1})), ("g", json!({}))]);
    reads("[ f ( a = 1 , b\n=\n2 ) ]", &[("f", json!({"a": 1, "b": 2}))]);
    let two = "<|tool_call_start|>[f()]<|tool_call_end|> and <|tool_call_start|>[g()]<|tool_call_end|>";
    check(run, two, " and ", &[("f", json!({})), ("g", json!({}))]).unwrap();
}

#[test]
fn texts_without_escapes_are_read() {
    reads("[say(text='it's a dog's life', n=1)]", &[("say", json!({"text": "it's a dog's life", "n": 1}))]);
    reads("[say(text='\"it's\", he said')]", &[("say", json!({"text": "\"it's\", he said"}))]);
    reads(
        "[say(text='f(x)'), say(text='it's')]",
        &[("say", json!({"text": "f(x)"})), ("say", json!({"text": "it's"}))],
    );
    reads(r"[put(p='C:\', q='it's')]", &[("put", json!({"p": "C:\\", "q": "it's"}))]);
}

#[test]
fn json_is_read_in_its_variants() {
    let f = |arguments: Value| [("f", arguments)];
    reads(r#"{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}"#, &f(json!({"a": 1})));
    reads(r#"[{"name": "f", "arguments": "{\"a\": 1}"}]"#, &f(json!({"a": 1})));
    reads(r#"[{"name": "f"}]"#, &f(json!({})));
    reads("[{'name': 'f', 'arguments': {'a': True}}]", &f(json!({"a": true})));
    reads(
        "{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}",
        &[("f", json!({})), ("g", json!({}))],
    );
}

#[test]
fn what_cannot_be_read_is_content() {
    let lists = [
        "[f(1)]",
        "[f(a=1, 2)]",
        "[f(a=g())]",
        "[f(a=1, a=2)]",
        "[f(a=1+2)]",
        "[f(a=celsius)]",
        "[f(a='x]",
        "[f(a=1]",
        "f",
        "[]",
        "{}",
        "[{\"name\": 1}]",
        "[{\"name\": \"f\", \"arguments\": [1]}]",
        "{\"name\": \"f\", \"arguments\": {",
        "no call at all 日本",
        "[f(a=007)]",
    ];
    for list in lists {
        check(run, &format!("a<|tool_call_start|>{list}<|tool_call_end|>b"), &format!("a{list}b"), &[])
            .unwrap();
    }
    check(run, "<|tool_call_start|>[f(a=", "[f(a=", &[]).unwrap();
    let deep = format!("[f(a={})]", "[".repeat(300));
    check(run, &format!("<|tool_call_start|>{deep}"), &deep, &[]).unwrap();
}

#[test]
fn text_around_a_list_within_its_marks_is_content() {
    let text = "<|tool_call_start|>I call [f(a='[')] now<|tool_call_end|>";
    check(run, text, "I call  now", &[("f", json!({"a": "["}))]).unwrap();
}

#[test]
fn marks_never_leak() {
    check(run, "a<|tool_call_end|>b", "ab", &[]).unwrap();
    check(run, "<|tool_call_start|><|tool_call_start|>[f()]", "", &[("f", json!({}))]).unwrap();
    check(
        run,
        "<|tool_call_start|>x<|tool_call_start|>[f()]<|tool_call_end|><|tool_call_end|>",
        "x",
        &[("f", json!({}))],
    )
    .unwrap();
    check(run, "<|tool_cal <| <|tool_call_start", "<|tool_cal <| <|tool_call_start", &[]).unwrap();
}

#[test]
fn xml_without_a_call_is_content_with_its_tags() {
    for text in [
        "the tag <tool_call> opens",
        "<tool_call>{\"a\": 1}</tool_call>!",
        "</tool_call>",
        "<tool_call>[",
        "<tool_call>",
    ] {
        check(run, text, text, &[]).unwrap();
    }
}

/// A text that is long enough to be given out while it arrives.
fn long() -> String {
    "It's \"so\" long,\\n\n日本 🙂 (a), ".repeat(20)
}

#[test]
fn long_texts_arrive_in_pieces() {
    let list = format!("<|tool_call_start|>[f(a=1, text=\"\"\"{}\"\"\", b=2)]<|tool_call_end|>", long());
    let mut parser = ToolCallParser::new();
    let mut late_max = 0;
    let (mut arrived, mut given) = (0, 0);
    for character in list.chars() {
        let events = parser.push(&character.to_string());
        arrived += 1;
        given += events
            .iter()
            .map(|event| match event {
                ToolEvent::ArgumentsDelta { fragment, .. } => fragment.chars().count(),
                _ => 0,
            })
            .sum::<usize>();
        late_max = late_max.max(arrived - given.min(arrived));
    }
    assert!(late_max < 320, "{late_max} characters were held back");
}

#[test]
fn long_texts_are_read_like_short_ones() {
    let escaped = long().replace('\\', "\\\\").replace('\'', "\\'");
    let text = long();
    let arguments = || json!({"a": 1, "text": text, "b": [2]});
    reads(&format!("[f(a=1, text='{escaped}', b=[2])]"), &[("f", arguments())]);
    reads(
        &format!("[g(), f(a=1, text='{escaped}', b=[2]), h(c='{escaped}', d='{escaped}')]"),
        &[("g", json!({})), ("f", arguments()), ("h", json!({"c": text, "d": text}))],
    );
    reads(&format!("[f(text='{escaped}' , )]"), &[("f", json!({"text": text}))]);
    // An apostrophe without a backslash, far into the text.
    let apostrophes = format!("{}it's, isn't it?'", "x".repeat(300));
    reads(&format!("f(text='{apostrophes}', n=1)"), &[("f", json!({"text": apostrophes, "n": 1}))]);
}

/// What models write that have lost their way, and texts that would be looked at again and again.
#[test]
fn endless_repetitions_are_read_in_linear_time() {
    let x = "x".repeat(300);
    let heads = ["", "[f(a='", &format!("[f(a='{x}'"), &format!("[f(a='{x}', ")];
    let started = std::time::Instant::now();
    for head in heads {
        for repeated in [
            " ",
            "n",
            "'",
            "\\",
            "(",
            "', b",
            "<",
            "<tool_call>",
            "[f()]<|tool_call_end|><|tool_call_start|>",
        ] {
            let text = format!("<|tool_call_start|>{head}{}", repeated.repeat(200_000 / repeated.len()));
            let pieces: Vec<&str> = text.split_inclusive(|_: char| true).collect();
            assert_eq!(run(&pieces), run(&[&text]));
        }
    }
    // Quadratic time would be minutes.
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn a_long_call_that_breaks_is_content_as_a_whole_and_never_complete() {
    let x = "x".repeat(300);
    for list in [format!("[f(a='{x}"), format!("[f(b=1, a='{x}', c=d)]"), format!("[f(a='{x}', a=1)]")] {
        check(run, &format!("<|tool_call_start|>{list}<|tool_call_end|>!"), &format!("{list}!"), &[])
            .unwrap();
    }
    let rest = format!("<|tool_call_start|>[f(a='{x}'), g(1)]<|tool_call_end|>!");
    check(run, &rest, ", g(1)]!", &[("f", json!({"a": x}))]).unwrap();
    let second = format!("<|tool_call_start|>[f(), g(a='{x}");
    check(run, &second, &format!(", g(a='{x}"), &[("f", json!({}))]).unwrap();
}

#[test]
fn a_whole_reply_is_parsed_at_once() {
    let reply = parse_reply("Hm.<|tool_call_start|>[f(b=1, a='x')]<|tool_call_end|>");
    let call = ToolCall { name: "f".to_owned(), arguments: json!({"b": 1, "a": "x"}) };
    assert_eq!(reply, ParsedReply { content: "Hm.".to_owned(), calls: vec![call] });
    assert_eq!(reply.calls[0].arguments.to_string(), r#"{"b":1,"a":"x"}"#);
}

/// Cuts at commas and brackets and strips quotes, and looks for marks within a piece.
fn by_pattern(pieces: &[&str]) -> Result<(String, Vec<(String, String)>), String> {
    let text: String = pieces.concat();
    let Some((before, rest)) = text.split_once("<|tool_call_start|>[") else { return Ok((text, vec![])) };
    let (list, after) = rest.split_once("]<|tool_call_end|>").ok_or("no end")?;
    let (name, arguments) = list.strip_suffix(')').and_then(|list| list.split_once('(')).ok_or("no call")?;
    let mut object = serde_json::Map::new();
    for argument in arguments.split(", ").filter(|argument| !argument.is_empty()) {
        let (key, value) = argument.split_once('=').ok_or("no keyword")?;
        let plain = Value::from(value.trim_matches('\''));
        object.insert(key.to_owned(), serde_json::from_str(value).unwrap_or(plain));
    }
    Ok((format!("{before}{after}"), vec![(name.to_owned(), Value::Object(object).to_string())]))
}

/// Right on the whole text, but looks at each piece alone.
fn each_piece_alone(pieces: &[&str]) -> Result<(String, Vec<(String, String)>), String> {
    let replies = pieces.iter().map(|piece| parse_reply(piece));
    let mut all = (String::new(), Vec::new());
    for reply in replies {
        all.0 += &reply.content;
        all.1.extend(reply.calls.into_iter().map(|call| (call.name, call.arguments.to_string())));
    }
    Ok(all)
}

#[test]
fn planted_faults_are_found() {
    let fails = |wrong: Run| {
        reports().iter().filter(|(text, content, calls)| check(wrong, text, content, calls).is_err()).count()
    };
    assert_eq!(fails(run), 0);
    assert!(fails(by_pattern) >= 8, "{} found", fails(by_pattern));
    assert_eq!(fails(each_piece_alone), reports().len());
}
