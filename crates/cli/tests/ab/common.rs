//! The program in a folder of its own, and what it left.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn towpath(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env("XDG_STATE_HOME", folder.join("state"));
    // A few pages: tests count, they do not measure.
    command.args(["ab", "--warm-host", "1", "--seed", "7"]);
    command
}

pub(crate) fn run(folder: &Path, args: &[&str]) -> Output {
    towpath(folder).args(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn result(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("r.json")).unwrap()).unwrap()
}

/// A program whose cost depends on its arm and a little on the number of its run.
pub(crate) const COST: &str = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo cost $((${BASE:-1000} + n * 7 % 11))";

pub(crate) fn with_cost(folder: &Path, words: &str, program: &str) -> Output {
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.extend([
        "--metric",
        "cost=cost ([0-9.]+)::lower",
        "--primary",
        "cost",
    ]);
    words.extend(["--json", "r.json", "--", "sh", "-c", program]);
    run(folder, &words)
}
