//! Values as Python prints them, because templates were written and models trained with Python's output.

use minijinja::value::{Value, ValueKind};

/// `str(value)`; nothing for an undefined value.
pub(super) fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => representation(value),
    }
}

/// `repr(value)`.
pub(super) fn representation(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Number => number(value),
        ValueKind::Seq if value.is_tuple() => tuple(&items(value)),
        ValueKind::Seq => format!("[{}]", items(value).join(", ")),
        ValueKind::Map => format!("{{{}}}", pairs(value).join(", ")),
        _ => value.to_string(),
    }
}

/// A number as `repr` and `json.dumps` write it.
pub(super) fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
}

/// The shortest digits that read back as the same float, in Python's layout: an exponent below 1e-4 and from 1e16.
fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".to_owned() } else { value.to_string() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) =
        scientific.split_once('e').expect("a float in scientific notation has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if value == 0.0 || (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn items(value: &Value) -> Vec<String> {
    value.try_iter().into_iter().flatten().map(|item| representation(&item)).collect()
}

fn tuple(items: &[String]) -> String {
    match items {
        [only] => format!("({only},)"),
        _ => format!("({})", items.join(", ")),
    }
}

fn pairs(value: &Value) -> Vec<String> {
    let pair = |key: Value| {
        let item = value.get_item(&key).unwrap_or_default();
        format!("{}: {}", representation(&key), representation(&item))
    };
    value.try_iter().into_iter().flatten().map(pair).collect()
}

/// A text in the quotes that Python chooses: single ones, unless only they stand within it.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if character == quote => quoted.extend(['\\', quote]),
            ' ' => quoted.push(' '),
            _ if character.is_control() || character.is_whitespace() => quoted.push_str(&escaped(character)),
            _ => quoted.push(character),
        }
    }
    quoted.push(quote);
    quoted
}

fn escaped(character: char) -> String {
    match u32::from(character) {
        code @ 0..0x100 => format!("\\x{code:02x}"),
        code @ 0x100..0x1_0000 => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_laid_out_as_in_python() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e300, "1.25e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, expected) in cases {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn texts_are_quoted_as_in_python() {
        let cases = [
            ("", "''"),
            ("it's", "\"it's\""),
            ("\"it's\"", "'\"it\\'s\"'"),
            ("a\\b\n\t\u{7f}", "'a\\\\b\\n\\t\\x7f'"),
            ("é 日\u{a0}\u{2028}", "'é 日\\xa0\\u2028'"),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected);
        }
    }
}
