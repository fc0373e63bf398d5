//! Finds marks in a text that arrives in pieces, and holds back what may become one.

/// A stretch of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// Text without a mark.
    Text(String),
    /// The mark with this index.
    Mark(usize),
}

/// Cuts a text at marks. All begin with `<` and have no other, so there is one way to cut.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    marks: &'static [&'static str],
    held: String,
}

impl Marks {
    pub(crate) fn new(marks: &'static [&'static str]) -> Marks {
        debug_assert!(marks.iter().all(|mark| mark.rfind('<') == Some(0)), "{marks:?}");
        Marks { marks, held: String::new() }
    }

    /// Takes the next piece. All stretches of all pushes, joined, are the text, but for what is held back.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Stretch> {
        let text = std::mem::take(&mut self.held) + text;
        let (mut stretches, mut shown, mut at) = (Vec::new(), 0, 0);
        while let Some(offset) = text[at..].find('<') {
            at += offset;
            let rest = &text[at..];
            if let Some(index) = self.marks.iter().position(|mark| rest.starts_with(mark)) {
                push_text(&mut stretches, &text[shown..at]);
                stretches.push(Stretch::Mark(index));
                at += self.marks[index].len();
                shown = at;
            } else if self.marks.iter().any(|mark| mark.starts_with(rest)) {
                self.held.push_str(rest);
                push_text(&mut stretches, &text[shown..at]);
                return stretches;
            } else {
                at += 1;
            }
        }
        push_text(&mut stretches, &text[shown..]);
        stretches
    }

    /// Ends the text: what was held back is no mark.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

fn push_text(stretches: &mut Vec<Stretch>, text: &str) {
    if !text.is_empty() {
        stretches.push(Stretch::Text(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_across_pieces_and_nothing_else_is_held() {
        let mut marks = Marks::new(&["<a>", "</a>"]);
        assert_eq!(marks.push("x<"), [Stretch::Text("x".into())]);
        assert_eq!(marks.push("/"), []);
        assert_eq!(marks.push("b<a"), [Stretch::Text("</b".into())]);
        assert_eq!(marks.push("></a>é<"), [Stretch::Mark(0), Stretch::Mark(1), Stretch::Text("é".into())]);
        assert_eq!(marks.finish(), "<");
    }
}
