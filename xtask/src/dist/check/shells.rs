//! Man pages as `man` sets them, and completions as the shells load them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::tree;
use crate::run::{has_program, say};

/// Every man page below `folder` is found by its name and set without a complaint.
///
/// # Errors
///
/// With the first page that is not.
pub(super) fn pages(folder: &Path) -> Result<()> {
    if !has_program("man") {
        say("No man here: the man pages are not set.");
        return Ok(());
    }
    for page in tree::files_of(&folder.join("man1"))? {
        let name = page.split_once(".1").map_or(&*page, |(name, _)| name);
        let shown = Command::new("man")
            .args(["--warnings", "--no-hyphenation", "-M"])
            .arg(folder)
            .arg(name)
            .env("MANWIDTH", "80")
            .output()
            .context("cannot start man")?;
        let text = String::from_utf8_lossy(&shown.stdout);
        let complaints = String::from_utf8_lossy(&shown.stderr);
        ensure!(
            shown.status.success() && complaints.is_empty(),
            "{page}: {complaints}"
        );
        ensure!(
            ["NAME", "SYNOPSIS", "DESCRIPTION"]
                .iter()
                .all(|part| text.lines().any(|line| line == *part)),
            "{page} lacks a part:\n{text}"
        );
    }
    Ok(())
}

/// How each shell loads its completions from the folder `$1`, and shows that it has them.
const SHELLS: [(&str, &[&str], &str, &str); 3] = [
    (
        "bash",
        &["--norc", "-c"],
        "source \"$1/bash-completion/completions/towpath\"; COMP_WORDS=(towpath ru); COMP_CWORD=1; \
         _towpath towpath ru towpath; echo \"${COMPREPLY[@]}\"; complete -p towpath",
        "run\ncomplete ",
    ),
    (
        "zsh",
        &["-f", "-c"],
        "fpath=(\"$1/zsh/site-functions\" $fpath); autoload -Uz compinit && compinit -u -D; \
         print -r -- $_comps[towpath]; autoload +X _towpath",
        "_towpath\n",
    ),
    (
        "fish",
        &["--no-config", "-c"],
        "source $argv[2]/fish/vendor_completions.d/towpath.fish; complete -C 'towpath ru'",
        "run\t",
    ),
];

/// Each shell that is here loads its completions and knows of the program.
///
/// # Errors
///
/// With the first that complains or does not.
pub(super) fn completions(share: &Path) -> Result<()> {
    for (shell, words, script, expected) in SHELLS {
        if !has_program(shell) {
            say(&format!("No {shell} here: its completions are not loaded."));
            continue;
        }
        let shown = Command::new(shell)
            .args(words)
            .args([script, shell])
            .arg(share)
            .output()
            .with_context(|| format!("cannot start {shell}"))?;
        let said = String::from_utf8_lossy(&shown.stdout);
        let complaints = String::from_utf8_lossy(&shown.stderr);
        ensure!(
            complaints.is_empty() && said.starts_with(expected),
            "{shell} does not complete: {said}{complaints}"
        );
    }
    Ok(())
}
