//! `--config FILE`: flags from a TOML file. A key is a flag's name, and what its value means is for the flag's own parser.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use toml::{Table, Value};

use crate::flags::Flags;
use crate::nearest::nearest;

/// Options that are about the file or about the command line itself.
const NO_KEYS: [&str; 4] = ["config", "print-config", "help", "version"];

/// A command line, with what its `--config` adds to it.
#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) flags: Flags,
    matches: ArgMatches,
}

/// Reads a command line and the file that its `--config` names. A flag that was typed goes before its key in the file,
/// and a key before the flag's default. Keys of other commands' flags are left alone, so that one file serves all.
pub(crate) fn command_line(arguments: &[OsString]) -> Result<CommandLine, clap::Error> {
    let command = Flags::command();
    let parse = |arguments: &[OsString]| command.clone().try_get_matches_from(arguments);
    let lenient = command.clone().ignore_errors(true).try_get_matches_from(arguments);
    let typed = lenient.as_ref().ok().map(innermost);
    let named = typed.and_then(|(names, typed)| Some((typed.get_one::<PathBuf>("config")?, names, typed)));
    let matches = match named {
        None => parse(arguments)?,
        Some((path, names, typed)) => {
            let refused = |message: String| refusal(path, &message);
            let added = read(path).and_then(|table| added_flags(&table, &command, &names, typed));
            let whole = with(arguments, added.map_err(refused)?);
            // A command line that is wrong by itself is told so; otherwise it is the file that is wrong.
            parse(&whole).map_err(|error| match parse(arguments) {
                Err(alone) => alone,
                Ok(_) => refused(complaint(&error)),
            })?
        }
    };
    Ok(CommandLine { flags: Flags::from_arg_matches(&matches)?, matches })
}

impl CommandLine {
    /// The command's flags that have a value, typed, from the file or by default, as a file for `--config`.
    pub(crate) fn to_toml(&self) -> String {
        let command = Flags::command();
        let (names, matches) = innermost(&self.matches);
        keys(&command, &names).iter().filter_map(|arg| line(arg, matches)).collect()
    }
}

/// The command that was typed, by its names from the outermost on, and what was typed for it.
fn innermost(matches: &ArgMatches) -> (Vec<&str>, &ArgMatches) {
    let (mut names, mut inner) = (Vec::new(), matches);
    while let Some((name, own)) = inner.subcommand() {
        names.push(name);
        inner = own;
    }
    (names, inner)
}

fn refusal(path: &Path, message: &str) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{}: {message}\n", path.display()))
}

/// What clap says is wrong, without its usage and in one line.
fn complaint(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = paragraph.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ")
}

fn read(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    text.parse::<Table>().map_err(|error| error.to_string().trim_end().to_owned())
}

/// The file's flags that this command has and that were not typed.
fn added_flags(
    table: &Table,
    command: &Command,
    names: &[&str],
    typed: &ArgMatches,
) -> Result<Vec<OsString>, String> {
    let own = keys(command, names);
    let all = all_keys(command);
    let mut flags = Vec::new();
    for (key, value) in table {
        let named = |arg: &&Arg| arg.get_long() == Some(key.as_str());
        let arg = own.iter().find(named).or_else(|| all.iter().find(named));
        let arg = arg.ok_or_else(|| unknown(key, all.iter().filter_map(Arg::get_long)))?;
        let as_flags = as_flags(key, value, arg)?;
        let is_typed = typed.try_contains_id(arg.get_id().as_str()).is_ok()
            && typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        if own.iter().any(|arg| named(&arg)) && !is_typed {
            flags.extend(as_flags.into_iter().map(OsString::from));
        }
    }
    Ok(flags)
}

/// The options of a command that a file may have. A command of commands has those of the program alone.
fn keys(command: &Command, names: &[&str]) -> Vec<Arg> {
    let inner = names.iter().try_fold(command, |command, name| command.find_subcommand(name));
    let own = inner.into_iter().filter(|_| !names.is_empty()).flat_map(Command::get_arguments);
    let global = command.get_arguments().filter(|arg| arg.is_global_set());
    own.chain(global).filter(is_key).cloned().collect()
}

/// The options of all commands that a file may have.
fn all_keys(command: &Command) -> Vec<Arg> {
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    command.get_arguments().filter(is_key).cloned().chain(visible.flat_map(all_keys)).collect()
}

fn is_key(arg: &&Arg) -> bool {
    arg.get_long().is_some_and(|long| !NO_KEYS.contains(&long))
}

fn unknown<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> String {
    match nearest(key, names) {
        Some(name) => format!("there is no {key:?}; did you mean {name}?"),
        None => format!("there is no {key:?}; accepted: names of flags without their dashes, see --help"),
    }
}

/// A key and its value as they would be typed.
fn as_flags(key: &str, value: &Value, arg: &Arg) -> Result<Vec<String>, String> {
    let refused = |accepted: &str| format!("{key} is {}; accepted: {accepted}", described(value));
    let typed = |value: &Value| scalar(value).map(|text| format!("--{key}={text}"));
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![format!("--{key}")]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err(refused("true or false")),
        (ArgAction::Append, Value::Array(values)) => {
            values.iter().map(typed).collect::<Option<_>>().ok_or_else(|| refused("a list of texts"))
        }
        (ArgAction::Append, _) => {
            typed(value).map(|flag| vec![flag]).ok_or_else(|| refused("a text or a list of texts"))
        }
        _ => typed(value).map(|flag| vec![flag]).ok_or_else(|| refused("a text or a number")),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".into(),
        other => other.to_string(),
    }
}

/// The file's flags at the end, but before what is not looked at for flags.
fn with(arguments: &[OsString], added: Vec<OsString>) -> Vec<OsString> {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    [&arguments[..end], &added, &arguments[end..]].concat()
}

/// An option's line in a file, if it has a value.
fn line(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let (id, key) = (arg.get_id().as_str(), arg.get_long()?);
    let values: Vec<String> =
        matches.try_get_raw(id).ok()??.map(|value| toml_value(&value.to_string_lossy())).collect();
    let value = match arg.get_action() {
        ArgAction::SetTrue => matches.get_flag(id).to_string(),
        ArgAction::Append => format!("[{}]", values.join(", ")),
        _ => values.into_iter().next()?,
    };
    Some(format!("{key} = {value}\n"))
}

/// A number stays one; everything else is a text.
fn toml_value(text: &str) -> String {
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => text.to_owned(),
        _ => Value::String(text.to_owned()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Command as Asked;

    /// A file that is gone when dropped.
    struct File(PathBuf);

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn file(text: &str) -> File {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("forerunner-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn parse(text: &str, arguments: &[&str]) -> Result<CommandLine, String> {
        let file = file(text);
        let mut line: Vec<OsString> = ["forerunner"].iter().chain(arguments).map(OsString::from).collect();
        line.splice(2..2, ["--config".into(), file.0.clone().into()]);
        command_line(&line).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn in_force(text: &str, arguments: &[&str], expected: &[&str]) {
        let shown = parse(text, arguments).unwrap().to_toml();
        for line in expected {
            assert!(shown.lines().any(|shown| shown == *line), "{line:?} is not in\n{shown}");
        }
    }

    #[track_caller]
    fn refused(text: &str, fragment: &str) {
        let message = parse(text, &["serve"]).unwrap_err();
        assert!(
            message.contains("forerunner-") && message.contains(fragment),
            "{fragment:?} is not in {message}"
        );
    }

    /// A value that the option takes and that is not its default.
    fn another_value(arg: &Arg) -> String {
        let name = arg.get_long().unwrap();
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            return "true".into();
        }
        if let Some(last) = arg.get_possible_values().iter().rfind(|value| !value.is_hide_set()) {
            return toml_value(last.get_name());
        }
        match (name, arg.get_action()) {
            ("host", _) => "\"::1\"".into(),
            (_, ArgAction::Append) => "[\"http://a.example\", \"http://b.example\"]".into(),
            _ if arg.get_value_names().is_some_and(|names| names == ["FILE"] || names == ["DIR"]) => {
                format!("\"/{name}\"")
            }
            _ => "5".into(),
        }
    }

    #[test]
    fn every_flag_of_serve_has_its_key() {
        let keys = keys(&Flags::command(), &["serve"]);
        assert!(keys.len() > 10, "only {}", keys.len());
        for arg in &keys {
            let key = arg.get_long().unwrap();
            // What it means is for its own parser: that the key leads there is seen by either answer.
            let line = format!("{key} = {}", another_value(arg));
            match parse(&line, &["serve"]) {
                Ok(parsed) => assert!(parsed.to_toml().lines().any(|shown| shown == line), "{line}"),
                Err(message) => assert!(message.contains("--"), "{message}"),
            }
        }
    }

    #[test]
    fn a_command_of_a_command_has_its_keys() {
        in_force(
            "pairs = 7\nparallel = 4\n",
            &["bench", "throughput", "--seed", "3"],
            &["pairs = 7", "seed = 3"],
        );
        in_force("streams = [2, 3]", &["bench", "throughput"], &["streams = [2, 3]"]);
        in_force("pairs = 7", &["serve"], &["parallel = 16"]);
    }

    #[test]
    fn what_is_typed_goes_first_and_the_default_last() {
        let text = "parallel = 4\nport = 1\nthreads = 2\n";
        in_force(text, &["serve", "--port", "9"], &["parallel = 4", "port = 9", "max-queue = 64"]);
        in_force(text, &["serve", "--port=9"], &["port = 9"]);
        in_force("cors-origin = \"http://a\"", &["serve", "--cors-origin", "*"], &["cors-origin = [\"*\"]"]);
        in_force("log = \"info\"", &["serve"], &["log = \"info\""]);
        in_force("log = \"info\"", &["serve", "--log", "error"], &["log = \"error\""]);
    }

    #[test]
    fn one_file_serves_all_commands() {
        let text = "parallel = 4\nthreads = 3\ntemperature = 0.5\n";
        in_force(text, &["chat"], &["threads = 3", "temperature = \"0.5\""]);
        let line = parse(text, &["run", "--", "--parallel"]).unwrap();
        let Asked::Run(flags) = line.flags.command else { panic!("run") };
        assert_eq!((flags.prompt.as_str(), flags.reply.temperature), ("--parallel", 0.5));
    }

    #[test]
    fn wrong_files_are_refused_by_name() {
        refused("max_queue = 3", "there is no \"max_queue\"; did you mean max-queue?");
        refused("zebra = 3", "there is no \"zebra\"; accepted: names of flags");
        refused("config = \"other.toml\"", "there is no \"config\"");
        refused("[serve]\nport = 3", "there is no \"serve\"");
        refused("parallel = 0", "'0'");
        refused("parallel = -1", "'-1' for '--parallel <N>'");
        refused("port = 70000", "--port");
        refused("mode = \"sse9\"", "sse9");
        refused("parallel = [1, 2]", "parallel is [1, 2]; accepted: a text or a number");
        refused("parallel = true", "parallel is true; accepted");
        refused("model = {path = \"x\"}", "model is a table; accepted");
        refused("force-drafts = 1", "force-drafts is 1; accepted: true or false");
        refused("cors-origin = [[1]]", "accepted: a list of texts");
        refused("parallel = 1\nparallel = 2", "duplicate key");
        refused("parallel = ", "line 1");
        refused("drafter = \"d\"", "--model");
    }

    #[test]
    fn a_wrong_command_line_is_told_so_and_not_the_file() {
        let message = parse("parallel = 4", &["serve", "--port", "70000"]).unwrap_err();
        assert!(message.contains("70000") && !message.contains(".toml:"), "{message}");
        let missing = command_line(&["forerunner", "serve", "--config", "/no/such.toml"].map(OsString::from));
        assert!(missing.unwrap_err().to_string().starts_with("error: /no/such.toml: No such file"));
    }

    #[test]
    fn what_is_printed_says_the_same_again() {
        let text = "parallel = 4\ncors-origin = [\"a\", \"b\"]\nmodel = \"quoted \\\"name\\\"\"\n";
        let once = parse(text, &["serve", "--threads", "2"]).unwrap().to_toml();
        assert_eq!(parse(&once, &["serve"]).unwrap().to_toml(), once);
    }
}
