//! `forerunner chat`: a conversation in the terminal, or one read from a pipe.

mod input;
mod interrupt;
mod line;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use forerunner_engine::{EngineHandle, RequestError, Statistics};
use forerunner_text::{TextError, TextModel};
use serde_json::{Map, Value, json};

use crate::flags::{ChatFlags, ReplyFlags};
use crate::setup::{Loaded, Sizes, load};
use crate::terminal::{banner, reply, request, summary, tell};
use input::Input;
use interrupt::Interrupt;
use line::{Line, Name, help, parse};

/// A conversation and what it needs to go on.
struct Conversation<'a> {
    engine: EngineHandle,
    text: &'a TextModel,
    flags: ReplyFlags,
    system: Option<String>,
    messages: Vec<Value>,
    last: Option<Statistics>,
    interrupt: Interrupt,
}

/// Reads lines and answers them until `/quit` or the end of input.
pub(crate) fn chat(flags: &ChatFlags) -> anyhow::Result<()> {
    let Loaded { engine, text, .. } = load(&flags.model, &Sizes::TERMINAL)?;
    let mut input = Input::open()?;
    let mut conversation = Conversation {
        engine: engine.handle(),
        text: &text,
        flags: flags.reply.clone(),
        system: flags.system.clone(),
        messages: Vec::new(),
        last: None,
        // In a pipe, Ctrl-C ends the program as it ends any other.
        interrupt: if input.is_terminal() { Interrupt::watch()? } else { Interrupt::default() },
    };
    conversation.clear();
    tell(format_args!("{}; /help lists the commands", banner(engine.handle().info())));
    while let Some(line) = input.next()? {
        let out = &mut std::io::stdout().lock();
        match parse(&line) {
            Line::Say(content) => conversation.say(content, out)?,
            Line::Command(Name::Quit, _) => break,
            Line::Command(name, argument) => conversation.obey(name, argument, out)?,
            Line::Unknown(told) => tell(told),
            Line::Nothing => {}
        }
    }
    Ok(())
}

impl Conversation<'_> {
    fn clear(&mut self) {
        self.messages = self.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
    }

    /// Does what a command says; what is wrong with it is told, and the conversation goes on.
    fn obey(&mut self, name: Name, argument: &str, out: &mut impl Write) -> anyhow::Result<()> {
        match name {
            Name::Help => tell(help()),
            Name::Clear => self.clear(),
            Name::System => {
                self.system = (!argument.is_empty()).then(|| argument.to_owned());
                self.clear();
            }
            Name::Draft => match argument {
                "on" | "off" => self.flags.no_draft = argument == "off",
                other => tell(format_args!("/draft is {other:?}; accepted: on, off")),
            },
            Name::Temperature => match argument.parse() {
                Ok(temperature) => self.flags.temperature = temperature,
                Err(_) => tell(format_args!("/temperature is {argument:?}; accepted: a number from 0")),
            },
            Name::Retry => self.retry(out)?,
            Name::Statistics => match &self.last {
                Some(statistics) => tell(summary(statistics)),
                None => tell("no reply yet"),
            },
            Name::Save => match self.save(Path::new(argument)) {
                Ok(()) => tell(format_args!("written to {argument}")),
                Err(error) => tell(format_args!("{error:#}")),
            },
            Name::Quit => {}
        }
        Ok(())
    }

    /// Says something and writes the reply. What cannot be answered is forgotten, and the conversation is as before.
    fn say(&mut self, content: &str, out: &mut impl Write) -> anyhow::Result<()> {
        self.messages.push(json!({"role": "user", "content": content}));
        let answered = self.answer(out)?;
        if !answered {
            self.messages.pop();
        }
        Ok(())
    }

    /// Answers the last message again; the reply that it had is kept if there is no other.
    fn retry(&mut self, out: &mut impl Write) -> anyhow::Result<()> {
        let Some(reply) = self.messages.pop_if(|message| message["role"] == "assistant") else {
            tell("no reply yet");
            return Ok(());
        };
        if !self.answer(out)? {
            self.messages.push(reply);
        }
        Ok(())
    }

    /// Writes a reply to the messages and adds it to them; false when they cannot be answered, which is told.
    fn answer(&mut self, out: &mut impl Write) -> anyhow::Result<bool> {
        self.interrupt.forget();
        let prompt = self.text.chat_prompt(&self.messages, None, &Map::new()).map_err(anyhow::Error::from);
        let is_interrupted = || self.interrupt.is_typed();
        let replied =
            prompt.and_then(|prompt| reply(&self.engine, request(&self.flags, prompt), is_interrupted, out));
        match replied {
            Ok(reply) => {
                self.messages.push(json!({"role": "assistant", "content": reply.text}));
                self.last = reply.statistics.or(self.last.take());
                Ok(true)
            }
            Err(error) => {
                let Some(advice) = advice(&error) else { return Err(error) };
                tell(format_args!("{error}{advice}"));
                Ok(false)
            }
        }
    }

    /// Writes the conversation in the form of a request's body. A file that exists is left as it is.
    fn save(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&json!({"messages": self.messages}))?;
        let file = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
        file.with_context(|| {
            format!("/save is {:?}; accepted: the name of a new file", path.display().to_string())
        })
    }
}

/// What to say after an error that the conversation survives.
fn advice(error: &anyhow::Error) -> Option<&'static str> {
    match error.downcast_ref() {
        Some(RequestError::ContextLengthExceeded { .. }) => Some("; /clear begins a new conversation"),
        Some(RequestError::Invalid { .. }) => Some(""),
        _ => error.is::<TextError>().then_some(""),
    }
}
