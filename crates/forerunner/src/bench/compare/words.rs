//! A command's words as a shell cuts them, without what a shell expands.

use anyhow::bail;

/// Cuts at blanks; quotes keep them, and a backslash keeps the character after it, but not between single quotes.
pub(super) fn words(command: &str) -> anyhow::Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None | Some('"'), '\\') => match characters.next() {
                Some(kept) => word.get_or_insert_default().push(kept),
                None => bail!("the command {command} ends with a backslash"),
            },
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    if let Some(open) = quote {
        bail!("the command {command} has no closing {open}");
    }
    words.extend(word);
    if words.is_empty() {
        bail!("the command is empty; accepted: a program and its arguments");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: &[&str]) {
        assert_eq!(words(command).unwrap(), expected, "{command}");
    }

    #[test]
    fn words_are_cut_as_a_shell_cuts_them() {
        check("forerunner  run 'What is 7?' --seed=3", &["forerunner", "run", "What is 7?", "--seed=3"]);
        check(r#"a "b \" c" d\ e '\' """#, &["a", "b \" c", "d e", "\\", ""]);
        check("x'y'z", &["xyz"]);
    }

    #[test]
    fn what_is_not_closed_is_named() {
        for (command, part) in [("a 'b", "no closing '"), ("a \\", "backslash"), ("  ", "is empty")] {
            assert!(words(command).unwrap_err().to_string().contains(part), "{command}");
        }
    }
}
