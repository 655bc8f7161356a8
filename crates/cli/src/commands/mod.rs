//! The command line: one module per command, each with its `Args` and its `run`.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

mod ab;
mod about;
mod bench;
mod cache;
mod compare;
mod doctor;
mod fix;
mod frames;
mod layers;
mod report;
mod run;

/// Finds, fixes and proves the host-side cost of GPU work.
#[derive(Debug, Parser)]
#[command(name = "towpath", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ab(Box<ab::Args>),
    About(about::Args),
    Bench(bench::Args),
    Cache(cache::Args),
    Compare(compare::Args),
    Doctor(doctor::Args),
    Fix(fix::Args),
    Frames(frames::Args),
    Layers(layers::Args),
    Report(report::Args),
    Run(run::Args),
}

/// The whole command line, for man pages and completions.
fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line, runs the command and prints what went wrong, cause by cause.
pub(crate) fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return unusable(&error),
    };
    let outcome = match command {
        Command::Ab(args) => ab::run(&args),
        Command::About(args) => about::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Fix(args) => fix::run(&args),
        Command::Frames(args) => frames::run(&args),
        Command::Layers(args) => layers::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Run(args) => run::run(&args),
    };
    let code = outcome.unwrap_or_else(|error| {
        tell!("towpath: {error:#}");
        ExitCode::FAILURE
    });
    crate::say::ended(code)
}

/// Help and version go to standard output. A wrong command line is exit code 1, "could not do its job": 2 is a
/// finding (a proven regression, damage), and scripts act on it.
fn unusable(error: &clap::Error) -> ExitCode {
    // As for every other line: a reader that has gone is no error.
    let _unread = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command that is shown, with those below it.
    fn all(command: &clap::Command, found: &mut Vec<clap::Command>) {
        found.push(command.clone());
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            all(below, found);
        }
    }

    /// The words of a shell's line, with quotes taken away.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        for letter in line.chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
                _ => word.push(letter),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn the_examples_of_every_command_can_be_pasted_and_are_understood() {
        let mut commands = Vec::new();
        all(&command(), &mut commands);
        assert!(commands.len() > 25);
        for one in commands.iter().skip(1) {
            let mut printed = one.clone().term_width(80).render_help().to_string();
            if let Some(place) = printed.find("Example") {
                printed.drain(..place);
            } else {
                panic!("{}: no example", one.get_name());
            }
            let text = printed.replace("\\\n", " ");
            for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
                // What follows in brackets explains.
                let line = line.split("    (").next().unwrap_or_default();
                let words = words(line);
                assert_eq!(words[0], "towpath", "{line:?} of {}", one.get_name());
                let read = command().try_get_matches_from(&words);
                assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
            }
        }
    }
}
