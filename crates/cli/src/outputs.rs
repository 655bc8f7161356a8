//! Where a result goes: the terminal, and files in the forms that were asked for.

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use rustix::fs::Access;
use towpath_report::judging::FailOn;
use towpath_report::{ResultFile, csv, html, junit, markdown, terminal};

use crate::say::write_out;

/// Files to write a result to, and what makes the exit code.
#[derive(Debug, clap::Args)]
pub(crate) struct Outputs {
    /// Writes every raw run, the design and the judgements; `towpath report` judges it again.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes one HTML page without script or network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Writes Markdown that fits into a GitHub comment.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Appends Markdown to a GitHub step summary ("$GITHUB_STEP_SUMMARY").
    #[arg(long, value_name = "FILE")]
    step_summary: Option<PathBuf>,
    /// Writes one JUnit test case per metric.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Writes every reading of every run as one CSV line.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Prints at most 74 columns without colour, for a mail.
    #[arg(long)]
    mail: bool,
    /// What makes exit code 2 (or 3): regression, any-regression, inconclusive, never.
    #[arg(long, value_name = "WHAT", default_value = "regression", value_parser = parse_fail_on)]
    fail_on: FailOn,
}

impl Outputs {
    /// Where the result itself goes, for those who write it while they measure.
    pub(crate) fn json_path(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Whether every file that was asked for can be made: found out before the work, not after it.
    ///
    /// # Errors
    ///
    /// The first whose folder is not there or may not be written to.
    pub(crate) fn check(&self) -> Result<()> {
        let files = [&self.json, &self.html, &self.markdown, &self.step_summary];
        let files = files.into_iter().chain([&self.junit, &self.csv]);
        files.flatten().try_for_each(|path| can_be_written(path))
    }

    /// Prints the judged file, writes what was asked for and gives the exit code.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn finish(&self, file: &ResultFile) -> Result<ExitCode> {
        write_out(&terminal::render(file, self.style()));
        self.write(file)?;
        Ok(ExitCode::from(file.exit_code(self.fail_on)))
    }

    /// Writes what was asked for.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn write(&self, file: &ResultFile) -> Result<()> {
        let comment = || markdown::render(file, markdown::COMMENT_MAX);
        if let Some(path) = &self.json {
            put(path, &file.to_json()?)?;
        }
        if let Some(path) = &self.html {
            put(path, &html::render(file))?;
        }
        if let Some(path) = &self.markdown {
            put(path, &comment())?;
        }
        if let Some(path) = &self.junit {
            put(path, &junit::render(file, self.fail_on))?;
        }
        if let Some(path) = &self.csv {
            put(path, &csv::render(file))?;
        }
        if let Some(path) = &self.step_summary {
            append_summary(path, file)?;
        }
        Ok(())
    }

    /// Width and colour for where the output goes.
    pub(crate) fn style(&self) -> terminal::Style {
        let out = std::io::stdout();
        if self.mail || !out.is_terminal() {
            return terminal::Style::default();
        }
        let columns =
            rustix::termios::tcgetwinsize(&out).map_or(0, |size| usize::from(size.ws_col));
        let (settings, _) = towpath_settings::Settings::from_environment();
        // NO_COLOR counts as set only if it is not empty (no-color.org).
        let colour = settings.no_color.is_none_or(|value| value.is_empty());
        terminal::Style {
            width: columns.clamp(40, 120),
            colour,
        }
    }
}

/// Whether a file can be made there, or is there and can be written to.
///
/// # Errors
///
/// What would be said when it is written.
pub(crate) fn can_be_written(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| folder != &Path::new(""));
    let asked = match path.metadata() {
        Ok(known) if known.is_dir() => Err(rustix::io::Errno::ISDIR),
        Ok(known) if !known.is_file() => rustix::fs::access(path, Access::WRITE_OK),
        _ => rustix::fs::access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK),
    };
    asked.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file as a whole: readers see the old one or the new one. What is no ordinary file is written in place.
fn put(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if path.exists() && !path.is_file() {
        return std::fs::write(path, text).with_context(failed);
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    std::fs::write(&part, text).with_context(failed)?;
    std::fs::rename(&part, path).with_context(failed)
}

/// Appends to what other steps have written, within GitHub's limit for the whole file.
fn append_summary(path: &Path, file: &ResultFile) -> Result<()> {
    let failed = || format!("cannot append to {}", path.display());
    let mut out = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(failed)?;
    let used = usize::try_from(out.metadata().with_context(failed)?.len()).unwrap_or(usize::MAX);
    let left = markdown::STEP_SUMMARY_MAX.saturating_sub(used.saturating_add(1));
    let text = markdown::render(file, left);
    out.write_all(format!("{text}\n").as_bytes())
        .with_context(failed)
}

fn parse_fail_on(word: &str) -> Result<FailOn, String> {
    FailOn::parse(word).ok_or_else(|| {
        let words: Vec<&str> = FailOn::WORDS.iter().map(|(word, _)| *word).collect();
        format!("one of {}", words.join(", "))
    })
}
