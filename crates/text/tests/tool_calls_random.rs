//! Generated calls in every notation are read back, at any cut; random text loses nothing; a prompt's calls read again.

mod support;

use forerunner_text::{ChatTemplate, ParsedReply, ToolCallParser, ToolEvent, parse_reply};
use serde_json::{Map, Value, json};
use support::{Random, demo};

/// Writes values as models do: Python's notation with its freedoms, or JSON.
struct Writer<'a>(&'a mut Random);

impl Writer<'_> {
    fn blank(&mut self) -> &'static str {
        ["", "", "", " ", "\n", "  "][self.0.below(6)]
    }

    fn value(&mut self, value: &Value) -> String {
        match value {
            Value::Null => ["None", "null"][self.0.below(2)].to_owned(),
            Value::Bool(true) => ["True", "true"][self.0.below(2)].to_owned(),
            Value::Bool(false) => ["False", "false"][self.0.below(2)].to_owned(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => self.text(text),
            Value::Array(items) => self.list(items),
            Value::Object(fields) => self.mapping(fields),
        }
    }

    fn list(&mut self, items: &[Value]) -> String {
        let is_tuple = self.0.below(2) == 0;
        let mut inner: Vec<String> = items.iter().map(|item| self.value(item)).collect();
        if is_tuple && items.len() == 1 {
            inner.push(String::new());
        }
        let separator = format!("{},{}", self.blank(), self.blank());
        let inner = format!("{}{}{}", self.blank(), inner.join(&separator), self.blank());
        if is_tuple { format!("({inner})") } else { format!("[{inner}]") }
    }

    fn mapping(&mut self, fields: &Map<String, Value>) -> String {
        let pairs: Vec<String> = fields
            .iter()
            .map(|(key, value)| {
                format!("{}{}:{}{}", self.text(key), self.blank(), self.blank(), self.value(value))
            })
            .collect();
        format!("{{{}{}}}", pairs.join(", "), self.blank())
    }

    fn text(&mut self, text: &str) -> String {
        let quote = ["'", "\"", "'''", "\"\"\""][self.0.below(4)];
        if self.0.below(4) == 0 {
            return Value::from(text).to_string();
        }
        let mut written = quote.to_owned();
        for character in text.chars() {
            match character {
                '\\' => written += "\\\\",
                _ if quote.starts_with(character) => written.extend(['\\', character]),
                '\n' if self.0.below(2) == 0 => written += "\\n",
                _ if !character.is_ascii() && self.0.below(8) == 0 => {
                    written += &format!("\\U{:08x}", u32::from(character));
                }
                _ => written.push(character),
            }
        }
        written + quote
    }

    fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> String {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|(key, value)| format!("{key}{}={}{}", self.blank(), self.blank(), self.value(value)))
            .collect();
        format!("{name}{}({}{})", self.blank(), arguments.join(", "), self.blank())
    }
}

fn text(random: &mut Random) -> String {
    const PIECES: [&str; 14] =
        ["'", "\"", "\\", "]", ")", ", ", "b=", "(", "[", "\\n", "'''", "it's", "<|tool", "{\"a\": 1}"];
    let characters = random.below(12);
    let mut text = random.text(characters);
    for _ in 0..random.below(6) {
        text += PIECES[random.below(PIECES.len())];
    }
    if random.below(12) == 0 {
        text = text.repeat(40);
    }
    text
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::from(random.bits() as i64 >> random.below(64)),
        3 => Value::from(f64::from(random.below(1 << 20) as u32) / 1024.0 - 300.0),
        4 | 5 => Value::String(text(random)),
        6 | 7 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => Value::Object((0..random.below(4)).map(|_| (text(random), value(random, depth - 1))).collect()),
    }
}

fn arguments(random: &mut Random) -> Map<String, Value> {
    const KEYS: [&str; 6] = ["a", "from", "x_1", "städte", "max-n", "b.c"];
    (0..random.below(5)).map(|_| (KEYS[random.below(KEYS.len())].to_owned(), value(random, 3))).collect()
}

/// The reply as events at random cuts, put together again.
fn at_cuts(text: &str, random: &mut Random) -> (String, Vec<(String, String)>) {
    let mut parser = ToolCallParser::new();
    let mut events = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let most = [2, 8, 400][random.below(3)];
        let length = rest.char_indices().nth(1 + random.below(most)).map_or(rest.len(), |(at, _)| at);
        events.extend(parser.push(&rest[..length]));
        rest = &rest[length..];
    }
    events.extend(parser.finish());
    let (mut content, mut calls) = (String::new(), Vec::<(String, String)>::new());
    for event in events {
        match event {
            ToolEvent::Content(text) => content += &text,
            ToolEvent::CallBegin { name, .. } => calls.push((name, String::new())),
            ToolEvent::ArgumentsDelta { index, fragment } => calls[index].1 += &fragment,
            ToolEvent::CallEnd { .. } => {}
            ToolEvent::CallBroken { raw, .. } => {
                calls.pop();
                content += &raw;
            }
        }
    }
    (content, calls)
}

fn in_pieces_equals_at_once(text: &str, random: &mut Random) -> ParsedReply {
    let whole = parse_reply(text);
    let calls: Vec<(String, String)> =
        whole.calls.iter().map(|call| (call.name.clone(), call.arguments.to_string())).collect();
    let wanted = (whole.content.clone(), calls);
    for _ in 0..3 {
        assert_eq!(at_cuts(text, random), wanted, "{text:?}");
    }
    whole
}

#[test]
fn generated_calls_are_read_back() {
    for seed in 0..4000 {
        let mut random = Random(seed);
        let calls: Vec<(String, Map<String, Value>)> = (0..1 + random.below(3))
            .map(|_| (["f", "get_weather", "files.read"][random.below(3)].to_owned(), arguments(&mut random)))
            .collect();
        let written: Vec<String> =
            calls.iter().map(|(name, arguments)| Writer(&mut random).call(name, arguments)).collect();
        let list = format!("x<|tool_call_start|>[{}]<|tool_call_end|>y", written.join(", "));
        let reply = in_pieces_equals_at_once(&list, &mut random);
        let found: Vec<(String, Map<String, Value>)> = reply
            .calls
            .into_iter()
            .map(|call| (call.name, call.arguments.as_object().cloned().unwrap_or_default()))
            .collect();
        assert_eq!((reply.content.as_str(), found), ("xy", calls), "seed {seed}: {list}");
    }
}

/// Generated lists with a few characters changed, dropped or doubled, and soups of their pieces.
#[test]
fn broken_calls_neither_panic_nor_lose_text() {
    const SOUP: [&str; 22] = [
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "<tool_call>",
        "</tool_call>",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "'",
        "\"",
        "'''",
        "\\",
        ",",
        "=",
        "f",
        "a",
        "1",
        " ",
        "{\"name\": \"f\"}",
        "[f(a='",
    ];
    for seed in 0..6000 {
        let mut random = Random(seed);
        let mut pieces: Vec<String> =
            (0..random.below(30)).map(|_| SOUP[random.below(SOUP.len())].to_owned()).collect();
        if random.below(2) == 0 {
            let arguments = arguments(&mut random);
            let call = Writer(&mut random).call("f", &arguments);
            pieces =
                format!("<|tool_call_start|>[{call}]<|tool_call_end|>").chars().map(String::from).collect();
            for _ in 0..1 + random.below(3) {
                let at = random.below(pieces.len());
                pieces[at] = SOUP[random.below(SOUP.len())].to_owned();
            }
        }
        let text = pieces.concat();
        let reply = in_pieces_equals_at_once(&text, &mut random);
        let marks = ["<|tool_call_start|>", "<|tool_call_end|>"];
        assert!(!marks.iter().any(|mark| reply.content.contains(mark)), "seed {seed}: {text:?}");
        if reply.calls.is_empty() {
            let without_marks = text.replace("<|tool_call_start|>", "").replace("<|tool_call_end|>", "");
            assert_eq!(reply.content, without_marks, "seed {seed}: {text:?}");
        }
    }
}

/// Whether a chat template's notation says this text in one way only: see [`ToolCallParser`].
fn is_written_clearly(text: &str) -> bool {
    let ends_like_an_argument = |(at, _): (usize, &str)| {
        let rest = text[at + 1..].trim_start();
        rest.starts_with([',', ')'])
    };
    let opens_three_quotes = text == "'" || text.starts_with("''");
    let has_end = text.match_indices('\'').any(ends_like_an_argument);
    !text.contains('\\') && !opens_three_quotes && !has_end
}

fn clear_arguments(random: &mut Random) -> Map<String, Value> {
    let mut arguments = arguments(random);
    arguments.retain(|_, value| value.as_str().is_none_or(is_written_clearly));
    arguments
}

#[test]
fn calls_that_a_template_writes_into_a_prompt_read_again() {
    let template = ChatTemplate::open(&demo("target")).unwrap();
    let mut texts = 0;
    for seed in 0..3000 {
        let mut random = Random(seed);
        let arguments = clear_arguments(&mut random);
        texts +=
            arguments.values().filter(|value| value.as_str().is_some_and(|text| text.contains('\''))).count();
        let call = json!({"function": {"name": "f", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": "Well.", "tool_calls": [call, call]});
        let prompt = template.render(&[message], None, false, &Map::new()).unwrap();
        let reply = parse_reply(prompt.split_once("assistant\n").unwrap().1);
        assert_eq!(reply.content, "Well.<|im_end|>\n", "seed {seed}: {prompt}");
        for call in reply.calls.iter().collect::<Vec<_>>() {
            assert_eq!(call.arguments, Value::Object(arguments.clone()), "seed {seed}: {prompt}");
        }
        assert_eq!(reply.calls.len(), 2);
    }
    assert!(texts > 50, "{texts} texts with quotes");
}

/// What is said to be lost is lost, and not more.
#[test]
fn a_template_cannot_write_every_text() {
    let read = |text: &str| {
        let reply = parse_reply(&format!("<|tool_call_start|>[f(a='{text}')]<|tool_call_end|>"));
        reply.calls.first().map(|call| call.arguments["a"].clone())
    };
    for text in
        ["it's", "\"a\"", "a\nb", "C:\\dir\\", "a\\", "f('x')", "'a' or 'b'", "\\d+", "('a', 'b', 'c')"]
    {
        assert_eq!(read(text), Some(text.into()), "{text}");
    }
    assert_eq!(read("a\\nb"), Some("a\nb".into()));
    assert_eq!(read("a', b='c"), Some("a".into()));
}
