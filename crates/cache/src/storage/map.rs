//! Files mapped into memory, read-only.
#![expect(unsafe_code, reason = "a file map is only as constant as the file")]

use std::fs::File;
use std::io;

use memmap2::Mmap;

use super::Bytes;

/// Maps `file` as it is now.
///
/// The store's files are only appended to or unlinked, never cut or rewritten (`docs/store.md`,
/// Assumptions), by processes of the one user who owns the folder: a map stays readable and constant.
pub(super) fn map(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new([]));
    }
    // SAFETY: the file was opened by `Folder`, which checked that it is a regular file of this user in
    // a folder that no one else may write; the store never truncates or rewrites a file.
    let map = unsafe { Mmap::map(file) }?;
    Ok(Bytes::new(map))
}

/// The first page of a file, mapped for writing and shared with the file.
#[derive(Debug)]
pub(crate) struct Page(memmap2::MmapMut);

impl Page {
    /// Maps a file that has at least one page of blocks.
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        let mut options = memmap2::MmapOptions::new();
        options.len(4096);
        // SAFETY: the caller made the file in a folder of this user, gave it blocks (so that a store
        // is no SIGBUS), and holds its lock; nobody cuts it.
        let map = unsafe { options.map_mut(file) }?;
        Ok(Self(map))
    }
}

impl std::ops::Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for Page {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
