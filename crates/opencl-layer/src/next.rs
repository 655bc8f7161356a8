//! The functions of the layer or driver below.
#![expect(unsafe_code, reason = "reads the loader's table")]

use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, Ordering};

use opencl_sys::cl_icd::cl_icd_dispatch;

use crate::calls;

static NEXT: AtomicPtr<cl_icd_dispatch> = AtomicPtr::new(std::ptr::null_mut());

/// The table below; `None` before the loader gave one.
#[inline]
pub(crate) fn table() -> Option<&'static cl_icd_dispatch> {
    // Acquire: pairs with the release in `take`.
    let table = NEXT.load(Ordering::Acquire);
    // SAFETY: null, or the table that `take` made and never frees.
    unsafe { table.as_ref() }
}

/// Entries of the table that this layer knows.
pub(crate) const ENTRIES: usize = size_of::<cl_icd_dispatch>() / size_of::<usize>();

/// A table without functions.
pub(crate) fn empty() -> cl_icd_dispatch {
    // SAFETY: every entry is a nullable function pointer or an integer.
    unsafe { std::mem::zeroed() }
}

/// Copies the loader's table, which has `entries` entries and may be shorter than ours. False, and
/// nothing is taken, where the table is this layer's own: a list that names it twice.
///
/// # Safety
///
/// `target` is valid for `entries` pointers.
pub(crate) unsafe fn take(target: *const cl_icd_dispatch, entries: usize) -> bool {
    let mut table = Box::new(empty());
    let to: *mut cl_icd_dispatch = &raw mut *table;
    let count = entries.min(ENTRIES);
    // SAFETY: both hold `count` pointers, and the box is new, so that they are apart.
    unsafe { std::ptr::copy_nonoverlapping(target.cast::<usize>(), to.cast::<usize>(), count) };
    if calls::are_in(&table) {
        return false;
    }
    // Once per loader that loads the layer. A thread may still be in an older table, so that none is
    // freed. Release: pairs with the acquire in `table`.
    NEXT.store(Box::into_raw(table), Ordering::Release);
    true
}
