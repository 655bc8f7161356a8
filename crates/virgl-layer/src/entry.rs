//! The exported functions: each passes its call on exactly once and keeps our own work behind a wall.

#![expect(unsafe_code, reason = "exported functions with the program's pointers")]

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::iovec;
use towpath_measure::Nanos;

use crate::real::{self, CreateArgs, Extent};
use crate::state::{self, Site, State};
use crate::stream::{self, Transfer};
use crate::table;
use crate::transfer::record;
use crate::watch;

/// Runs work of ours; a panic in it is counted and forgotten.
pub(crate) fn wall<T>(body: impl FnOnce(&State) -> Option<T>) -> Option<T> {
    let answer = catch_unwind(AssertUnwindSafe(|| {
        let state = state::get();
        if state.is_needed() { body(state) } else { None }
    }));
    answer.unwrap_or_else(|_panic| {
        state::get().panicked();
        None
    })
}

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_resource_create(
    args: *mut CreateArgs,
    list: *mut iovec,
    count: u32,
) -> c_int {
    let Some(create) = real::get().create else {
        return libc::ENOSYS;
    };
    // SAFETY: the program's arguments, unchanged.
    let answer = unsafe { create(args, list, count) };
    if answer == 0 && !args.is_null() {
        // SAFETY: the library has just read the same structure.
        let args = unsafe { args.read() };
        made(args.handle);
        // A list given here is none that we have seen attached: such a texture is left alone.
        if list.is_null() {
            wall(|state| table::with(|table| table.created(state, &args)));
        }
    }
    answer
}

/// The library lets a number be used again for something new while the old is there, which ends.
fn made(handle: u32) {
    wall(|state| table::with_patience(|table| table.ended(state, handle)));
}

/// Exports a function that makes a resource of a kind that is left alone; its number stands first in `args`.
macro_rules! makes_another_kind {
    ($name:ident, $real:ident, ($($argument:ident: $type:ty),*)) => {
        /// # Safety
        ///
        /// As the library's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(args: *const u32, $($argument: $type),*) -> c_int {
            let Some(real) = real::get().$real else {
                return libc::ENOSYS;
            };
            // SAFETY: the program's arguments, unchanged.
            let answer = unsafe { real(args, $($argument),*) };
            if answer == 0 && !args.is_null() {
                // SAFETY: the library has just read the same structure.
                made(unsafe { args.read() });
            }
            answer
        }
    };
}

makes_another_kind!(virgl_renderer_resource_create_blob, create_blob, ());
makes_another_kind!(virgl_renderer_resource_import_blob, import_blob, ());
makes_another_kind!(virgl_renderer_resource_import_eglimage, import_image, (image: *mut c_void));

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_resource_unref(handle: u32) {
    if let Some(unref) = real::get().unref {
        // SAFETY: the program's argument.
        unsafe { unref(handle) };
    }
    // After the library: it may still look at the list that it holds.
    wall(|state| table::with_patience(|table| table.ended(state, handle)));
}

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_resource_attach_iov(
    handle: c_int,
    list: *mut iovec,
    count: c_int,
) -> c_int {
    let Some(attach) = real::get().attach else {
        return libc::ENOSYS;
    };
    // SAFETY: the program's list.
    let answer = unsafe { attach(handle, list, count) };
    if answer == 0 {
        wall(|state| {
            let number = handle.cast_unsigned();
            // SAFETY: the library has just taken the `count` entries at `list`, until they are detached.
            table::with(|table| unsafe { table.attached(state, number, list, count) })
        });
    }
    answer
}

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_resource_detach_iov(
    handle: c_int,
    list: *mut *mut iovec,
    count: *mut c_int,
) {
    if let Some(detach) = real::get().detach {
        // SAFETY: the program's arguments.
        unsafe { detach(handle, list, count) };
    }
    let number = handle.cast_unsigned();
    let theirs = wall(|state| table::with_patience(|table| table.detached(state, number))?);
    let Some((their_list, their_count)) = theirs else {
        return;
    };
    if !list.is_null() {
        // SAFETY: the library has just written to the same place.
        unsafe { list.write(their_list) };
    }
    if !count.is_null() {
        // SAFETY: as above.
        unsafe { count.write(their_count) };
    }
}

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_submit_cmd(
    buffer: *mut c_void,
    context: c_int,
    words: c_int,
) -> c_int {
    if let Some(submit) = real::known().and_then(|real| real.submit)
        && !watch::any()
    {
        // SAFETY: the program's arguments, unchanged.
        return unsafe { submit(buffer, context, words) };
    }
    // SAFETY: as above.
    unsafe { submit_with_a_look(buffer, context, words) }
}

/// # Safety
///
/// As the library's.
#[cold]
#[inline(never)]
unsafe extern "C" fn submit_with_a_look(
    buffer: *mut c_void,
    context: c_int,
    words: c_int,
) -> c_int {
    let Some(submit) = real::get().submit else {
        return libc::ENOSYS;
    };
    if watch::any() {
        wall(|state| {
            let len = usize::try_from(words).ok()?;
            let is_words = !buffer.is_null() && buffer.cast::<u32>().is_aligned();
            if !is_words {
                return None;
            }
            // SAFETY: the program hands `words` words at `buffer` to the library.
            let stream = unsafe { std::slice::from_raw_parts(buffer.cast::<u32>(), len) };
            for transfer in stream::transfers(stream) {
                in_stream(state, &transfer);
            }
            Some(())
        });
    }
    // SAFETY: the program's arguments, unchanged.
    unsafe { submit(buffer, context, words) }
}

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_reset() {
    if let Some(reset) = real::get().reset {
        // SAFETY: no argument.
        unsafe { reset() };
    }
    wall(|_state| table::with_patience(table::Table::ended_all));
}

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_cleanup(cookie: *mut c_void) {
    if let Some(cleanup) = real::get().cleanup {
        // SAFETY: the program's argument.
        unsafe { cleanup(cookie) };
    }
    wall(|_state| table::with_patience(table::Table::ended_all));
}

/// A use of a resource's pieces while the library executes a stream. How long it takes cannot be seen.
fn in_stream(state: &State, transfer: &Transfer) {
    let real = real::get();
    let seen = match transfer {
        Transfer::Own { resource, request } => {
            let region = &request.region;
            let extent = Extent {
                x: region.x,
                y: region.y,
                z: region.z,
                w: region.width,
                h: region.height,
                d: region.depth,
            };
            if !watch::must_look(*resource, &extent) {
                return;
            }
            table::with_patience(|table| table.before(state, real, (*resource, request), false))
                .flatten()
        }
        Transfer::Other { resource } => {
            if watch::may_watch(*resource) {
                table::with_patience(|table| table.keep_away(real, *resource));
            }
            None
        }
    };
    if let Some(seen) = seen {
        record(state, Site::Submit, &seen, Nanos::ZERO, Nanos::ZERO);
    }
}
