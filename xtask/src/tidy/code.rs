//! Rust source with its comments and texts blanked out, so that rules see code alone.

/// The same lines and columns, with a blank for every character of a comment, and of a string's or character's inside.
pub(crate) fn only(source: &str) -> String {
    let mut scanner = Scanner { source: source.chars().collect(), position: 0, code: String::new() };
    while scanner.position < scanner.source.len() {
        scanner.step();
    }
    scanner.code
}

struct Scanner {
    source: Vec<char>,
    position: usize,
    code: String,
}

impl Scanner {
    fn step(&mut self) {
        if self.looks_at("//") {
            self.blank_until(|scanner| scanner.looks_at("\n"));
        } else if self.looks_at("/*") {
            self.block_comment();
        } else if let Some(hashes) = self.raw_string_hashes() {
            self.raw_string(hashes);
        } else if self.looks_at("\"") {
            self.quoted('"');
        } else if self.looks_at("'") && self.is_character_literal() {
            self.quoted('\'');
        } else {
            self.keep();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            if self.looks_at("/*") {
                depth += 1;
                self.blank(2);
            } else if self.looks_at("*/") {
                depth -= 1;
                self.blank(2);
            } else {
                self.blank(1);
            }
            if depth == 0 || self.position == self.source.len() {
                return;
            }
        }
    }

    /// At the `r` of a raw string, how many hashes it has. A raw identifier or a name that ends with r is none.
    fn raw_string_hashes(&self) -> Option<usize> {
        let before = self.position.checked_sub(1).map_or(' ', |index| self.source[index]);
        let prefix_may_start = !is_name(before)
            || (matches!(before, 'b' | 'c') && !self.is_name_at(self.position.wrapping_sub(2)));
        if !self.looks_at("r") || !prefix_may_start {
            return None;
        }
        let hashes =
            self.source[self.position + 1..].iter().take_while(|&&character| character == '#').count();
        (self.source.get(self.position + 1 + hashes) == Some(&'"')).then_some(hashes)
    }

    fn raw_string(&mut self, hashes: usize) {
        let end = format!("\"{}", "#".repeat(hashes));
        self.blank(hashes + 2);
        self.blank_until(|scanner| scanner.looks_at(&end));
        self.blank(hashes + 1);
    }

    fn quoted(&mut self, quote: char) {
        self.keep();
        while self.position < self.source.len() && self.source[self.position] != quote {
            let is_escape = self.source[self.position] == '\\';
            self.blank(if is_escape { 2 } else { 1 });
        }
        self.keep();
    }

    /// Tells `'a'` and `'\n'` from the lifetime in `&'a str`.
    fn is_character_literal(&self) -> bool {
        self.source.get(self.position + 1) == Some(&'\\') || self.source.get(self.position + 2) == Some(&'\'')
    }

    fn looks_at(&self, text: &str) -> bool {
        let mut ahead = self.source[self.position..].iter();
        text.chars().all(|character| ahead.next() == Some(&character))
    }

    fn is_name_at(&self, index: usize) -> bool {
        self.source.get(index).is_some_and(|&character| is_name(character))
    }

    fn keep(&mut self) {
        if let Some(&character) = self.source.get(self.position) {
            self.code.push(character);
            self.position += 1;
        }
    }

    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            match self.source.get(self.position) {
                Some('\n') => self.code.push('\n'),
                Some(_) => self.code.push(' '),
                None => return,
            }
            self.position += 1;
        }
    }

    fn blank_until(&mut self, is_end: impl Fn(&Scanner) -> bool) {
        while self.position < self.source.len() && !is_end(self) {
            self.blank(1);
        }
    }
}

/// Whether a character may be part of a name.
pub(crate) fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        assert_eq!(only(source), expected);
    }

    #[test]
    fn comments_are_blank() {
        check("a // b {\nc", "a       \nc");
        check("a /* { /* } */ \n { */ b", "a              \n      b");
        check("/// fn x() {\nfn y() {}", "            \nfn y() {}");
        check("a /* open", "a        ");
    }

    #[test]
    fn texts_are_blank() {
        check(r#"f("a { \" }", b"x")"#, r#"f("        ", b" ")"#);
        check("r\"a\\\" b", "      b");
        check("br##\"a\"#\"##; x", "b          ; x");
        check("\"a\nb\" c", "\" \n \" c");
        check("for\"x\"", "for\" \"");
        check("\"\\\\\" }", "\"  \" }");
    }

    #[test]
    fn characters_are_blank_and_lifetimes_are_not() {
        check("'{' '\\'' '\\u{7d}' b'}'", "' ' '  ' '      ' b' '");
        check("fn f<'a>(x: &'a str, y: &'_ T) {}", "fn f<'a>(x: &'a str, y: &'_ T) {}");
        check("'outer: loop { break 'outer; }", "'outer: loop { break 'outer; }");
    }

    #[test]
    fn raw_names_are_code() {
        check("r#fn + bar#", "r#fn + bar#");
    }
}
