//! The chat template: messages to the text that a model was trained to continue.

mod clock;
mod environment;
mod json;
mod methods;
mod python;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::value::Value as TemplateValue;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

pub use clock::Moment;

use crate::TextError;
use crate::config::{TokenizerConfig, read_optional};

/// Variables that no request sets beside its messages and tools.
const ALWAYS_SET: [&str; 5] = ["messages", "tools", "add_generation_prompt", "strftime_now", "documents"];

/// A checkpoint's chat template, with everything that Hugging Face templates may call.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    path: PathBuf,
    special_tokens: Vec<(String, String)>,
    marks_thoughts: bool,
    fixed_now: Option<Moment>,
}

impl ChatTemplate {
    /// Reads chat_template.jinja, or else the `chat_template` of tokenizer_config.json.
    ///
    /// Of a list of named templates, `default` is used, and `tool_use` for messages with tools if there is one.
    pub fn open(dir: &Path) -> Result<ChatTemplate, TextError> {
        let config = TokenizerConfig::open(dir)?;
        let jinja = dir.join("chat_template.jinja");
        let (path, templates) = match read_optional(&jinja)? {
            Some(source) => (jinja, vec![("default".to_owned(), source)]),
            None => (config.path.clone(), config.chat_templates()?),
        };
        if !templates.iter().any(|(name, _)| name == "default") {
            return Err(TextError::NoTemplate { dir: dir.to_owned() });
        }
        let mut environment = environment::environment();
        let marks_thoughts = templates.iter().any(|(_, source)| source.contains("think>"));
        for (name, source) in templates {
            environment
                .add_template_owned(name, environment::without_generation_blocks(&source))
                .map_err(|error| template_error(&path, &error))?;
        }
        let special_tokens = config.special_tokens()?;
        let environment = Arc::new(environment);
        Ok(ChatTemplate { environment, path, special_tokens, marks_thoughts, fixed_now: None })
    }

    /// Whether it knows of thoughts, as the template of a model that thinks does.
    pub fn marks_thoughts(&self) -> bool {
        self.marks_thoughts
    }

    /// The same template with the date and time that it may print standing still.
    pub fn at(mut self, now: Moment) -> ChatTemplate {
        self.fixed_now = Some(now);
        self
    }

    /// Renders messages, which are objects with a `role`, as clients of a chat API send them.
    ///
    /// `add_generation_prompt` opens the reply. `extra` are variables of the template itself, such as
    /// `enable_thinking`; those that it does not read change nothing ([`ChatTemplate::reads`]). The text has its own bos: it is to be encoded without special tokens.
    pub fn render(
        &self,
        messages: &[Value],
        tools: Option<&Value>,
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
    ) -> Result<String, TextError> {
        let messages = values::messages(messages)?;
        let tools = tools.filter(|tools| !tools.as_array().is_some_and(Vec::is_empty));
        let name = if tools.is_some() && self.has("tool_use") { "tool_use" } else { "default" };
        let variables = self.variables(messages, tools, add_generation_prompt, extra);
        let template = self.environment.get_template(name).map_err(|error| self.render_error(&error))?;
        // minijinja panics at the ends of its numbers, as on a slice in steps of the smallest, where overflows are checked.
        match catch_unwind(AssertUnwindSafe(|| template.render(variables))) {
            Ok(rendered) => rendered.map_err(|error| self.render_error(&error)),
            Err(_) => Err(TextError::Template {
                path: self.path.clone(),
                line: 0,
                message: "it computes with a number that is too large".to_owned(),
            }),
        }
    }

    /// Whether the template reads a variable of this name that a request may set: not the messages, and nothing else that
    /// is always set.
    pub fn reads(&self, name: &str) -> bool {
        let is_set = ALWAYS_SET.contains(&name)
            || self.special_tokens.iter().any(|(token, _)| token == name)
            || self.environment.globals().any(|(global, _)| global == name);
        let reads = |(_, template): (_, minijinja::Template<'_, '_>)| {
            template.undeclared_variables(false).contains(name)
                || environment::defaults_itself(template.source(), name)
        };
        !is_set && self.environment.templates().any(reads)
    }

    fn has(&self, name: &str) -> bool {
        self.environment.templates().any(|(have, _)| have == name)
    }

    fn variables(
        &self,
        messages: TemplateValue,
        tools: Option<&Value>,
        add_generation_prompt: bool,
        extra: &Map<String, Value>,
    ) -> TemplateValue {
        let now = self.fixed_now.unwrap_or_else(Moment::now);
        let mut variables: Vec<(String, TemplateValue)> = Vec::new();
        let mut set = |name: &str, value| variables.push((name.to_owned(), value));
        for (name, token) in &self.special_tokens {
            set(name, token.into());
        }
        set("strftime_now", TemplateValue::from_function(move |format: &str| now.format(format)));
        set("documents", ().into());
        for (name, value) in extra {
            set(name, values::value(value));
        }
        set("messages", messages);
        set("tools", tools.map_or(().into(), values::value));
        set("add_generation_prompt", add_generation_prompt.into());
        TemplateValue::from_pairs(variables)
    }

    fn render_error(&self, error: &minijinja::Error) -> TextError {
        if let Some(message) = environment::raised(error) {
            return TextError::Refused { message: message.to_owned() };
        }
        match error.kind() {
            ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
                template_error(&self.path, error)
            }
            _ => {
                let (path, line) = (self.path.clone(), error.line().unwrap_or(0));
                TextError::Render { path, line, message: describe(error) }
            }
        }
    }
}

fn template_error(path: &Path, error: &minijinja::Error) -> TextError {
    TextError::Template { path: path.to_owned(), line: error.line().unwrap_or(0), message: describe(error) }
}

fn describe(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}
