//! `forerunner chat`: a conversation in the terminal, or one read from a pipe.

use std::io::{BufRead, IsTerminal, Write};

use forerunner_engine::{EngineHandle, RequestError, Statistics};
use forerunner_text::TextModel;
use serde_json::{Map, Value, json};

use crate::flags::{ChatFlags, ReplyFlags};
use crate::setup::{Loaded, Sizes, load};
use crate::terminal::{banner, reply, request, summary, tell};

const HELP: &str = "/reset forgets the conversation, /stats shows how the last reply went, /quit ends";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Say(&'a str),
    Reset,
    Statistics,
    Help,
    Quit,
    Unknown(&'a str),
    Nothing,
}

/// A conversation and what it needs to go on.
struct Conversation<'a> {
    engine: EngineHandle,
    text: &'a TextModel,
    flags: &'a ReplyFlags,
    system: Option<&'a str>,
    messages: Vec<Value>,
    last: Option<Statistics>,
}

/// Reads lines and answers them until `/quit` or the end of input.
pub(crate) fn chat(flags: &ChatFlags) -> anyhow::Result<()> {
    let Loaded { engine, text, .. } = load(&flags.model, &Sizes::TERMINAL)?;
    let mut conversation = Conversation {
        engine: engine.handle(),
        text: &text,
        flags: &flags.reply,
        system: flags.system.as_deref(),
        messages: Vec::new(),
        last: None,
    };
    conversation.reset();
    tell(format_args!("{}\n{HELP}", banner(engine.handle().info())));
    let mut input = std::io::stdin().lock();
    let interactive = std::io::stdin().is_terminal();
    let mut line = String::new();
    loop {
        if interactive {
            let _ = std::io::stderr().write_all(b"> ");
        }
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match parse(&line) {
            Line::Say(content) => conversation.say(content, &mut std::io::stdout().lock())?,
            Line::Reset => conversation.reset(),
            Line::Statistics => conversation.show_statistics(),
            Line::Help => tell(HELP),
            Line::Quit => return Ok(()),
            Line::Unknown(command) => tell(format_args!("there is no {command}; {HELP}")),
            Line::Nothing => {}
        }
    }
}

fn parse(line: &str) -> Line<'_> {
    match line.trim() {
        "" => Line::Nothing,
        "/reset" => Line::Reset,
        "/stats" => Line::Statistics,
        "/help" => Line::Help,
        "/quit" | "/exit" => Line::Quit,
        command if command.starts_with('/') => Line::Unknown(command),
        content => Line::Say(content),
    }
}

impl Conversation<'_> {
    fn reset(&mut self) {
        self.messages = self.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
    }

    /// Says something and writes the reply. A conversation that fills the context goes on as it was before.
    fn say(&mut self, content: &str, out: &mut impl Write) -> anyhow::Result<()> {
        self.messages.push(json!({"role": "user", "content": content}));
        let prompt = self.text.chat_prompt(&self.messages, None, &Map::new())?;
        let reply = match reply(&self.engine, request(self.flags, prompt), out) {
            Err(error) if is_too_long(&error) => {
                self.messages.pop();
                tell(format_args!("{error}; /reset begins a new conversation"));
                return Ok(());
            }
            reply => reply?,
        };
        self.messages.push(json!({"role": "assistant", "content": reply.text}));
        self.last = Some(reply.statistics);
        Ok(())
    }

    fn show_statistics(&self) {
        match &self.last {
            Some(statistics) => tell(summary(statistics)),
            None => tell("no reply yet"),
        }
    }
}

fn is_too_long(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RequestError::ContextLengthExceeded { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash_and_all_else_is_said() {
        assert_eq!(parse(" what is 1/2?\n"), Line::Say("what is 1/2?"));
        assert_eq!(parse("/reset\r\n"), Line::Reset);
        assert_eq!(parse("/rest"), Line::Unknown("/rest"));
        assert_eq!(parse("  \n"), Line::Nothing);
    }
}
