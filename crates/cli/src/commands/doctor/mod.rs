//! `towpath doctor`: what this machine has and lacks for each host path, measured where it can be.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use finding::{Finding, State};

mod files;
mod finding;
mod host;

/// Says what this machine has and lacks for each host path.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath doctor --json doctor.json")]
pub(crate) struct Args {
    /// Also writes the findings to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The file that `--json` writes.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    findings: &'a [Finding],
}

/// Looks, measures, prints.
///
/// # Errors
///
/// If the JSON file cannot be written; nothing that is missing on the machine is an error.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut findings = host::findings();
    findings.extend(files::findings());
    print(&findings);
    if let Some(path) = &args.json {
        let document = Document {
            schema: "towpath.doctor/1",
            findings: &findings,
        };
        let text = serde_json::to_string_pretty(&document)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the command's output")]
fn print(findings: &[Finding]) {
    for path in ["machine", "readback", "upload", "cache", "waits"] {
        println!("{path}");
        for finding in findings.iter().filter(|finding| finding.path == path) {
            let mark = match finding.state {
                State::Good => "ok",
                State::Advice => "do",
                State::Unavailable => "--",
            };
            println!("  {mark}  {:24} {}", finding.what, finding.text);
            if let Some(advice) = &finding.advice {
                println!("      {:24} -> {advice}", "");
            }
        }
    }
}
