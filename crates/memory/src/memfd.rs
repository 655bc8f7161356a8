//! Memory files as guests use them: shared, of fixed size, sealed so that pages can be pinned.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};

/// A sealed memory file.
#[derive(Debug)]
pub struct Memfd {
    fd: OwnedFd,
    len: u64,
}

impl Memfd {
    /// A file of `len` bytes in pages of the usual size, sealed against shrinking and growing.
    ///
    /// # Errors
    ///
    /// The kernel's: no descriptor left, no memory.
    pub fn new(name: &str, len: u64) -> io::Result<Self> {
        Self::make(name, len, MemfdFlags::empty())
    }

    /// As [`new`](Self::new), in huge pages of 2 MiB.
    ///
    /// # Errors
    ///
    /// Also `ENOMEM` at the first mapping where `vm.nr_hugepages` does not suffice, `EINVAL` for a
    /// length that is no multiple of 2 MiB.
    pub fn huge(name: &str, len: u64) -> io::Result<Self> {
        Self::make(name, len, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)
    }

    fn make(name: &str, len: u64, flags: MemfdFlags) -> io::Result<Self> {
        let always = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create(name, flags | always)?;
        ftruncate(&fd, len)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(Self { fd, len })
    }

    /// The file's length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes that a mapping of `file` must be aligned to: its huge page, or the usual page.
///
/// # Errors
///
/// The kernel's, for a descriptor that is closed.
pub fn granularity(file: BorrowedFd<'_>) -> io::Result<u64> {
    // hugetlbfs answers its page size as the preferred block size; others answer at least a page.
    let block = u64::try_from(fstat(file)?.st_blksize).unwrap_or(PAGE);
    let is_huge = block >= HUGE && block.is_power_of_two() && is_hugetlb(file)?;
    Ok(if is_huge { block } else { PAGE })
}

fn is_hugetlb(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(file)?.f_type == HUGETLBFS_MAGIC)
}

/// The page size of the machines this is built for.
pub const PAGE: u64 = 4096;

/// The usual huge page.
pub const HUGE: u64 = 2 << 20;

const HUGETLBFS_MAGIC: rustix::fs::FsWord = 0x9584_58f6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memfd_is_sealed_and_has_plain_pages() {
        let file = Memfd::new("test", 3 * PAGE).unwrap();
        assert_eq!(file.len(), 3 * PAGE);
        assert_eq!(granularity(file.as_fd()).unwrap(), PAGE);
        assert!(ftruncate(&file, PAGE).is_err(), "sealed against shrinking");
    }
}
