//! Finds marks in a text that arrives in pieces, and holds back what may become one.

/// A stretch of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// Text without a mark.
    Text(String),
    /// The mark with this index.
    Mark(usize),
}

/// Cuts a text at marks. No mark has the first character of another within it, so there is one way to cut.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    marks: &'static [&'static str],
    held: String,
}

impl Marks {
    pub(crate) fn new(marks: &'static [&'static str]) -> Marks {
        Marks { marks, held: String::new() }
    }

    /// Takes the next piece. All stretches of all pushes, joined, are the text, but for what is held back.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Stretch> {
        self.held.push_str(text);
        let mut stretches = Vec::new();
        while let Some((start, index)) = self.first_mark() {
            push_text(&mut stretches, self.held.drain(..start).collect());
            self.held.drain(..self.marks[index].len());
            stretches.push(Stretch::Mark(index));
        }
        let shown = self.held.len() - self.maybe_mark();
        push_text(&mut stretches, self.held.drain(..shown).collect());
        stretches
    }

    /// Ends the text: what was held back is no mark.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn first_mark(&self) -> Option<(usize, usize)> {
        let found = self.marks.iter().enumerate();
        found.filter_map(|(index, mark)| Some((self.held.find(mark)?, index))).min()
    }

    /// How many bytes at the end may be the start of a mark.
    fn maybe_mark(&self) -> usize {
        let longest =
            |mark: &&str| (1..mark.len()).rev().find(|&length| self.held.ends_with(&mark[..length]));
        self.marks.iter().filter_map(longest).max().unwrap_or(0)
    }
}

fn push_text(stretches: &mut Vec<Stretch>, text: String) {
    if !text.is_empty() {
        stretches.push(Stretch::Text(text));
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
