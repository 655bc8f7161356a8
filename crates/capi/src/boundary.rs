//! The border to C: null checks, handles and the wall against panics, in one place.

use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use towpath_settings::hush_panics;

use crate::status::tp_status as Status;

/// What functions of this library return inside.
pub(crate) type Answer<T = ()> = Result<T, Status>;

/// Runs `body` and turns its answer, or its panic, into a status.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Answer) -> Status {
    // Nothing is printed in a process that is not ours, but what tests of this crate say of their failures.
    if cfg!(not(test)) {
        hush_panics();
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::TP_OK,
        Ok(Err(status)) => status,
        Err(panic) => {
            // Dropping what a panic carries may panic again.
            let _twice = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            Status::TP_ERROR_DEFECT
        }
    }
}

/// A type that C knows by name only: a pointer to it is a handle.
pub(crate) trait Opaque {
    /// What lies behind the handle.
    type Value;
    /// Differs between kinds of handles.
    const MARK: u64;
    /// Whether a function that the program gave is called with it right now: it is not freed then.
    fn is_busy(_value: &Self::Value) -> bool {
        false
    }
}

/// What a handle points to: the value, and a mark by which a wrong or freed handle is known.
///
/// The mark comes first in every kind, since it is looked at before the kind is known. A freed block may have been
/// given to someone else by the time it is looked at: the mark catches the common mistakes, not every one.
#[repr(C)]
struct Block<V> {
    mark: AtomicU64,
    value: V,
}

/// What a freed handle's mark becomes.
const FREED: u64 = 0xdead_f4ee_dead_f4ee;

/// The mark of a kind of handles of this copy of the library: another copy may be of another version.
fn mark<T: Opaque>() -> u64 {
    /// Its place differs from copy to copy.
    static HERE: AtomicU64 = AtomicU64::new(0);
    T::MARK ^ HERE.as_ptr().addr() as u64
}

/// Puts `value` behind a new handle and stores it in `*out`.
///
/// # Safety
///
/// `out` is null or valid for a write.
pub(crate) unsafe fn give<T: Opaque>(out: *mut *mut T, value: T::Value) -> Answer {
    wanted(out)?;
    let mark = AtomicU64::new(mark::<T>());
    let handle = Box::into_raw(Box::new(Block { mark, value })).cast::<T>();
    // SAFETY: not null by the check above, valid for a write by the caller's promise.
    unsafe { out.write(handle) };
    Ok(())
}

/// The block of a handle that may be one.
fn block<T: Opaque>(handle: *const T) -> Answer<*const Block<T::Value>> {
    let block = handle.cast::<Block<T::Value>>();
    if block.is_null() {
        return Err(Status::TP_ERROR_NULL);
    }
    if block.is_aligned() {
        Ok(block)
    } else {
        Err(Status::TP_ERROR_HANDLE)
    }
}

/// Borrows what lies behind a handle.
///
/// # Safety
///
/// `handle` is null, live, or freed with its block not in use by someone else.
pub(crate) unsafe fn borrow<'a, T: Opaque>(handle: *const T) -> Answer<&'a T::Value> {
    let block = block(handle)?;
    // SAFETY: not null and aligned by `block`; the start of a block of some kind by the caller's promise.
    let seen = unsafe { &*block.cast::<AtomicU64>() };
    // Acquire: pairs with the exchange in `take`, so that a handle seen as live is whole.
    if seen.load(Ordering::Acquire) != mark::<T>() {
        return Err(Status::TP_ERROR_HANDLE);
    }
    // SAFETY: as above, and the mark says that it is one of this kind, made by `give`.
    Ok(unsafe { &(*block).value })
}

/// Takes what lies behind a handle back; null is no handle and no mistake. TP_ERROR_BUSY: it stays.
///
/// # Safety
///
/// As [`borrow`], and no other call uses the handle now or later.
pub(crate) unsafe fn take<T: Opaque>(handle: *mut T) -> Answer<Option<T::Value>> {
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    if T::is_busy(unsafe { borrow(handle.cast_const()) }?) {
        return Err(Status::TP_ERROR_BUSY);
    }
    let block = block(handle.cast_const())?.cast_mut();
    // SAFETY: not null and aligned by `block`; the start of a block of some kind by the caller's promise.
    let seen = unsafe { &*block.cast::<AtomicU64>() };
    // Of two threads that free one handle, one sees the mark.
    let was = seen.compare_exchange(mark::<T>(), FREED, Ordering::AcqRel, Ordering::Acquire);
    if was.is_err() {
        return Err(Status::TP_ERROR_HANDLE);
    }
    // SAFETY: made by `give` from a box, and the exchange above makes us the only one to free it.
    let boxed = unsafe { Box::from_raw(block) };
    Ok(Some(boxed.value))
}

/// Stores `value` in `*out`.
///
/// # Safety
///
/// `out` is null or valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Answer {
    wanted(out)?;
    // SAFETY: not null by the check above, valid for a write by the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// Whether there is a place for an answer: to be asked before anything is done for it.
pub(crate) fn wanted<T>(out: *const T) -> Answer {
    if out.is_null() {
        return Err(Status::TP_ERROR_NULL);
    }
    Ok(())
}

/// Stores a report where the program wants one.
///
/// # Safety
///
/// `report` is null or valid for a write.
pub(crate) unsafe fn put_if_wanted<T>(report: *mut T, filled: T) -> Answer {
    if report.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { put(report, filled) }
}

/// A span as reports have it.
pub(crate) fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Stores where bytes are, and how many: both or none.
///
/// # Safety
///
/// `data` and `bytes` are null or valid for a write.
pub(crate) unsafe fn put_bytes<P>(
    (data, bytes): (*mut P, *mut usize),
    start: P,
    len: usize,
) -> Answer {
    wanted(bytes)?;
    // SAFETY: the caller's promise.
    unsafe { put(data, start) }?;
    // SAFETY: as above.
    unsafe { put(bytes, len) }
}

/// `count` values at `data`; none at null only if `count` is 0.
///
/// # Safety
///
/// `data` is null or valid for reads of `count` values for as long as the slice lives.
pub(crate) unsafe fn slice<'a, T>(data: *const T, count: usize) -> Answer<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(data, count)?;
    // SAFETY: not null, aligned and not longer than `isize::MAX` by the check above; valid for reads by
    // the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data, count) })
}

/// Whether `count` values may lie at `data`, of which at least one is wanted.
fn check<T>(data: *const T, count: usize) -> Answer {
    if data.is_null() {
        return Err(Status::TP_ERROR_NULL);
    }
    let is_too_long = count
        .checked_mul(size_of::<T>())
        .is_none_or(|n| isize::try_from(n).is_err());
    if is_too_long || !data.is_aligned() {
        return Err(Status::TP_ERROR_INVALID);
    }
    Ok(())
}

/// Whether `bytes_each` for each of `count` are to be had, where what takes them would end the process if they are not.
///
/// Asked before anything is done. Another thread may take them first: this makes such an end rare, not impossible.
pub(crate) fn affordable(count: usize, bytes_each: usize) -> Answer {
    let bytes = count.saturating_mul(bytes_each);
    if bytes < LARGE_BYTES {
        return Ok(());
    }
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes)
        .map_err(|_none| Status::TP_ERROR_MEMORY)
}

/// 1 MiB: what the header calls large, and a thousand times what asking costs.
const LARGE_BYTES: usize = 1 << 20;

/// The value at `from`.
///
/// # Safety
///
/// `from` is null or valid for a read.
pub(crate) unsafe fn one<T: Copy>(from: *const T) -> Answer<T> {
    check(from, 1)?;
    // SAFETY: not null and aligned by the check above; valid for a read by the caller's promise.
    Ok(unsafe { from.read() })
}

/// As [`slice`], for writes.
///
/// # Safety
///
/// `data` is null or valid for reads and writes of `count` values, and nothing else uses them meanwhile.
pub(crate) unsafe fn slice_mut<'a, T>(data: *mut T, count: usize) -> Answer<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(data.cast_const(), count)?;
    // SAFETY: as in `slice`, and unique by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, count) })
}

/// An open descriptor of the caller's, for the length of the call.
pub(crate) fn descriptor(fd: &i32) -> Answer<BorrowedFd<'_>> {
    if *fd < 0 {
        return Err(Status::TP_ERROR_INVALID);
    }
    // SAFETY: not -1 by the check above. A number that is not open makes calls fail with EBADF; one that is
    // closed meanwhile makes them meet another file, as with every function that takes a descriptor.
    Ok(unsafe { BorrowedFd::borrow_raw(*fd) })
}

/// A path given as a C string.
///
/// # Safety
///
/// `text` is null or a C string.
pub(crate) unsafe fn path<'a>(text: *const std::ffi::c_char) -> Answer<&'a std::path::Path> {
    use std::os::unix::ffi::OsStrExt as _;
    if text.is_null() {
        return Err(Status::TP_ERROR_NULL);
    }
    // SAFETY: not null by the check above, a C string by the caller's promise.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    Ok(std::path::Path::new(std::ffi::OsStr::from_bytes(
        text.to_bytes(),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing;
    impl Opaque for Thing {
        type Value = String;
        const MARK: u64 = 7;
    }

    struct Other;
    impl Opaque for Other {
        type Value = String;
        const MARK: u64 = 8;
    }

    #[test]
    fn a_panic_becomes_a_status() {
        let status = guard(|| panic!("a defect"));
        assert_eq!(status, Status::TP_ERROR_DEFECT);
    }

    #[test]
    fn a_handle_of_another_kind_is_refused_and_stays_usable() {
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is valid for a write.
        unsafe { give::<Thing>(&raw mut handle, "it".to_owned()) }.unwrap();
        // SAFETY: a live handle, of the wrong kind on purpose.
        let wrong = unsafe { take(handle.cast::<Other>()) };
        assert_eq!(wrong.err(), Some(Status::TP_ERROR_HANDLE));
        // SAFETY: a live handle of its own kind.
        let right = unsafe { borrow(handle) };
        assert!(right.is_ok());
        // SAFETY: a live handle that nobody uses afterwards.
        let taken = unsafe { take(handle) };
        assert!(taken.is_ok_and(|value| value.is_some()));
    }

    /// Before its kind is known, a handle may be looked at where every kind has its mark, and nowhere else.
    #[test]
    fn each_kind_of_handle_has_its_own_mark_and_has_it_first() {
        let mut marks = std::collections::BTreeSet::new();
        macro_rules! kinds {
            ($($kind:path),+) => {$(
                assert_eq!(std::mem::offset_of!(Block<<$kind as Opaque>::Value>, mark), 0);
                assert!(marks.insert(mark::<$kind>()), stringify!($kind));
            )+};
        }
        kinds!(
            crate::tp_blob,
            crate::tp_buffer,
            crate::tp_cache,
            crate::tp_pool,
            crate::tp_provider,
            crate::tp_sync,
            crate::tp_transfer,
            crate::tp_view
        );
        assert!(!marks.contains(&FREED) && !marks.contains(&0));
    }

    #[test]
    fn null_and_lengths_that_cannot_be_are_refused() {
        // SAFETY: null pointers and absurd lengths, which the functions refuse before any access.
        let null = unsafe { slice(std::ptr::null::<u64>(), 3) };
        assert_eq!(null.err(), Some(Status::TP_ERROR_NULL));
        let here = 1_u64;
        // SAFETY: as above.
        let long = unsafe { slice(&raw const here, usize::MAX) };
        assert_eq!(long.err(), Some(Status::TP_ERROR_INVALID));
        // SAFETY: no values are read.
        let none = unsafe { slice(std::ptr::null::<u64>(), 0) };
        assert_eq!(none, Ok(&[][..]));
    }
}
