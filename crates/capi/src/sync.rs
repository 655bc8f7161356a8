//! Sync objects of this process: binary and timeline, with the kernel's meaning and without its cost.

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::time::Duration;

use towpath_sync::local::{self, Local, Object};
use towpath_sync::{Deadline, Entry, Error, Provider as _, WaitFor};

use crate::boundary::{Answer, Opaque, borrow, give, guard, put, slice, take};
use crate::status::{tp_status, tp_status as Status};

/// A sync object. Freed by `tp_sync_free`; may be used from any thread until then.
#[derive(Debug)]
pub struct tp_sync {
    _opaque: (),
}

impl Opaque for tp_sync {
    type Value = Object;
    const MARK: u64 = 0x7469_6d65_6c69_6e65;
}

/// Waits for all objects; without it, for any one.
pub const TP_WAIT_ALL: u32 = 1;
/// Waits also for points that are submitted later; without it such a point is TP_ERROR_NOT_FOUND.
pub const TP_WAIT_FOR_SUBMIT: u32 = 2;

/// Makes a sync object and stores it in `*sync`; not 0 in `signaled`: with a fence that is done.
///
/// The caller owns the object and frees it with `tp_sync_free`.
///
/// # Safety
///
/// `sync` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_create(signaled: i32, sync: *mut *mut tp_sync) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { give(sync, Object::new(signaled != 0)) }
    })
}

/// Frees a sync object; NULL is none. Waits under way in other threads go on: they keep what they wait for.
///
/// # Safety
///
/// `sync` is null or from `tp_sync_create`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_free(sync: *mut tp_sync) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { take(sync) }.map(drop)
    })
}

/// Signals a point of a timeline; 0: the binary object. Cost: a lock of a few instructions, one system call
/// for each sleeper that this satisfies.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_signal(sync: *const tp_sync, point: u64) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(sync) }?;
        let done = if point == 0 {
            Local.signal(object)
        } else {
            Local.signal_point(object, point)
        };
        done.map_err(|error| status(&error))
    })
}

/// Takes the fence or the timeline away. Waits under way keep theirs.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_reset(sync: *const tp_sync) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(sync) }?;
        Local.reset(object).map_err(|error| status(&error))
    })
}

/// Stores in `*reached` the highest point that is done together with all before it.
///
/// # Safety
///
/// `sync` is null or a live handle; `reached` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_query(sync: *const tp_sync, reached: *mut u64) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(sync) }?;
        let progress = Local.query(object).map_err(|error| status(&error))?;
        // SAFETY: the caller's promise.
        unsafe { put(reached, progress.reached) }
    })
}

/// Waits on `count` objects, each for its point (0: the binary object), until `deadline_ns` of
/// CLOCK_MONOTONIC (0 or before now: looks only; INT64_MAX: for ever).
///
/// `flags` of TP_WAIT_ALL and TP_WAIT_FOR_SUBMIT. `first` may be NULL; else it gets the lowest index that was
/// ready. TP_ERROR_TIMEOUT: the deadline passed. Never spins; allocates nothing up to 64 objects.
///
/// # Safety
///
/// `syncs` and `points` are null or valid for reads of `count` values; each object is a live handle and stays
/// so until the call returns; `first` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_wait(
    syncs: *const *const tp_sync,
    points: *const u64,
    count: usize,
    flags: u32,
    deadline_ns: i64,
    first: *mut usize,
) -> tp_status {
    guard(|| {
        let what = wait_for(flags)?;
        // SAFETY: the caller's promise.
        let syncs = unsafe { slice(syncs, count) }?;
        // SAFETY: the caller's promise.
        let points = unsafe { slice(points, count) }?;
        let deadline = Deadline::at_nanoseconds(deadline_ns);
        let none = Object::new(false);
        let mut inline = [Entry {
            object: &none,
            point: 0,
        }; local::INLINE];
        let mut heap;
        let entries = if let Some(inline) = inline.get_mut(..count) {
            inline
        } else {
            heap = vec![
                Entry {
                    object: &none,
                    point: 0
                };
                count
            ];
            &mut heap[..]
        };
        for ((entry, sync), point) in entries.iter_mut().zip(syncs).zip(points) {
            // SAFETY: the caller's promise.
            let object = unsafe { borrow(*sync) }?;
            *entry = Entry {
                object,
                point: *point,
            };
        }
        let waited = local::wait(entries, what, deadline).map_err(|error| status(&error))?;
        if first.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { put(first, waited.first.unwrap_or(0)) }
    })
}

/// Writes eight bytes to a duplicate of `fd` (an eventfd) when the point is done; at once if it is.
///
/// The caller keeps `fd`. Meant for poll loops.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_eventfd(sync: *const tp_sync, point: u64, fd: i32) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { borrow(sync) }?;
        if fd < 0 {
            return Err(Status::TP_ERROR_INVALID);
        }
        // SAFETY: only the number is used, to duplicate it; the kernel refuses one that is not open.
        let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            return Err(Status::TP_ERROR_INVALID);
        }
        // SAFETY: just made by `fcntl`, so that nobody else owns it.
        let copy = unsafe { OwnedFd::from_raw_fd(copy) };
        Local
            .watch(object, point, false, copy)
            .map_err(|error| status(&error))
    })
}

/// The moment `span_ns` from now, as `tp_sync_wait` takes it.
#[unsafe(no_mangle)]
pub extern "C" fn tp_deadline_after(span_ns: u64) -> i64 {
    Deadline::after(Duration::from_nanos(span_ns)).as_nanoseconds()
}

fn wait_for(flags: u32) -> Answer<WaitFor> {
    if flags & !(TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT) != 0 {
        return Err(Status::TP_ERROR_INVALID);
    }
    Ok(WaitFor {
        all: flags & TP_WAIT_ALL != 0,
        submit: flags & TP_WAIT_FOR_SUBMIT != 0,
        available: false,
    })
}

fn status(error: &Error) -> Status {
    match error {
        Error::TimedOut { .. } => Status::TP_ERROR_TIMEOUT,
        Error::NotSubmitted { .. } => Status::TP_ERROR_NOT_FOUND,
        Error::SignallerDead { .. } => Status::TP_ERROR_GONE,
        Error::Damaged { .. } => Status::TP_ERROR_DAMAGED,
        Error::Full { .. } => Status::TP_ERROR_MEMORY,
        Error::WrongDescriptor { .. } => Status::TP_ERROR_INVALID,
        _ => Status::TP_ERROR_UNSUPPORTED,
    }
}
