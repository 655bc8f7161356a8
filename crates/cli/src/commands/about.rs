//! `towpath about`: version, licence, and the settings that are read from the environment.

use std::process::ExitCode;

use towpath_settings::{Setting, TABLE};

/// Prints version and licence, or the settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath about --settings")]
pub(crate) struct Args {
    /// Print every variable that towpath and its layers read: form, default, meaning
    #[arg(long)]
    settings: bool,
}

/// Prints one line, or the reference of settings.
#[expect(clippy::print_stdout, reason = "the command's output")]
#[expect(clippy::unnecessary_wraps, reason = "every command has one signature")]
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.settings {
        print!("{}", reference(TABLE));
    } else {
        println!("towpath {} (MIT OR Apache-2.0)", env!("CARGO_PKG_VERSION"));
    }
    Ok(ExitCode::SUCCESS)
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
