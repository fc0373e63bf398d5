//! Where the lines of a conversation come from: a terminal, with editing and history, or a pipe.

use std::io::{BufRead, IsTerminal, StdinLock, Write};
use std::path::PathBuf;

use anyhow::Context;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Editor, Helper};

use super::line::COMMANDS;
use crate::directories;

/// Lines that are kept for later conversations.
const HISTORY_LINES: usize = 1000;

/// A source of lines.
pub(super) enum Input {
    Terminal(Box<Terminal>),
    Pipe(StdinLock<'static>),
}

/// A terminal whose lines can be edited, completed and recalled.
pub(super) struct Terminal {
    editor: Editor<Commands, FileHistory>,
    /// Where the lines are kept, if this platform has a place.
    history: Option<PathBuf>,
}

impl Input {
    /// The terminal if there is one on both sides, otherwise standard input as it comes.
    pub(super) fn open() -> anyhow::Result<Input> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(Input::Pipe(std::io::stdin().lock()));
        }
        let config =
            rustyline::Config::builder().max_history_size(HISTORY_LINES)?.auto_add_history(true).build();
        let mut editor = Editor::with_config(config).context("the terminal cannot be used for editing")?;
        editor.set_helper(Some(Commands));
        let history = directories::state().map(|state| state.join("history"));
        if let Some(path) = &history {
            // The first conversation finds none.
            let _ = editor.load_history(path);
        }
        Ok(Input::Terminal(Box::new(Terminal { editor, history })))
    }

    /// Whether somebody sits at it.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal(_))
    }

    /// The next line; none at the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<String>> {
        match self {
            Input::Terminal(terminal) => terminal.next(),
            Input::Pipe(stdin) => {
                if std::io::stdin().is_terminal() {
                    let _ = std::io::stderr().write_all(b"> ");
                }
                let mut line = String::new();
                Ok((stdin.read_line(&mut line)? > 0).then_some(line))
            }
        }
    }
}

impl Terminal {
    fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            match self.editor.readline("> ") {
                Ok(line) => return Ok(Some(line)),
                // Ctrl-C gives up the line, as in a shell.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Kept at the end. That it could not be kept is no reason to fail.
impl Drop for Terminal {
    fn drop(&mut self) {
        let Some(path) = &self.history else { return };
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let saved = folder.map_err(ReadlineError::from).and_then(|()| self.editor.append_history(path));
        if let Err(error) = saved {
            tracing::debug!(%error, "the history was not kept");
        }
    }
}

/// Completes what begins with a slash.
struct Commands;

impl Helper for Commands {}
impl Highlighter for Commands {}
impl Validator for Commands {}
impl Hinter for Commands {
    type Hint = String;
}

impl Completer for Commands {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, completions(&line[..cursor])))
    }
}

fn completions(begun: &str) -> Vec<String> {
    if !begun.starts_with('/') {
        return Vec::new();
    }
    let fitting = COMMANDS.iter().filter(|command| command.typed.starts_with(begun));
    fitting.map(|command| command.typed.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_are_completed() {
        assert_eq!(completions("/s"), ["/system", "/stats", "/save"]);
        assert_eq!(completions("/q"), ["/quit"]);
        assert!(
            completions("say").is_empty() && completions("/draft o").is_empty() && completions("").is_empty()
        );
    }
}
