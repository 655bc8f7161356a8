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
