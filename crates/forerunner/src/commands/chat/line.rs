//! What can be typed in a conversation: something to say, or a command that begins with a slash.

use crate::nearest::nearest;

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Something for the model.
    Say(&'a str),
    /// A command and what stands after it.
    Command(Name, &'a str),
    /// No command; what to tell about it.
    Unknown(String),
    Nothing,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Help,
    Clear,
    System,
    Draft,
    Temperature,
    Retry,
    Statistics,
    Save,
    Quit,
}

/// How a command is typed, what it takes and what it does.
pub(super) struct Described {
    pub(super) typed: &'static str,
    name: Name,
    argument: &'static str,
    about: &'static str,
}

const fn described(
    typed: &'static str,
    name: Name,
    argument: &'static str,
    about: &'static str,
) -> Described {
    Described { typed, name, argument, about }
}

pub(super) const COMMANDS: [Described; 9] = [
    described("/help", Name::Help, "", "shows these lines"),
    described("/clear", Name::Clear, "", "forgets the conversation"),
    described("/system", Name::System, "[TEXT]", "begins anew, with TEXT told to the model first"),
    described("/draft", Name::Draft, "on|off", "drafts or not: the text stays the same"),
    described("/temperature", Name::Temperature, "T", "0 takes the likeliest token each time"),
    described("/retry", Name::Retry, "", "answers the last message again"),
    described("/stats", Name::Statistics, "", "shows how the last reply went"),
    described("/save", Name::Save, "FILE", "writes the conversation as JSON"),
    described("/quit", Name::Quit, "", "ends, as Ctrl-D does"),
];

/// Other ways to type a command.
const ALIASES: [(&str, &str); 2] = [("/reset", "/clear"), ("/exit", "/quit")];

/// What a line asks for.
pub(super) fn parse(line: &str) -> Line<'_> {
    let line = line.trim();
    if !line.starts_with('/') {
        return if line.is_empty() { Line::Nothing } else { Line::Say(line) };
    }
    let (typed, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let typed = ALIASES.iter().find(|(alias, _)| *alias == typed).map_or(typed, |(_, typed)| typed);
    match COMMANDS.iter().find(|command| command.typed == typed) {
        Some(command) => Line::Command(command.name, argument.trim()),
        None => Line::Unknown(match nearest(typed, COMMANDS.iter().map(|command| command.typed)) {
            Some(meant) => format!("there is no {typed}; did you mean {meant}?"),
            None => format!("there is no {typed}; /help lists the commands"),
        }),
    }
}

/// All commands, a line each.
pub(super) fn help() -> String {
    let line = |command: &Described| {
        format!("{:<16} {}", format!("{} {}", command.typed, command.argument), command.about)
    };
    COMMANDS.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash_and_all_else_is_said() {
        assert_eq!(parse(" what is 1/2?\n"), Line::Say("what is 1/2?"));
        assert_eq!(parse("/reset\r\n"), Line::Command(Name::Clear, ""));
        assert_eq!(parse("/system  Be brief. \n"), Line::Command(Name::System, "Be brief."));
        assert_eq!(parse("  \n"), Line::Nothing);
        assert_eq!(parse("/zebra on"), Line::Unknown("there is no /zebra; /help lists the commands".into()));
        assert!(matches!(parse("/ "), Line::Unknown(_)));
    }

    #[test]
    fn a_slip_is_answered_with_the_command_that_was_meant() {
        let Line::Unknown(told) = parse("/drfat on") else { panic!("no command") };
        assert!(told.contains("there is no /drfat; did you mean /draft?"), "{told}");
    }

    #[test]
    fn every_command_is_in_the_help_and_is_parsed() {
        for command in &COMMANDS {
            assert!(help().contains(command.typed));
            assert_eq!(parse(command.typed), Line::Command(command.name, ""));
        }
    }
}
