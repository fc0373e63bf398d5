//! `forerunner completions` and `forerunner man`: what shells and readers are to know, made from the flags.

use std::io::Write;

use anyhow::{Context, bail};
use clap::CommandFactory;

use crate::flags::{CompletionsFlags, Flags, ManFlags};

/// Writes a shell's completions.
pub(crate) fn completions(flags: &CompletionsFlags) -> anyhow::Result<()> {
    // Into memory first: the generator panics where its reader has left.
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Flags::command(), "forerunner", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// Writes the page of the manual of the program, or of one of its commands.
pub(crate) fn man(flags: &ManFlags) -> anyhow::Result<()> {
    let mut program = Flags::command();
    program.build();
    let page = match &flags.command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(command) => command.clone(),
            None => bail!("there is no command {name}; accepted: {}", names(&program)),
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).context("making the page failed")?;
    Ok(std::io::stdout().write_all(&text)?)
}

fn names(program: &clap::Command) -> String {
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    visible.map(clap::Command::get_name).collect::<Vec<_>>().join(", ")
}
