//! The folder of one run: ledgers, snapshot and log, on tmpfs where there is one.
//!
//! It is removed at the end. One whose owner was killed is removed by the next run.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use towpath_ledger::{LedgerFile, Process};
use towpath_settings::Settings;

/// A folder that belongs to this process and goes with it.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes one on the first place that takes it, and removes what dead runs left there.
    ///
    /// # Errors
    ///
    /// The last place's error, if no place takes it.
    pub(crate) fn create(settings: &Settings) -> Result<Self> {
        let mut outcome = Err(io::Error::from(io::ErrorKind::NotFound));
        let places = places(settings);
        for place in &places {
            remove_abandoned(place);
            outcome = create_in(place);
            if outcome.is_ok() {
                break;
            }
        }
        let tried = || {
            let names: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            format!("cannot make a folder for ledgers in {}", names.join(", "))
        };
        Ok(Self {
            path: outcome.with_context(tried)?,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What cannot be removed now is tried again by the next run.
        let _removed = fs::remove_dir_all(&self.path);
    }
}

/// tmpfs first: a ledger on a disk costs writes.
fn places(settings: &Settings) -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/dev/shm")];
    places.extend(
        settings
            .runtime_dir
            .clone()
            .filter(|path| path.is_absolute()),
    );
    places.push(PathBuf::from("/tmp"));
    places
}

/// Name of this user's folders, before the process id.
fn prefix() -> String {
    format!("towpath-{}-", rustix::process::getuid().as_raw())
}

/// Bytes that must be free: some ledgers. A place that is full now would only fail later.
const ROOM_BYTES: u64 = 4 << 20;

fn create_in(place: &Path) -> io::Result<PathBuf> {
    let room = rustix::fs::statvfs(place)?;
    if room.f_bavail.saturating_mul(room.f_frsize) < ROOM_BYTES {
        return Err(io::Error::from(io::ErrorKind::StorageFull));
    }
    let me = Process::current();
    for attempt in 0..100 {
        let path = place.join(format!("{}{}-{attempt}", prefix(), me.pid));
        // Made, never adopted: in a folder open to all, one that is there may be anybody's.
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {
                fs::write(path.join(OWNER), owner_text(&me)).inspect_err(|_full| {
                    let _removed = fs::remove_dir_all(&path);
                })?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// File that says whose folder it is.
const OWNER: &str = "owner";

fn owner_text(owner: &Process) -> String {
    let boot = u128::from_le_bytes(owner.boot_id);
    format!(
        "{} {} {} {boot}\n",
        owner.pid, owner.start, owner.pid_namespace
    )
}

fn owner_of(folder: &Path) -> Option<Process> {
    let text = fs::read_to_string(folder.join(OWNER)).ok()?;
    let mut words = text.split_ascii_whitespace();
    Some(Process {
        pid: words.next()?.parse().ok()?,
        start: words.next()?.parse().ok()?,
        pid_namespace: words.next()?.parse().ok()?,
        boot_id: words.next()?.parse::<u128>().ok()?.to_le_bytes(),
    })
}

/// Every folder of this user's runs.
pub(crate) fn all(settings: &Settings) -> Vec<PathBuf> {
    places(settings)
        .iter()
        .flat_map(|place| ours(place))
        .collect()
}

/// This user's folders in `place`. Links and what belongs to somebody else are left out.
fn ours(place: &Path) -> Vec<PathBuf> {
    let prefix = prefix();
    let me = rustix::process::getuid().as_raw();
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(&prefix))
        })
        .filter(|entry| {
            entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == me)
        })
        .map(|entry| entry.path())
        .collect()
}

/// Removes this user's folders in `place` whose owner is gone and whose programs are too.
fn remove_abandoned(place: &Path) {
    for path in ours(place).into_iter().filter(|path| is_abandoned(path)) {
        let _removed = fs::remove_dir_all(&path);
    }
}

fn is_abandoned(folder: &Path) -> bool {
    // Without an owner's note: made this moment by another run, or its run was killed right then.
    let Some(owner) = owner_of(folder) else {
        return is_old(folder);
    };
    !owner.is_alive() && !has_live_ledgers(folder)
}

fn is_old(folder: &Path) -> bool {
    let age = fs::metadata(folder)
        .and_then(|meta| meta.modified())
        .map(|made| made.elapsed());
    age.is_ok_and(|age| age.is_ok_and(|age| age.as_secs() > 60))
}

fn has_live_ledgers(folder: &Path) -> bool {
    let files = fs::read_dir(folder.join(super::LEDGERS))
        .into_iter()
        .flatten()
        .flatten();
    files
        .filter_map(|file| LedgerFile::open(&file.path()).ok())
        .any(|ledger| ledger.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::read(|_| None).0
    }

    #[test]
    fn a_folder_goes_with_its_owner() {
        let folder = RunFolder::create(&settings()).unwrap();
        let path = folder.path().to_owned();
        assert!(path.is_dir());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn only_abandoned_folders_of_this_user_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, owner: Option<&Process>| {
            let path = place.path().join(format!("{}{name}", prefix()));
            fs::create_dir(&path).unwrap();
            if let Some(owner) = owner {
                fs::write(path.join(OWNER), owner_text(owner)).unwrap();
            }
            path
        };
        let me = Process::current();
        let dead = Process {
            start: me.start + 1,
            ..me
        };
        let alive = make("1-0", Some(&me));
        let abandoned = make("2-0", Some(&dead));
        let unmarked = make("3-0", None);
        let other = place.path().join("towpath-of-somebody");
        fs::create_dir(&other).unwrap();
        remove_abandoned(place.path());
        assert!(alive.exists() && unmarked.exists() && other.exists());
        assert!(!abandoned.exists());
    }

    #[test]
    fn a_place_that_is_not_there_or_full_is_passed_over() {
        assert!(create_in(Path::new("/no/such/place")).is_err());
        assert!(create_in(Path::new("/proc")).is_err());
    }
}
