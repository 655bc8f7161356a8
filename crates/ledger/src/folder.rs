//! A folder of ledgers.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, LedgerFile, Operation};

/// A file that could not be read, and why.
#[derive(Debug)]
pub struct Problem {
    /// Which file or folder.
    pub path: PathBuf,
    /// What is wrong.
    pub error: Error,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match std::error::Error::source(&self.error) {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// Every ledger of `folder` that can be read, in the order of file names, and what could not.
///
/// A folder that is not there holds none. Files under other names than `*.ledger` are left alone.
#[must_use]
pub fn read_folder(folder: &Path) -> (Vec<LedgerFile>, Vec<Problem>) {
    let mut ledgers = Vec::new();
    let mut problems = Vec::new();
    for path in files(folder, &mut problems) {
        match LedgerFile::open(&path) {
            Ok(ledger) => ledgers.push(ledger),
            Err(error) => problems.push(Problem { path, error }),
        }
    }
    (ledgers, problems)
}

/// Removes the ledgers of `folder` whose process is gone. Returns how many were removed, and what
/// could not be.
///
/// Damaged files and those of other versions are removed as well if their name's process id is not in
/// use. Files under other names are left alone.
#[must_use]
pub fn remove_dead(folder: &Path) -> (usize, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut removed = 0;
    for path in files(folder, &mut problems) {
        let is_dead = LedgerFile::open(&path).map_or_else(
            |_damaged| !is_named_after_a_live_process(&path),
            |ledger| !ledger.is_alive(),
        );
        if !is_dead {
            continue;
        }
        match fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(source) => problems.push(Problem {
                error: Error::Io {
                    operation: Operation::Remove,
                    path: path.clone(),
                    source,
                },
                path,
            }),
        }
    }
    (removed, problems)
}

/// Whether the id before the first dash of the name belongs to a process.
fn is_named_after_a_live_process(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let pid = name
        .split('-')
        .next()
        .and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
}

fn files(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(source) => {
            problems.push(Problem {
                path: folder.to_owned(),
                error: Error::Io {
                    operation: Operation::Open,
                    path: folder.to_owned(),
                    source,
                },
            });
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = listed
        .flatten()
        .map(|item| item.path())
        .filter(|path| path.extension() == Some(OsStr::new("ledger")))
        .collect();
    files.sort();
    files
}
