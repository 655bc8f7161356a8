//! Handles: what programs hold. Tagged by kind, so that a wrong or dead handle is refused and counted.
#![expect(
    unsafe_code,
    reason = "handles are raw pointers by OpenCL's definition"
)]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use opencl_sys::{CL_SUCCESS, cl_icd::cl_icd_dispatch, cl_int};

use crate::icd;
use crate::knobs::Count;

/// What a handle stands for.
pub(crate) trait Body: Send + Sync + 'static {
    /// Marks handles of this kind.
    const TAG: u32;
    /// The error for a handle that is none.
    const INVALID: cl_int;
    /// Counts those alive.
    const LIVE: Option<Count>;
    /// Runs when the program drops its last reference.
    fn released(&self) {}
}

/// What all handles begin with; the loader reads the first field.
#[repr(C)]
struct Head {
    dispatch: &'static cl_icd_dispatch,
    tag: AtomicU32,
    references: AtomicU32,
}

#[repr(C)]
struct Handle<T> {
    head: Head,
    body: Arc<T>,
}

/// A dead handle: its head alone.
#[repr(C)]
struct Grave {
    head: Head,
    body: usize,
}

/// Makes a handle with one reference.
pub(crate) fn new<T: Body>(body: Arc<T>) -> *mut c_void {
    if let Some(live) = T::LIVE {
        live.add(1);
    }
    let head = Head {
        dispatch: icd::table(),
        tag: AtomicU32::new(T::TAG),
        references: AtomicU32::new(1),
    };
    Box::into_raw(Box::new(Handle { head, body })).cast()
}

/// What a handle stands for, or the error for a bad one.
pub(crate) fn get<T: Body>(handle: *mut c_void) -> Result<Arc<T>, cl_int> {
    borrow::<T>(handle).map(|handle| Arc::clone(&handle.body))
}

/// Adds a reference.
pub(crate) fn retain<T: Body>(handle: *mut c_void) -> cl_int {
    match borrow::<T>(handle) {
        Ok(handle) => {
            handle.head.references.fetch_add(1, Ordering::Relaxed);
            CL_SUCCESS
        }
        Err(error) => error,
    }
}

/// References now.
pub(crate) fn references<T: Body>(handle: *mut c_void) -> u32 {
    borrow::<T>(handle).map_or(0, |handle| handle.head.references.load(Ordering::Relaxed))
}

/// Drops a reference, and the handle with the last one.
pub(crate) fn release<T: Body>(handle: *mut c_void) -> cl_int {
    let found = match borrow::<T>(handle) {
        Ok(found) => found,
        Err(error) => return error,
    };
    if found.head.references.fetch_sub(1, Ordering::AcqRel) > 1 {
        return CL_SUCCESS;
    }
    found.head.tag.store(DEAD, Ordering::Relaxed);
    found.body.released();
    if let Some(live) = T::LIVE {
        live.sub(1);
    }
    // SAFETY: the tag was live and the last reference is gone; `new` made it from a box.
    let handle = unsafe { Box::from_raw(handle.cast::<Handle<T>>()) };
    bury(handle);
    CL_SUCCESS
}

const DEAD: u32 = 0xDEAD_0001;

fn borrow<'a, T: Body>(handle: *mut c_void) -> Result<&'a Handle<T>, cl_int> {
    if handle.is_null() {
        return Err(T::INVALID);
    }
    let handle = handle.cast::<Handle<T>>();
    // SAFETY: the head is the same in handles of each kind, dead ones are kept for a while, and
    // programs pass handles only.
    let head = unsafe { &*handle.cast::<Head>() };
    if head.tag.load(Ordering::Relaxed) != T::TAG {
        Count::BadHandles.add(1);
        return Err(T::INVALID);
    }
    // SAFETY: the tag says that this is a live handle of this kind.
    Ok(unsafe { &*handle })
}

/// Keeps the last dead handles, so that a late use is seen instead of read from freed memory. Their
/// bodies go at once.
fn bury<T: Body>(handle: Box<Handle<T>>) {
    static GRAVES: Mutex<VecDeque<Box<Grave>>> = Mutex::new(VecDeque::new());
    let raw = Box::into_raw(handle);
    let body = raw.wrapping_byte_add(size_of::<Head>()).cast::<Arc<T>>();
    // SAFETY: the box was ours alone, so the body may be taken out; what is left of it is a word that
    // nobody reads.
    let body = unsafe { std::ptr::read(body) };
    drop(body);
    // SAFETY: `Grave` has the layout of `Handle<T>` (asserted), and owns nothing of the body.
    let grave = unsafe { Box::from_raw(raw.cast::<Grave>()) };
    let mut graves = GRAVES.lock().unwrap_or_else(PoisonError::into_inner);
    graves.push_back(grave);
    if graves.len() > 1024 {
        graves.pop_front();
    }
}

const _: () = assert!(size_of::<Handle<()>>() == size_of::<Grave>());
const _: () = assert!(std::mem::offset_of!(Handle<()>, body) == size_of::<Head>());
