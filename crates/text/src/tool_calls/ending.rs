//! Whether a quote ends an argument's text, told by what follows it.

/// What can be said of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The argument goes on after it: it is a character of the text.
    No,
    /// The argument ends with it.
    Yes,
    /// The text ends before that can be said.
    NeedsMore,
}

/// Whether what follows a quote is what follows an argument: a comma and the next keyword, or the end of the call,
/// and after that the next call or the end of the list.
///
/// In correct Python every quote without a backslash passes. Chat templates write texts without escapes, so
/// a quote that does not pass is an apostrophe. `is_all` says that no more text follows.
pub(super) fn ends_argument(rest: &str, is_all: bool) -> Ending {
    let rest = rest.trim_start();
    if let Some(rest) = rest.strip_prefix(',') {
        let rest = rest.trim_start();
        return match rest.strip_prefix(')') {
            Some(rest) => ends_call(rest, is_all),
            None => name_then(rest, '=', is_all),
        };
    }
    match rest.strip_prefix(')') {
        Some(rest) => ends_call(rest, is_all),
        None if rest.is_empty() && !is_all => Ending::NeedsMore,
        None => Ending::No,
    }
}

/// What follows the parenthesis that closes a call.
fn ends_call(rest: &str, is_all: bool) -> Ending {
    let rest = rest.trim_start();
    if let Some(rest) = rest.strip_prefix(',') {
        let rest = rest.trim_start();
        return match rest.strip_prefix(']') {
            Some(rest) => ends_list(rest, is_all),
            None => name_then(rest, '(', is_all),
        };
    }
    ends_list(rest.strip_prefix(']').unwrap_or(rest), is_all)
}

fn ends_list(rest: &str, is_all: bool) -> Ending {
    match (rest.trim_start().is_empty(), is_all) {
        (false, _) => Ending::No,
        (true, true) => Ending::Yes,
        (true, false) => Ending::NeedsMore,
    }
}

fn name_then(rest: &str, after: char, is_all: bool) -> Ending {
    let tail = rest.trim_start_matches(is_name);
    let blank = tail.trim_start();
    if blank.is_empty() && !is_all {
        return Ending::NeedsMore;
    }
    let is_named = tail.len() < rest.len() && blank.starts_with(after);
    if is_named { Ending::Yes } else { Ending::No }
}

/// Whether a character may stand in the name of a function or a parameter. Reserved words are names too.
pub(crate) fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_ends_before_a_keyword_or_the_end_of_the_call() {
        for rest in [", b=1", ",b = 2", " )]", ")", "), g(", ",)]", "),]", " ) ] \n"] {
            assert_eq!(ends_argument(rest, true), Ending::Yes, "{rest}");
        }
        for rest in ["s", ", b", ", 3)", ") b", ")] x", " + 'b')", ", b)", "", "]"] {
            assert_eq!(ends_argument(rest, true), Ending::No, "{rest}");
        }
    }

    #[test]
    fn a_cut_is_waited_for() {
        for rest in ["", " ", ",", ", b", ", b ", ")", ")]", "),", "), g", ",)"] {
            assert_eq!(ends_argument(rest, false), Ending::NeedsMore, "{rest}");
        }
        assert_eq!(ends_argument("s", false), Ending::No);
        assert_eq!(ends_argument(", b=", false), Ending::Yes);
    }
}
