//! The operations of Mesa's sync provider as a C table, over any provider of ours.
//!
//! The shape is that of `struct util_sync_provider` (Mesa, `src/util/u_sync_provider.h`, 2024): the
//! table is the object, its functions take it as their first argument and return zero or a negative
//! error code. `finalize` frees it; `clone` gives another table on the same handles.
//!
//! Arrays and results are read and written through the caller's pointers, which C promises to be
//! valid, as for Mesa's own provider.
#![expect(unsafe_code, reason = "a C interface")]

use std::ffi::{c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use towpath_sys::drm::{
    FD_SYNC_FILE, Layout, SyncobjCreate, SyncobjDestroy, SyncobjFdToHandle, SyncobjHandleToFd,
    SyncobjQuery, SyncobjReset, SyncobjSignal, SyncobjTimelineSignal, SyncobjTimelineWait,
    SyncobjTransfer, SyncobjWait, bytes_mut,
};

use crate::kernel::{Client, Device};
use crate::provider::Provider;

/// `struct util_sync_provider`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(
    missing_docs,
    reason = "the names are Mesa's, the meaning is the request's of that name"
)]
pub struct SyncProvider {
    pub create: unsafe extern "C" fn(*mut Self, u32, *mut u32) -> c_int,
    pub destroy: unsafe extern "C" fn(*mut Self, u32) -> c_int,
    pub handle_to_fd: unsafe extern "C" fn(*mut Self, u32, *mut c_int) -> c_int,
    pub fd_to_handle: unsafe extern "C" fn(*mut Self, c_int, *mut u32) -> c_int,
    pub import_sync_file: unsafe extern "C" fn(*mut Self, u32, c_int) -> c_int,
    pub export_sync_file: unsafe extern "C" fn(*mut Self, u32, *mut c_int) -> c_int,
    pub wait: unsafe extern "C" fn(*mut Self, *mut u32, c_uint, i64, c_uint, *mut u32) -> c_int,
    pub reset: unsafe extern "C" fn(*mut Self, *const u32, u32) -> c_int,
    pub signal: unsafe extern "C" fn(*mut Self, *const u32, u32) -> c_int,
    pub timeline_signal: unsafe extern "C" fn(*mut Self, *const u32, *mut u64, u32) -> c_int,
    pub timeline_wait:
        unsafe extern "C" fn(*mut Self, *mut u32, *mut u64, c_uint, i64, c_uint, *mut u32) -> c_int,
    pub query: unsafe extern "C" fn(*mut Self, *mut u32, *mut u64, u32, u32) -> c_int,
    pub transfer: unsafe extern "C" fn(*mut Self, u32, u64, u32, u64, u32) -> c_int,
    pub finalize: unsafe extern "C" fn(*mut Self),
    pub clone: unsafe extern "C" fn(*mut Self) -> *mut Self,
}

const _: () = assert!(size_of::<SyncProvider>() == 15 * size_of::<usize>());

/// The table and what it works on; C sees the first field.
#[repr(C)]
struct Table<P: Provider> {
    provider: SyncProvider,
    client: Arc<Client<P>>,
}

/// Makes a table on a device. C ends it with `finalize`.
#[must_use]
pub fn new<P: Provider>(device: Arc<Device<P>>) -> *mut SyncProvider {
    table(Arc::new(Client::open(device)))
}

fn table<P: Provider>(client: Arc<Client<P>>) -> *mut SyncProvider {
    let provider = SyncProvider {
        create: create::<P>,
        destroy: destroy::<P>,
        handle_to_fd: handle_to_fd::<P>,
        fd_to_handle: fd_to_handle::<P>,
        import_sync_file: import_sync_file::<P>,
        export_sync_file: export_sync_file::<P>,
        wait: wait::<P>,
        reset: reset::<P>,
        signal: signal::<P>,
        timeline_signal: timeline_signal::<P>,
        timeline_wait: timeline_wait::<P>,
        query: query::<P>,
        transfer: transfer::<P>,
        finalize: finalize::<P>,
        clone: clone::<P>,
    };
    Box::into_raw(Box::new(Table { provider, client })).cast()
}

/// Runs a request of a table; a panic of ours becomes `EIO`.
///
/// # Safety
///
/// `this` is null or a table of [`table`] for `P`; addresses in the struct are valid.
unsafe fn request<P: Provider, T: Layout>(this: *mut SyncProvider, argument: &mut T) -> c_int {
    // SAFETY: the caller's promise: C passes the pointer that `table` made, whose whole is a `Table`.
    let Some(table) = (unsafe { this.cast::<Table<P>>().as_ref() }) else {
        return -libc::EINVAL;
    };
    let bytes = bytes_mut(argument);
    let answer = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise.
        unsafe { table.client.ioctl(T::REQUEST, bytes) }
    }));
    match answer {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => -code,
        Err(_panic) => -libc::EIO,
    }
}

/// Puts a result where C wants it.
///
/// # Safety
///
/// `target` is null or valid for a write.
unsafe fn put<T>(answer: c_int, target: *mut T, value: T) -> c_int {
    if answer == 0 && !target.is_null() {
        // SAFETY: the caller's promise.
        unsafe { target.write(value) };
    }
    answer
}

macro_rules! operations {
    ($($name:ident($this:ident $(, $argument:ident: $type:ty)*) $body:block)*) => {
        $(unsafe extern "C" fn $name<P: Provider>(
            $this: *mut SyncProvider
            $(, $argument: $type)*
        ) -> c_int $body)*
    };
}

fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

operations! {
    create(this, flags: u32, handle: *mut u32) {
        let mut argument = SyncobjCreate { handle: 0, flags };
        // SAFETY: C's promise; no address in the struct.
        let answer = unsafe { request::<P, _>(this, &mut argument) };
        // SAFETY: C's promise.
        unsafe { put(answer, handle, argument.handle) }
    }
    destroy(this, handle: u32) {
        // SAFETY: C's promise; no address in the struct.
        unsafe { request::<P, _>(this, &mut SyncobjDestroy { handle, pad: 0 }) }
    }
    handle_to_fd(this, handle: u32, fd: *mut c_int) {
        let mut argument = SyncobjHandleToFd { handle, fd: -1, ..SyncobjHandleToFd::default() };
        // SAFETY: C's promise; no address in the struct.
        let answer = unsafe { request::<P, _>(this, &mut argument) };
        // SAFETY: C's promise.
        unsafe { put(answer, fd, argument.fd) }
    }
    fd_to_handle(this, fd: c_int, handle: *mut u32) {
        let mut argument = SyncobjFdToHandle { fd, ..SyncobjFdToHandle::default() };
        // SAFETY: C's promise; no address in the struct.
        let answer = unsafe { request::<P, _>(this, &mut argument) };
        // SAFETY: C's promise.
        unsafe { put(answer, handle, argument.handle) }
    }
    import_sync_file(this, handle: u32, fd: c_int) {
        let flags = FD_SYNC_FILE;
        let mut argument = SyncobjFdToHandle { handle, flags, fd, ..SyncobjFdToHandle::default() };
        // SAFETY: C's promise; no address in the struct.
        unsafe { request::<P, _>(this, &mut argument) }
    }
    export_sync_file(this, handle: u32, fd: *mut c_int) {
        let flags = FD_SYNC_FILE;
        let mut argument =
            SyncobjHandleToFd { handle, flags, fd: -1, ..SyncobjHandleToFd::default() };
        // SAFETY: C's promise; no address in the struct.
        let answer = unsafe { request::<P, _>(this, &mut argument) };
        // SAFETY: C's promise.
        unsafe { put(answer, fd, argument.fd) }
    }
    wait(this, handles: *mut u32, count: c_uint, timeout: i64, flags: c_uint, first: *mut u32) {
        let mut argument = SyncobjWait {
            handles: address(handles),
            timeout_nsec: timeout,
            count_handles: count,
            flags,
            ..SyncobjWait::default()
        };
        // SAFETY: C's promise.
        let answer = unsafe { request::<P, _>(this, &mut argument) };
        // SAFETY: C's promise.
        unsafe { put(answer, first, argument.first_signaled) }
    }
    reset(this, handles: *const u32, count: u32) {
        let mut argument =
            SyncobjReset { handles: address(handles), count_handles: count, pad: 0 };
        // SAFETY: C's promise.
        unsafe { request::<P, _>(this, &mut argument) }
    }
    signal(this, handles: *const u32, count: u32) {
        let mut argument =
            SyncobjSignal { handles: address(handles), count_handles: count, pad: 0 };
        // SAFETY: C's promise.
        unsafe { request::<P, _>(this, &mut argument) }
    }
    timeline_signal(this, handles: *const u32, points: *mut u64, count: u32) {
        let mut argument = SyncobjTimelineSignal {
            handles: address(handles),
            points: address(points),
            count_handles: count,
            flags: 0,
        };
        // SAFETY: C's promise.
        unsafe { request::<P, _>(this, &mut argument) }
    }
    timeline_wait(
        this,
        handles: *mut u32,
        points: *mut u64,
        count: c_uint,
        timeout: i64,
        flags: c_uint,
        first: *mut u32
    ) {
        let mut argument = SyncobjTimelineWait {
            handles: address(handles),
            points: address(points),
            timeout_nsec: timeout,
            count_handles: count,
            flags,
            ..SyncobjTimelineWait::default()
        };
        // SAFETY: C's promise.
        let answer = unsafe { request::<P, _>(this, &mut argument) };
        // SAFETY: C's promise.
        unsafe { put(answer, first, argument.first_signaled) }
    }
    query(this, handles: *mut u32, points: *mut u64, count: u32, flags: u32) {
        let mut argument = SyncobjQuery {
            handles: address(handles),
            points: address(points),
            count_handles: count,
            flags,
        };
        // SAFETY: C's promise.
        unsafe { request::<P, _>(this, &mut argument) }
    }
    transfer(this, dst_handle: u32, dst_point: u64, src_handle: u32, src_point: u64, flags: u32) {
        let mut argument =
            SyncobjTransfer { src_handle, dst_handle, src_point, dst_point, flags, pad: 0 };
        // SAFETY: C's promise; no address in the struct.
        unsafe { request::<P, _>(this, &mut argument) }
    }
}

unsafe extern "C" fn finalize<P: Provider>(this: *mut SyncProvider) {
    if !this.is_null() {
        // SAFETY: C gives the pointer that `table` made from a box back, once.
        drop(unsafe { Box::from_raw(this.cast::<Table<P>>()) });
    }
}

unsafe extern "C" fn clone<P: Provider>(this: *mut SyncProvider) -> *mut SyncProvider {
    // SAFETY: C's promise: null or a table of this provider.
    match unsafe { this.cast::<Table<P>>().as_ref() } {
        Some(found) => table(Arc::clone(&found.client)),
        None => std::ptr::null_mut(),
    }
}
