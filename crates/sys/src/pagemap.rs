//! `/proc/self/pagemap`: the `PAGEMAP_SCAN` ioctl (Linux 6.7) and the older table of entries.
//!
//! A pagemap descriptor belongs to the process that opened it: one inherited over a fork shows the
//! parent's memory. So [`open`] it for each use; open, scan and close take about 6 microseconds.

#![expect(
    unsafe_code,
    reason = "an ioctl whose layout is a contract with the kernel"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// The page is backed by a file.
pub const PAGE_IS_FILE: u64 = 1 << 2;
/// The page is in memory and mapped.
pub const PAGE_IS_PRESENT: u64 = 1 << 3;
/// The page is in swap.
pub const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// The page is the shared page of zeros: mapped, but the first write faults.
pub const PAGE_IS_PFNZERO: u64 = 1 << 5;
/// The page is part of a huge page.
pub const PAGE_IS_HUGE: u64 = 1 << 6;

/// One run of pages of the same categories, `struct page_region`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct PageRegion {
    /// First address.
    pub start: u64,
    /// Address after the last page.
    pub end: u64,
    /// `PAGE_IS_*` bits of the return mask that hold, inverted as asked.
    pub categories: u64,
}

/// `struct pm_scan_arg`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// What one scan found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scanned {
    /// How many regions were filled in.
    pub regions: usize,
    /// Where the scan stopped: the end of the range, or earlier if the regions ran out.
    pub walk_end: usize,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610;

/// Opens this process's pagemap.
///
/// # Errors
///
/// Those of `open(2)`; `/proc` may be missing.
pub fn open() -> io::Result<File> {
    File::open("/proc/self/pagemap")
}

/// Finds the pages in `start..end` on which a write would fault: absent, swapped out, or the page
/// of zeros. At most `regions.len()` runs; go on from [`Scanned::walk_end`].
///
/// Pages that are shared copy-on-write after a fork are not found, though a write to them faults.
///
/// - Permissions: none.
/// - Since: Linux 6.7.
///
/// # Errors
///
/// - `ENOTTY`: older kernel.
/// - `EINVAL`: unaligned range.
///
/// # Source
///
/// `PAGEMAP_SCAN`, `include/uapi/linux/fs.h`; `Documentation/admin-guide/mm/pagemap.rst`.
pub fn scan_cold(
    pagemap: BorrowedFd<'_>,
    start: usize,
    end: usize,
    regions: &mut [PageRegion],
) -> io::Result<Scanned> {
    let mut arguments = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        start: start as u64,
        end: end as u64,
        vec: regions.as_mut_ptr().expose_provenance() as u64,
        vec_len: regions.len() as u64,
        category_inverted: PAGE_IS_PRESENT,
        category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
        return_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
        ..ScanArguments::default()
    };
    // SAFETY: the argument is a live `pm_scan_arg` (layout asserted below) whose vector is the
    // exclusively borrowed slice with its length; the kernel writes to these two only.
    let answer = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Scanned {
        regions: usize::try_from(answer).unwrap_or(0).min(regions.len()),
        walk_end: usize::try_from(arguments.walk_end).unwrap_or(end).min(end),
    })
}

/// Reads the pagemap entry of the page at `address`; page size in bytes.
///
/// # Errors
///
/// Those of `pread(2)`.
pub fn entry(pagemap: &File, address: usize, page_size: usize) -> io::Result<Entry> {
    let mut bytes = [0_u8; 8];
    let index = address / page_size.max(1);
    pagemap.read_exact_at(&mut bytes, index as u64 * 8)?;
    // The kernel writes the entry in the machine's own order; every machine we build for is
    // little-endian.
    Ok(Entry(u64::from_le_bytes(bytes)))
}

/// One entry of the older table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry(pub u64);

impl Entry {
    /// Whether the page is mapped. The page of zeros counts.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.0 & (1 << 63) != 0
    }

    /// Whether the page is in swap.
    #[must_use]
    pub const fn is_swapped(self) -> bool {
        self.0 & (1 << 62) != 0
    }

    /// Whether no other mapping holds the page. Since Linux 4.2.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        self.0 & (1 << 56) != 0
    }
}

const _: () = assert!(size_of::<ScanArguments>() == 96);
const _: () = assert!(size_of::<PageRegion>() == 24);
const _: () = assert!(cfg!(target_endian = "little"), "see `entry`");

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_present_page_has_an_entry_that_says_so() {
        let pagemap = open().unwrap();
        let value = [1_u8; 64];
        let entry = entry(&pagemap, value.as_ptr().addr(), 4096).unwrap();
        assert!(entry.is_present());
    }

    #[test]
    fn an_older_kernel_or_a_wrong_descriptor_is_an_error_not_a_crash() {
        let null = File::open("/dev/null").unwrap();
        let mut regions = [PageRegion::default(); 4];
        assert!(scan_cold(null.as_fd(), 0, 4096, &mut regions).is_err());
    }
}
