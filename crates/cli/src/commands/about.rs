//! `towpath about`: version, licence, and the settings that are read from the environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap_complete::Shell;
use towpath_settings::{Setting, TABLE};

/// Prints version and licence, or the settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath about --settings")]
pub(crate) struct Args {
    /// Print every variable that towpath and its layers read: form, default, meaning
    #[arg(long)]
    settings: bool,
    /// Write a man page for each command; for packagers
    #[arg(long, value_name = "FOLDER", hide = true)]
    write_man: Option<PathBuf>,
    /// Write completions for bash, zsh and fish; for packagers
    #[arg(long, value_name = "FOLDER", hide = true)]
    write_completions: Option<PathBuf>,
}

/// Prints one line or the reference of settings, or writes what a package needs.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(folder) = &args.write_man {
        write_man(folder)?;
    }
    if let Some(folder) = &args.write_completions {
        write_completions(folder)?;
    }
    if args.settings {
        say_part!("{}", reference(TABLE));
    } else if args.write_man.is_none() && args.write_completions.is_none() {
        say!("towpath {} (MIT OR Apache-2.0)", env!("CARGO_PKG_VERSION"));
    }
    Ok(ExitCode::SUCCESS)
}

/// `towpath.1`, and `towpath-COMMAND.1` for each command and each command below it.
fn write_man(folder: &Path) -> Result<()> {
    let text = || format!("cannot write man pages to {}", folder.display());
    fs::create_dir_all(folder).with_context(text)?;
    clap_mangen::generate_to(super::command(), folder).with_context(text)
}

/// One file per shell, under the name that the shell looks for.
fn write_completions(folder: &Path) -> Result<()> {
    let text = || format!("cannot write completions to {}", folder.display());
    fs::create_dir_all(folder).with_context(text)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut super::command(), "towpath", folder)
            .with_context(text)?;
    }
    Ok(())
}

/// towpath's own variables, then those of the system that it honours.
fn reference(table: &[Setting]) -> String {
    let part = |ours: bool| {
        let rows = table
            .iter()
            .filter(move |setting| setting.is_ours() == ours);
        rows.map(entry).collect::<String>()
    };
    format!(
        "{}\nOf the system, honoured:\n\n{}",
        part(true),
        part(false)
    )
}

fn entry(setting: &Setting) -> String {
    let default = match setting.default {
        "" => "not set",
        text => text,
    };
    let doc: String = setting
        .doc
        .lines()
        .map(|line| format!("    {}\n", line.trim()))
        .collect();
    format!(
        "{}={} (default: {default})\n{doc}",
        setting.name, setting.form
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_holds_every_setting_with_its_meaning() {
        let text = reference(TABLE);
        for setting in TABLE {
            let head = format!("{}={} (default: ", setting.name, setting.form);
            let count = text.lines().filter(|line| line.starts_with(&head)).count();
            assert_eq!(count, 1, "{head}");
            assert!(!setting.doc.trim().is_empty());
        }
    }
}
