//! The report as files: JSON, HTML, bundle.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use towpath_report::Machine;
use towpath_report::ledger::{self, Basis, Observed};
use towpath_watch::{End, Exit, Known};

use super::{Args, bundle};
use crate::session::{Session, beside};

/// Everything that was found.
pub(super) struct Whole<'a> {
    pub(super) args: &'a Args,
    pub(super) session: &'a Session,
    pub(super) exit: &'a Exit,
    pub(super) beside: &'a beside::Seen,
    pub(super) observed: &'a Observed,
    pub(super) basis: &'a Basis,
    pub(super) notes: &'a [String],
    pub(super) headline: String,
}

impl Whole<'_> {
    /// Writes the files that were asked for; gives what failed.
    pub(super) fn write(&self) -> Vec<anyhow::Error> {
        let json = self.json();
        let text = serde_json::to_string_pretty(&json).unwrap_or_default() + "\n";
        let files = [
            (&self.args.json, text.clone().into_bytes()),
            (&self.args.html, self.html().into_bytes()),
        ];
        let written = files
            .into_iter()
            .filter_map(|(path, bytes)| Some(write(path.as_deref()?, &bytes)));
        let bundled = self.args.bundle.as_deref().map(|path| {
            let bytes = bundle::pack(self.session, &text)?;
            write(path, &bytes)
        });
        written.chain(bundled).filter_map(Result::err).collect()
    }

    fn json(&self) -> Value {
        let exit = self.exit;
        let end = match exit.end {
            End::Code(code) => json!({"code": code}),
            End::Signal(signal) => json!({"signal": signal}),
        };
        let command: Vec<String> = self
            .args
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        json!({
            "schema": "towpath.run/1",
            "towpath": env!("CARGO_PKG_VERSION"),
            "machine": Machine::collect(),
            "command": command,
            "fixes": self.args.fix.to_string(),
            "end": end,
            "wall_ns": exit.wall.0,
            "user_ns": exit.user.0,
            "sys_ns": exit.sys.0,
            "minor_faults": exit.minor_faults,
            "major_faults": exit.major_faults,
            "max_rss_bytes": exit.max_rss_bytes,
            "voluntary_switches": exit.voluntary_switches,
            "involuntary_switches": exit.involuntary_switches,
            "disk": known(exit.disk.clone().map(|disk| json!({
                "read_bytes": disk.read_bytes,
                "write_bytes": disk.write_bytes,
                "cancelled_bytes": disk.cancelled_bytes,
            }))),
            "run_queue_wait_ns": known(exit.run_queue_wait.clone().map(|wait| json!(wait.0))),
            "beside": self.beside.json(),
            "notes": self.notes,
            "ledger": ledger::json(self.observed, self.basis),
        })
    }

    fn html(&self) -> String {
        let mut lines = vec![self.headline.clone()];
        lines.extend(self.notes.iter().cloned());
        ledger::html("towpath run", &lines, self.observed, self.basis)
    }
}

/// What is not known is an object with its reason, never 0.
fn known(value: Known<Value>) -> Value {
    match value {
        Known::Value(value) => value,
        Known::Unavailable(reason) => json!({"unavailable": reason}),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
