//! Escapes within Python's texts.

/// What stands at a backslash.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// This many bytes stand for this text.
    Is(usize, String),
    /// The text ends before that can be said.
    NeedsMore,
}

/// Reads the escape that `text` begins with. A backslash before anything else stands for itself, as in Python.
///
/// `is_all` says that no more text follows. Halves of a surrogate pair, as JSON writes them, become one character;
/// a half alone, or a code that is no character, becomes U+FFFD.
pub(super) fn read(text: &str, is_all: bool) -> Escape {
    let Some(letter) = text[1..].chars().next() else {
        return if is_all { Escape::Is(1, "\\".to_owned()) } else { Escape::NeedsMore };
    };
    let simple = |character: char| Escape::Is(2, character.to_string());
    match letter {
        '\\' | '\'' | '"' => simple(letter),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        'a' => simple('\u{7}'),
        'v' => simple('\u{b}'),
        '\n' => Escape::Is(2, String::new()),
        '0'..='7' => octal(text, is_all),
        'x' => hexadecimal(text, 2, is_all),
        'u' => hexadecimal(text, 4, is_all),
        'U' => hexadecimal(text, 8, is_all),
        _ => Escape::Is(1, "\\".to_owned()),
    }
}

fn octal(text: &str, is_all: bool) -> Escape {
    let digits = text[1..].bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    if digits < 3 && text.len() == 1 + digits && !is_all {
        return Escape::NeedsMore;
    }
    let code = u32::from_str_radix(&text[1..=digits], 8).unwrap_or(0);
    Escape::Is(1 + digits, character(code))
}

fn hexadecimal(text: &str, count: usize, is_all: bool) -> Escape {
    let digits = text[2..].bytes().take(count).take_while(u8::is_ascii_hexdigit).count();
    if digits < count {
        let is_cut = text.len() == 2 + digits && !is_all;
        return if is_cut { Escape::NeedsMore } else { Escape::Is(1, "\\".to_owned()) };
    }
    let code = u32::from_str_radix(&text[2..2 + count], 16).unwrap_or(0);
    if count == 4 && (0xd800..0xdc00).contains(&code) {
        return pair(code, text, is_all);
    }
    Escape::Is(2 + count, character(code))
}

/// The second half of a surrogate pair is six bytes further on.
fn pair(high: u32, text: &str, is_all: bool) -> Escape {
    let rest = &text[6..];
    let digits = rest.bytes().skip(2).take(4).take_while(u8::is_ascii_hexdigit).count();
    let begins = rest.starts_with("\\u") || "\\u".starts_with(rest);
    if begins && !is_all && digits < 4 && rest.len() < 6 && rest.len() <= 2 + digits {
        return Escape::NeedsMore;
    }
    if begins && digits == 4 {
        let low = u32::from_str_radix(&rest[2..6], 16).unwrap_or(0);
        if (0xdc00..0xe000).contains(&low) {
            return Escape::Is(12, character(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)));
        }
    }
    Escape::Is(6, character(high))
}

fn character(code: u32) -> String {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, length: usize, expected: &str) {
        assert_eq!(read(text, true), Escape::Is(length, expected.to_owned()), "{text}");
        let more = format!("{text}~");
        assert_eq!(read(&more, false), Escape::Is(length, expected.to_owned()), "{more}");
    }

    #[test]
    fn escapes_are_pythons() {
        check(r"\n", 2, "\n");
        check(r"\\", 2, "\\");
        check(r"\'", 2, "'");
        check(r"\q", 1, "\\");
        check("\\\n", 2, "");
        check(r"\0", 2, "\0");
        check(r"\101", 4, "A");
        check(r"\x41", 4, "A");
        check(r"\x4", 1, "\\");
        check(r"\u00e9", 6, "é");
        check(r"\ud83d\ude42", 12, "🙂");
        check(r"\ud83d\u0041", 6, "\u{fffd}");
        check(r"\ud83d", 6, "\u{fffd}");
        check(r"\ude42", 6, "\u{fffd}");
        check(r"\U0001f642", 10, "🙂");
        check(r"\Uffffffff", 10, "\u{fffd}");
    }

    /// However an escape is cut, it is waited for, and never longer than it lasts.
    #[test]
    fn an_escape_that_is_cut_is_waited_for() {
        for text in [r"\n", r"\x41", r"\u00e9", r"\ud83d\ude42", r"\U0001f642", r"\101"] {
            let whole = read(text, true);
            for end in 1..text.len() {
                assert_eq!(read(&text[..end], false), Escape::NeedsMore, "{}", &text[..end]);
            }
            assert_eq!(read(text, false), whole);
        }
        assert_eq!(read(r"\ud83dx", false), Escape::Is(6, "\u{fffd}".to_owned()));
    }
}
