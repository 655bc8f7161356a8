//! Memory of the caller: residency and prefault.

use std::ffi::c_void;

use towpath_memory::{Prefault, Range, margin, prefault, residency};

use crate::boundary::{Answer, guard, put};
use crate::status::{tp_status, tp_status as Status};

/// Stores in `*cold_bytes` how many bytes of the `bytes` at `address` lie in pages on which a write would
/// fault.
///
/// TP_ERROR_UNSUPPORTED: it is not known, since the process has forked or the kernel does not say.
/// Any thread; nothing is kept.
///
/// # Safety
///
/// `cold_bytes` is null or valid for a write. `address` is only looked up, never read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_memory_cold(
    address: *const c_void,
    bytes: usize,
    cold_bytes: *mut usize,
) -> tp_status {
    guard(|| {
        let range = range(address, bytes)?;
        let cold = residency::cold_bytes(range)
            .cold()
            .ok_or(Status::TP_ERROR_UNSUPPORTED)?;
        // SAFETY: the caller's promise.
        unsafe { put(cold_bytes, cold) }
    })
}

/// Brings in all pages that hold a byte of the `bytes` at `address`, with up to `threads` threads (0: one);
/// content is unchanged. Call it right before someone else (a driver) writes there.
///
/// TP_ERROR_MEMORY: a part could not be brought in (read-only, unmapped); what was, stays. Or there is not twice as
/// much memory as is absent: nothing was brought in. Any thread. Cost: a look at the page tables, and one page fault
/// per page, in chunks of 16 MiB, so that other threads' mmap does not stall.
#[unsafe(no_mangle)]
pub extern "C" fn tp_memory_prefault(
    address: *mut c_void,
    bytes: usize,
    threads: u32,
) -> tp_status {
    guard(|| {
        let range = range(address, bytes)?;
        // The system ends a process that brings in more than there is, and so much is what a wrong length asks for.
        let absent = residency::cold_bytes(range).cold().unwrap_or(bytes);
        if absent > 0 && !margin::allows(absent) {
            return Err(Status::TP_ERROR_MEMORY);
        }
        let threads = usize::try_from(threads).unwrap_or(1).clamp(1, 64);
        match prefault(
            range,
            &Prefault {
                threads,
                ..Prefault::default()
            },
        ) {
            Ok(_done) => Ok(()),
            Err(_refused) => Err(Status::TP_ERROR_MEMORY),
        }
    })
}

fn range(address: *const c_void, bytes: usize) -> Answer<Range> {
    if address.is_null() {
        return Err(Status::TP_ERROR_NULL);
    }
    let start = address.addr();
    if start.checked_add(bytes).is_none() {
        return Err(Status::TP_ERROR_INVALID);
    }
    Ok(Range {
        address: start,
        len: bytes,
    })
}
