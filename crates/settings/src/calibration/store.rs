//! The folder of calibrations, one file per key.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Entry, Error, FILE_BYTES_MAX, Key, Operation, Snapshot, envelope};
use crate::{Problem, Settings};

/// The folder of stored calibrations: `$XDG_STATE_HOME/towpath/calibration`, or the same under
/// `$HOME/.local/state`.
///
/// # Errors
///
/// [`Error::NoFolder`] if neither variable holds an absolute path.
pub fn default_folder(settings: &Settings) -> Result<PathBuf, Error> {
    let state = settings
        .state_home
        .clone()
        .filter(|path| path.is_absolute());
    let home = || settings.home.as_ref().map(|home| home.join(".local/state"));
    state
        .or_else(home)
        .filter(|path| path.is_absolute())
        .map(|path| path.join("towpath/calibration"))
        .ok_or(Error::NoFolder)
}

/// A folder of calibrations.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in `folder`, which need not be there yet.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The calibration of `key`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be read, [`Error::Damaged`] or [`Error::Form`] if it is not as
    /// this version writes it.
    pub fn load(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let path = self.folder.join(key.file_name());
        match read_bounded(&path) {
            Ok(bytes) => {
                let entry = parse(&bytes, &path)?;
                // Another key under the same name would be a collision of 64 bits: not this one's.
                Ok((entry.key == *key).then_some(entry))
            }
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores `entry` under its key, whole or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the kernel refuses; what was stored before is then unchanged.
    pub fn save(&self, entry: &Entry) -> Result<(), Error> {
        fs::create_dir_all(&self.folder).map_err(|source| Error::File {
            operation: Operation::MakeFolder,
            path: self.folder.clone(),
            source,
        })?;
        let path = self.folder.join(entry.key.file_name());
        publish(&path, &envelope::seal(SCHEMA, entry)?)
    }

    /// Every calibration that can be read, in the order of file names, and what could not.
    #[must_use]
    pub fn all(&self) -> (Vec<Entry>, Vec<Problem>) {
        let mut entries = Vec::new();
        let mut problems = Vec::new();
        for path in self.files(&mut problems) {
            match read_bounded(&path).and_then(|bytes| parse(&bytes, &path)) {
                Ok(entry) => entries.push(entry),
                Err(error) => problems.push(problem(&path, &error)),
            }
        }
        (entries, problems)
    }

    /// All of it at this moment, and what could not be read.
    #[must_use]
    pub fn snapshot(&self) -> (Snapshot, Vec<Problem>) {
        let (entries, problems) = self.all();
        (Snapshot::new(entries), problems)
    }

    fn files(&self, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
        let listed = match fs::read_dir(&self.folder) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(source) => {
                let error = Error::File {
                    operation: Operation::List,
                    path: self.folder.clone(),
                    source,
                };
                problems.push(problem(&self.folder, &error));
                return Vec::new();
            }
        };
        let mut files: Vec<PathBuf> = listed
            .flatten()
            .map(|item| item.path())
            .filter(|path| path.extension() == Some(OsStr::new("json")))
            .collect();
        files.sort();
        files
    }
}

/// Reads the bytes of one calibration; `path` is for the error's text.
///
/// # Errors
///
/// As [`Store::load`], without the file.
pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Entry, Error> {
    envelope::open(SCHEMA, bytes, path)
}

const SCHEMA: &str = "towpath.calibration/1";

fn problem(path: &Path, error: &Error) -> Problem {
    let cause = std::error::Error::source(error).map_or(String::new(), |e| format!(": {e}"));
    Problem {
        name: "calibration".to_owned(),
        value: path.display().to_string(),
        reason: format!("{error}{cause}"),
        used: "none for it".to_owned(),
    }
}

/// Reads a regular file of at most [`FILE_BYTES_MAX`] bytes; a pipe or device is refused unread.
pub(super) fn read_bounded(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File {
        operation: Operation::Read,
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        let path = path.to_owned();
        let reason = "it is no regular file";
        return Err(Error::Damaged { path, reason });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        let path = path.to_owned();
        let reason = "it is longer than any calibration";
        return Err(Error::Damaged { path, reason });
    }
    Ok(bytes)
}

/// Opening a pipe must not wait for its writer. The number is Linux's on every architecture that
/// Rust's standard library supports there but MIPS and SPARC.
const O_NONBLOCK: i32 = 0o4000;

/// Puts `bytes` at `path`: written beside it, synchronised, renamed over it.
pub(super) fn publish(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let failed = |operation, path: &Path| {
        let path = path.to_owned();
        move |source| Error::File {
            operation,
            path,
            source,
        }
    };
    let written = write_new(&temporary, bytes).map_err(failed(Operation::Write, &temporary));
    let done = written
        .and_then(|()| fs::rename(&temporary, path).map_err(failed(Operation::Publish, path)));
    if done.is_err() {
        // Best effort: the error that matters is on its way already.
        let _gone = fs::remove_file(&temporary);
    }
    done
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
