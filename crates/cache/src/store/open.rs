//! Opening a store that must not fail: the first place that works, or none at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Access;

use super::{Options, Store};
use crate::error::{Error, Operation, Result};
use crate::format::SegmentHeader;
use crate::identity::Identity;
use crate::storage::{Bytes, Disk, Folder, SyncTarget};

/// A store that is open in any case, and what went wrong on the way.
#[derive(Debug)]
pub struct Opened {
    /// The store; read-only and empty where no place works.
    pub store: Arc<Store>,
    /// The folder, for its pace and counters; `None` where no place works.
    pub folder: Option<Arc<Folder>>,
    /// One line for each place that could not be used, for the log.
    pub problems: Vec<String>,
}

/// Opens the store of `identity` under the first of `roots` that can be written; else under the first
/// that can be read; else an empty one that takes nothing. Never fails: a program must start.
///
/// Missing folders are made with mode 0700; `identity.txt` in the folder says whose it is.
#[must_use]
pub fn open_or_memory(roots: &[PathBuf], identity: &Identity, options: &Options) -> Opened {
    let mut problems = Vec::new();
    let mut readable = None;
    for root in roots {
        match open_in(root, identity, options) {
            Ok((store, folder)) if options.is_read_only || !store.is_read_only() => {
                return Opened {
                    store,
                    folder: Some(folder),
                    problems,
                };
            }
            Ok(found) => {
                problems.push(format!("cache {} cannot be written", root.display()));
                readable.get_or_insert(found);
            }
            Err(error) => problems.push(format!("cache not used: {}", error.one_line())),
        }
    }
    if let Some((store, folder)) = readable {
        return Opened {
            store,
            folder: Some(folder),
            problems,
        };
    }
    let state = super::state::State::new(options);
    let store = Arc::new(Store {
        disk: Arc::new(Nowhere),
        options: Options {
            is_read_only: true,
            ..options.clone()
        },
        state: std::sync::Mutex::new(state),
    });
    Opened {
        store,
        folder: None,
        problems,
    }
}

/// Opens the store in an identity's folder by its path alone, as tools do: the identity's hash is in the
/// folder's name, else in the first sound segment header.
///
/// # Errors
///
/// - [`Error::InTheWay`] if the folder is no store, or not this user's.
/// - [`Error::File`] if it cannot be listed.
pub fn open_existing(path: &Path, is_read_only: bool) -> Result<(Store, Arc<Folder>)> {
    let folder = Arc::new(Folder::existing(path)?);
    let identity = identity_in(path, &*folder)?.ok_or_else(|| Error::InTheWay {
        name: path.display().to_string(),
        reason: "it holds no store".to_owned(),
    })?;
    let options = Options {
        is_read_only,
        ..Options::new(identity)
    };
    let disk: Arc<dyn Disk> = Arc::<Folder>::clone(&folder);
    Ok((Store::open(disk, options)?, folder))
}

fn identity_in(path: &Path, disk: &dyn Disk) -> Result<Option<[u8; 16]>> {
    let place = disk.place();
    let names = disk.names().map_err(Error::file(Operation::List, &place))?;
    let segments = names
        .iter()
        .filter(|name| super::segment::nonce_of(name).is_some());
    let header = |name: &String| SegmentHeader::decode(&disk.read(name).ok()?);
    let in_header = segments
        .filter_map(header)
        .map(|header| header.identity)
        .next();
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    Ok(in_name(name).or(in_header))
}

/// The hash at the end of a folder's name.
fn in_name(name: &str) -> Option<[u8; 16]> {
    let digits = name
        .rsplit('-')
        .next()
        .filter(|digits| digits.len() == 32)?;
    let number = u128::from_str_radix(digits, 16).ok()?;
    // The digits stand in the order of the bytes.
    let mut bytes = number.to_le_bytes();
    bytes.reverse();
    Some(bytes)
}

fn open_in(
    root: &Path,
    identity: &Identity,
    options: &Options,
) -> Result<(Arc<Store>, Arc<Folder>)> {
    let path = root.join(identity.folder_name());
    let folder = if options.is_read_only {
        Folder::existing(&path)?
    } else {
        Folder::open(&path)?
    };
    let is_writable = rustix::fs::access(&path, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let mut options = options.clone();
    options.is_read_only |= !is_writable;
    if !options.is_read_only {
        describe(&folder, identity);
    }
    let folder = Arc::new(folder);
    let disk: Arc<dyn Disk> = Arc::<Folder>::clone(&folder);
    Ok((Arc::new(Store::open(disk, options)?), folder))
}

/// Writes `identity.txt` once. People and `towpath cache` read it; the store does not need it.
fn describe(folder: &Folder, identity: &Identity) {
    const NAME: &str = "identity.txt";
    if folder.create(NAME).is_ok() {
        let _only_for_people = folder.append(NAME, &[identity.text().as_bytes()]);
        folder.release(NAME);
    }
}

/// A disk that has nothing and takes nothing.
#[derive(Debug)]
struct Nowhere;

fn refused() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl Disk for Nowhere {
    fn create(&self, _name: &str) -> io::Result<()> {
        Err(refused())
    }
    fn append(&self, _name: &str, _parts: &[&[u8]]) -> io::Result<()> {
        Err(refused())
    }
    fn sync(&self, _what: SyncTarget<'_>) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(refused())
    }
    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(refused())
    }
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn read(&self, _name: &str) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn claim(&self, _name: &str) -> io::Result<bool> {
        Ok(false)
    }
    fn release(&self, _name: &str) {}
    fn place(&self) -> String {
        "(memory)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_in_a_folders_name_is_the_identitys() {
        let identity = Identity {
            vendor: 0x10de,
            ..Identity::default()
        };
        assert_eq!(in_name(&identity.folder_name()), Some(identity.hash()));
        assert_eq!(in_name("10de-0007-xyz"), None);
        assert_eq!(in_name(&"z".repeat(32)), None);
    }
}
