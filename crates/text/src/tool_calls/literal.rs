//! Python's literals, and JSON's within them, to JSON values.

use serde_json::{Map, Number, Value};

use super::ending::{Ending, ends_argument, is_name};
use super::escapes::{self, Escape};

/// Deeper nesting is not read: a reply must not be able to use up the stack.
const DEPTH_MAX: usize = 64;

/// How the end of an argument's text is told. Texts within lists and mappings are always Python's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// At the first quote without a backslash.
    Python,
    /// At the first quote that the end of an argument follows, since chat templates write texts without escapes.
    Template,
}

/// Which quotes a text stands in, and whether its backslashes are plain characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quote {
    /// One quote, or three.
    pub(super) mark: &'static str,
    /// Whether an `r` stands before it.
    pub(super) is_raw: bool,
}

/// Reads along a text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) quotes: Quotes,
    depth: usize,
    /// Three quotes that nothing closes from here on: looking again for every argument would take quadratic time.
    unclosed: Vec<&'static str>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, quotes: Quotes) -> Cursor<'a> {
        Cursor { text, at: 0, quotes, depth: 0, unclosed: Vec::new() }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips blanks and then this character, if it is next.
    pub(super) fn take(&mut self, character: char) -> bool {
        self.skip_blanks();
        let is_next = self.rest().starts_with(character);
        if is_next {
            self.at += character.len_utf8();
        }
        is_next
    }

    /// A name, after blanks.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let rest = self.rest();
        let name = &rest[..rest.len() - rest.trim_start_matches(is_name).len()];
        self.at += name.len();
        (!name.is_empty()).then_some(name)
    }

    /// The opening of a text, after blanks; none leaves the cursor where it is.
    pub(super) fn quote(&mut self) -> Option<Quote> {
        self.skip_blanks();
        let rest = self.rest();
        let is_raw = rest.starts_with(['r', 'R']);
        let quoted = if is_raw || rest.starts_with(['u', 'U']) { &rest[1..] } else { rest };
        let mark = ["'''", "\"\"\"", "'", "\""].into_iter().find(|mark| quoted.starts_with(mark))?;
        self.at += rest.len() - quoted.len() + mark.len();
        Some(Quote { mark, is_raw })
    }

    /// An argument's value.
    pub(super) fn argument(&mut self) -> Option<Value> {
        let start = self.at;
        if self.quotes == Quotes::Python {
            return self.value();
        }
        let Some(quote) = self.quote() else {
            self.at = start;
            return self.value();
        };
        let body = self.at;
        if !self.unclosed.contains(&quote.mark) {
            if let Some(text) = self.template_text(&quote) {
                return Some(text);
            }
            self.unclosed.push(quote.mark);
        }
        self.at = body + 1 - quote.mark.len();
        self.template_text(&Quote { mark: &quote.mark[..1], ..quote })
    }

    /// Any literal.
    pub(super) fn value(&mut self) -> Option<Value> {
        if let Some(quote) = self.quote() {
            return self.python_text(&quote).map(Value::String);
        }
        match self.rest().chars().next()? {
            '[' => self.nested(|cursor| cursor.items(']').map(|(items, _)| Value::Array(items))),
            '(' => self.nested(Self::tuple),
            '{' => self.nested(Self::mapping),
            '0'..='9' | '-' | '+' | '.' => self.number(),
            _ => self.word(),
        }
    }

    /// The text up to the quotes that close it.
    fn python_text(&mut self, quote: &Quote) -> Option<String> {
        let mut text = String::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(quote.mark) {
                self.at += quote.mark.len();
                return Some(text);
            }
            let character = rest.chars().next()?;
            if character == '\\' && quote.is_raw {
                let escaped: String = rest.chars().take(2).collect();
                self.at += escaped.len();
                text.push_str(&escaped);
            } else if character == '\\' {
                self.escape(&mut text);
            } else {
                self.at += character.len_utf8();
                text.push(character);
            }
        }
    }

    /// The text up to the quotes that the end of an argument follows. A backslash before them is the text's last
    /// character.
    fn template_text(&mut self, quote: &Quote) -> Option<Value> {
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let ends_after = |length: usize| ends_argument(&rest[length..], true) == Ending::Yes;
            if rest.starts_with(quote.mark) && ends_after(quote.mark.len()) {
                self.at += quote.mark.len();
                return Some(Value::String(text));
            }
            let character = rest.chars().next()?;
            let is_last = rest[character.len_utf8()..].starts_with(quote.mark)
                && ends_after(character.len_utf8() + quote.mark.len());
            if character == '\\' && !quote.is_raw && !is_last {
                self.escape(&mut text);
            } else {
                self.at += character.len_utf8();
                text.push(character);
            }
        }
    }

    fn escape(&mut self, text: &mut String) {
        if let Escape::Is(length, meaning) = escapes::read(self.rest(), true) {
            self.at += length;
            text.push_str(&meaning);
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Value>) -> Option<Value> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Values up to the closing bracket, and whether a comma stood after the last one.
    fn items(&mut self, close: char) -> Option<(Vec<Value>, bool)> {
        let (mut items, mut after_comma) = (Vec::new(), false);
        loop {
            if self.take(close) {
                return Some((items, after_comma));
            }
            if !items.is_empty() && !after_comma {
                return None;
            }
            items.push(self.value()?);
            after_comma = self.take(',');
        }
    }

    /// A tuple is a list; one value in parentheses without a comma is that value.
    fn tuple(&mut self) -> Option<Value> {
        let (mut items, after_comma) = self.items(')')?;
        if items.len() == 1 && !after_comma { items.pop() } else { Some(Value::Array(items)) }
    }

    fn mapping(&mut self) -> Option<Value> {
        let (mut fields, mut after_comma) = (Map::new(), true);
        loop {
            if self.take('}') {
                return Some(Value::Object(fields));
            }
            if !after_comma {
                return None;
            }
            let key = match self.value()? {
                Value::String(key) => key,
                key @ (Value::Null | Value::Bool(_) | Value::Number(_)) => key.to_string(),
                Value::Array(_) | Value::Object(_) => return None,
            };
            if !self.take(':') {
                return None;
            }
            let value = self.value()?;
            fields.insert(key, value);
            after_comma = self.take(',');
        }
    }

    fn word(&mut self) -> Option<Value> {
        match self.name()? {
            "True" | "true" => Some(Value::Bool(true)),
            "False" | "false" => Some(Value::Bool(false)),
            "None" | "null" => Some(Value::Null),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let rest = self.rest();
        let mut previous = ' ';
        let is_part = |character: char| {
            let is_sign = matches!(character, '+' | '-') && matches!(previous, ' ' | 'e' | 'E');
            previous = character;
            is_sign || character.is_ascii_alphanumeric() || matches!(character, '.' | '_')
        };
        let token = &rest[..rest.len() - rest.trim_start_matches(is_part).len()];
        self.at += token.len();
        number(token)
    }
}

/// A number in Python's or JSON's notation. One that 64 bits cannot hold becomes the nearest float.
fn number(token: &str) -> Option<Value> {
    let plain = without_underscores(token)?;
    let (sign, digits) = match plain.as_bytes()[..] {
        [b'-', ..] => ("-", &plain[1..]),
        [b'+', ..] => ("", &plain[1..]),
        _ => ("", plain.as_str()),
    };
    for (prefixes, radix) in [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)] {
        if let Some(digits) = prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix)) {
            return integer(&format!("{sign}{digits}"), radix);
        }
    }
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // Python refuses a leading zero, and JSON too: it may be a code whose zeros count.
        let has_leading_zero = digits.starts_with('0') && digits.bytes().any(|byte| byte != b'0');
        let exact = || integer(&format!("{sign}{digits}"), 10);
        return if has_leading_zero { None } else { exact().or_else(|| float(sign, digits)) };
    }
    float(sign, digits)
}

fn integer(digits: &str, radix: u32) -> Option<Value> {
    let signed = i64::from_str_radix(digits, radix).map(Value::from);
    signed.or_else(|_| u64::from_str_radix(digits, radix).map(Value::from)).ok()
}

fn float(sign: &str, digits: &str) -> Option<Value> {
    let float: f64 = format!("{sign}{digits}").parse().ok()?;
    Number::from_f64(float).map(Value::Number)
}

/// Python lets single underscores stand between digits.
fn without_underscores(token: &str) -> Option<String> {
    let is_wrong = token.starts_with('_') || token.ends_with('_') || token.contains("__");
    (!is_wrong).then(|| token.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Option<Value> {
        let mut cursor = Cursor::new(text, Quotes::Python);
        let value = cursor.value()?;
        cursor.skip_blanks();
        cursor.rest().is_empty().then_some(value)
    }

    #[test]
    fn literals_become_json() {
        let cases = [
            ("'a'", json!("a")),
            ("\"it's\"", json!("it's")),
            (r"'it\'s'", json!("it's")),
            (r"r'\d\''", json!(r"\d\'")),
            ("'''a\n'b''c'''", json!("a\n'b''c")),
            ("''", json!("")),
            ("'C:\\\\dir\\\\'", json!("C:\\dir\\")),
            ("True", json!(true)),
            ("null", json!(null)),
            ("[1, 'a', None, [true,],]", json!([1, "a", null, [true]])),
            ("(800, 600)", json!([800, 600])),
            ("(1,)", json!([1])),
            ("(1)", json!(1)),
            ("()", json!([])),
            ("{'a': (1, 2), \"b\": {3: {}},}", json!({"a": [1, 2], "b": {"3": {}}})),
            ("-74.004", json!(-74.004)),
            ("+5", json!(5)),
            ("-0", json!(0)),
            ("1e5", json!(1e5)),
            ("-1.5E-7", json!(-1.5e-7)),
            (".5", json!(0.5)),
            ("2.", json!(2.0)),
            ("1_000", json!(1000)),
            ("0x1F", json!(31)),
            ("18446744073709551615", json!(u64::MAX)),
            ("123456789012345678901234567890", json!(123456789012345678901234567890f64)),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_expressions_are_not_read() {
        let mut texts =
            vec!["", "'a", "'a' + 'b'", "a", "1+2", "1j", "007", "1e999", "--1", "f()", "[1 2]", "{1}"];
        texts.extend([
            "{'a' 1}", "[,]", "(,)", "1__0", "_1", "-", ".", "b'a'", "[1", "{[]: 1}", "infinity", "0x",
        ]);
        for text in texts {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&"[".repeat(100_000)), None);
    }
}
