//! Notices that a long text is under way in a list of calls, with one look at every character.

/// From this many characters on, an argument is given out while it arrives. Shorter ones cost nothing to wait for.
pub(super) const LONG_TEXT_CHARACTERS: usize = 256;

/// Follows brackets and quotes.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    depth: i32,
    /// How deep the arguments of a call are: within its parentheses, and within the list's brackets if it has them.
    argument_depth: Option<i32>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Outside,
    /// After this many equal quotes in a row, of which no text has followed.
    Opening {
        quote: char,
        count: usize,
    },
    Inside {
        quote: char,
        needed: usize,
        run: usize,
        characters: usize,
        is_escaped: bool,
    },
}

impl Scanner {
    /// At the start of a list.
    pub(super) fn new() -> Scanner {
        Scanner { depth: 0, argument_depth: None, state: State::Outside }
    }

    /// After an argument.
    pub(super) fn after_argument(in_brackets: bool) -> Scanner {
        let depth = 1 + i32::from(in_brackets);
        Scanner { depth, argument_depth: Some(depth), state: State::Outside }
    }

    /// Takes a character, and says whether an argument's text has just become long.
    pub(super) fn step(&mut self, character: char) -> bool {
        match self.state {
            State::Outside => self.outside(character),
            State::Opening { quote, count } => self.opening(quote, count, character),
            State::Inside { quote, needed, run, characters, is_escaped } => {
                let characters = characters + 1;
                let ends_run = character == quote && !is_escaped;
                let run = if ends_run { run + 1 } else { 0 };
                let is_escaped = character == '\\' && !is_escaped;
                self.state = State::Inside { quote, needed, run, characters, is_escaped };
                if run == needed {
                    self.state = State::Outside;
                }
                return characters == LONG_TEXT_CHARACTERS && Some(self.depth) == self.argument_depth;
            }
        }
        false
    }

    fn outside(&mut self, character: char) {
        if self.argument_depth.is_none() && !character.is_whitespace() {
            self.argument_depth = Some(1 + i32::from(character == '['));
        }
        match character {
            '[' | '(' | '{' => self.depth += 1,
            ']' | ')' | '}' => self.depth -= 1,
            '\'' | '"' => self.state = State::Opening { quote: character, count: 1 },
            _ => {}
        }
    }

    fn opening(&mut self, quote: char, count: usize, character: char) {
        if character == quote && count < 3 {
            self.state = State::Opening { quote, count: count + 1 };
            return;
        }
        if count == 2 {
            // It was an empty text.
            self.state = State::Outside;
            return self.outside(character);
        }
        let inside = State::Inside { quote, needed: count, run: 0, characters: 0, is_escaped: false };
        self.state = inside;
        self.step(character);
    }
}
