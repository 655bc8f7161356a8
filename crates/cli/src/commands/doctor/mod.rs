//! `towpath doctor`: what this machine has and lacks for each host path, measured where it can be.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use towpath_settings::Settings;

use devices::Asked;
use finding::{Finding, State};

mod devices;
mod files;
mod finding;
mod host;
mod loaders;

/// Says what this machine has and lacks for each host path.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath doctor --json doctor.json")]
pub(crate) struct Args {
    /// Also writes the findings to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Answers one question of another doctor and ends.
    #[arg(long, hide = true, value_name = "WHAT", value_parser = devices::parse)]
    probe: Option<Asked>,
}

/// Time after which no further device is begun; with what is then under way all is done in under 20 s.
const DEADLINE: Duration = Duration::from_secs(16);

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
    if let Some(asked) = args.probe {
        devices::probe(asked)?;
        return Ok(ExitCode::SUCCESS);
    }
    let deadline = Instant::now() + DEADLINE;
    let (settings, _problems) = Settings::from_environment();
    let mut findings = host::findings();
    let (measured, library) = devices::findings(deadline);
    findings.extend(loaders::findings(&settings, library.as_deref()));
    findings.extend(files::findings());
    findings.extend(measured);
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

fn print(findings: &[Finding]) {
    for path in ["machine", "readback", "upload", "cache", "waits"] {
        say!("{path}");
        for finding in findings.iter().filter(|finding| finding.path == path) {
            let mark = match finding.state {
                State::Good => "ok",
                State::Advice => "do",
                State::Unavailable => "--",
            };
            say!("  {mark}  {:24} {}", finding.what, finding.text);
            if let Some(advice) = &finding.advice {
                say!("      {:24} -> {advice}", "");
            }
        }
    }
}
