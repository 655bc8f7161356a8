//! Page states of this process: PAGEMAP_SCAN, or `/proc/self/pagemap` on kernels before 6.7.
#![expect(unsafe_code, reason = "asks the kernel for page states")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::{PAGE, Rows};

/// Pages that some rows touch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pages {
    /// Pages on which a store faults: absent, swapped out or the shared zero page.
    pub cold: u64,
    /// All pages that the rows touch.
    pub total: u64,
}

/// Counts the pages that `rows` touch; `None` where the kernel does not say.
///
/// Opens its own descriptor at each call, so that a forked child sees itself. Copies shared after a
/// fork look warm.
#[must_use]
pub fn pages(rows: &Rows) -> Option<Pages> {
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    let mut found = Pages::default();
    let mut next = 0;
    for (address, bytes) in rows.ranges() {
        if bytes == 0 {
            continue;
        }
        let first = (address / PAGE).max(next);
        let end = address.checked_add(bytes)?.div_ceil(PAGE);
        if first >= end {
            continue;
        }
        next = end;
        found.total += (end - first) as u64;
        found.cold += cold_between(&pagemap, first, end)?;
    }
    Some(found)
}

/// Minor faults of this thread so far.
#[must_use]
pub fn thread_faults() -> u64 {
    // SAFETY: all-zero bytes are a valid `rusage`, which has integer fields only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for a write, all the call does.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    u64::try_from(usage.ru_minflt).unwrap_or(0)
}

const PRESENT: u64 = 1 << 3;
const ZERO_PAGE: u64 = 1 << 5;
/// `_IOWR('f', 16, struct pm_scan_arg)`, `include/uapi/linux/fs.h`.
const PAGEMAP_SCAN: libc::c_ulong = 0xC060_6610;

#[repr(C)]
struct ScanArgument {
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

const _: () = assert!(size_of::<ScanArgument>() == 96);

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

fn cold_between(pagemap: &File, first: usize, end: usize) -> Option<u64> {
    scan(pagemap, first, end).or_else(|| read(pagemap, first, end))
}

fn scan(pagemap: &File, first: usize, end: usize) -> Option<u64> {
    let mut regions = [Region::default(); 64];
    let mut cold = 0;
    let mut from = (first * PAGE) as u64;
    let to = (end * PAGE) as u64;
    while from < to {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            flags: 0,
            start: from,
            end: to,
            walk_end: 0,
            vec: regions.as_mut_ptr().expose_provenance() as u64,
            vec_len: regions.len() as u64,
            max_pages: 0,
            category_inverted: PRESENT,
            category_mask: 0,
            category_anyof_mask: PRESENT | ZERO_PAGE,
            return_mask: PRESENT | ZERO_PAGE,
        };
        // SAFETY: the argument has the kernel's layout (asserted) and names `regions`, which is
        // live and as long as `vec_len` says; the kernel writes nothing else.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        let count = usize::try_from(count).ok()?;
        for region in regions.get(..count)? {
            cold += (region.end - region.start) / PAGE as u64;
        }
        if argument.walk_end <= from {
            return None;
        }
        from = argument.walk_end;
    }
    Some(cold)
}

/// Without the scan the zero page cannot be told from a warm one.
fn read(pagemap: &File, first: usize, end: usize) -> Option<u64> {
    let mut entries = vec![0_u8; (end - first).checked_mul(8)?];
    let offset = u64::try_from(first.checked_mul(8)?).ok()?;
    pagemap.read_exact_at(&mut entries, offset).ok()?;
    let cold = entries
        .chunks_exact(8)
        // Bit 63, "present", is in the last byte of each little-endian entry.
        .filter(|entry| entry.last().is_some_and(|byte| byte & 0x80 == 0))
        .count();
    Some(cold as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_pages_are_warm() {
        let mut memory = vec![0_u8; 64 * PAGE];
        let base = memory.as_ptr().addr().next_multiple_of(PAGE);
        let start = base - memory.as_ptr().addr();
        for page in 0..8 {
            memory[start + page * PAGE] = 1;
        }
        let found = pages(&Rows::flat(base, 8 * PAGE)).unwrap();
        assert_eq!(found, Pages { cold: 0, total: 8 });
    }

    #[test]
    fn a_fresh_mapping_is_cold_page_by_page() {
        // SAFETY: a new anonymous mapping; nothing else lies there.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                32 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let base = address.expose_provenance();
        let third = address.cast::<u8>().wrapping_add(2 * PAGE);
        // SAFETY: the third page of the mapping above.
        unsafe { third.write(1) };
        let found = pages(&Rows::flat(base, 32 * PAGE)).unwrap();
        assert_eq!(
            found,
            Pages {
                cold: 31,
                total: 32
            }
        );
        // Every second page of the first four, a few bytes each: pages 0 and 2.
        let some = Rows::rect(base, [100, 0, 0], [8, 2, 1], 2 * PAGE, 0);
        assert_eq!(pages(&some).unwrap(), Pages { cold: 1, total: 2 });
        // SAFETY: the mapping above, not used again.
        unsafe { libc::munmap(address, 32 * PAGE) };
    }
}
