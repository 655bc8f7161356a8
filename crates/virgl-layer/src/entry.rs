//! The exported functions: each passes its call on exactly once and keeps our own work behind a wall.

#![expect(unsafe_code, reason = "exported functions with the program's pointers")]

use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::iovec;
use towpath_ledger::{Call, Outcome};
use towpath_measure::{Clock as _, MonotonicClock, Nanos, SignedNanos};
use towpath_transfer::textures::{Direction, Region, Request};

use crate::real::{self, CreateArgs, Extent};
use crate::state::{self, Site, State};
use crate::stream::{self, Transfer};
use crate::table::{self, Seen};
use crate::watch;

/// Runs work of ours; a panic in it is counted and forgotten.
fn wall<T>(body: impl FnOnce(&State) -> Option<T>) -> Option<T> {
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
    // A list given here is none that we have seen attached: such a texture is left alone.
    if answer == 0 && !args.is_null() && list.is_null() {
        wall(|state| {
            // SAFETY: the library has just read the same structure.
            let args = unsafe { args.read() };
            table::with(|table| table.created(state, &args))
        });
    }
    answer
}

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
pub(crate) unsafe extern "C" fn virgl_renderer_transfer_write_iov(
    handle: u32,
    context: u32,
    level: c_int,
    stride: u32,
    layer_stride: u32,
    extent: *mut Extent,
    offset: u64,
    list: *mut iovec,
    count: c_uint,
) -> c_int {
    let Some(write) = real::get().write else {
        return libc::ENOSYS;
    };
    // SAFETY: the program's arguments, unchanged.
    let pass_on = || unsafe {
        write(
            handle,
            context,
            level,
            stride,
            layer_stride,
            extent,
            offset,
            list,
            count,
        )
    };
    // SAFETY: the box is the program's.
    if !unsafe { must_look(handle, extent, list) } {
        return pass_on();
    }
    let shape = Strides {
        level: level.cast_unsigned(),
        stride,
        layer_stride,
        offset,
    };
    // SAFETY: as above.
    unsafe { looked_at(Site::Write, handle, extent, &shape, pass_on) }
}

/// # Safety
///
/// As the library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn virgl_renderer_transfer_read_iov(
    handle: u32,
    context: u32,
    level: u32,
    stride: u32,
    layer_stride: u32,
    extent: *mut Extent,
    offset: u64,
    list: *mut iovec,
    count: c_int,
) -> c_int {
    let Some(read) = real::get().read else {
        return libc::ENOSYS;
    };
    // SAFETY: the program's arguments, unchanged.
    let pass_on = || unsafe {
        read(
            handle,
            context,
            level,
            stride,
            layer_stride,
            extent,
            offset,
            list,
            count,
        )
    };
    // SAFETY: as in `virgl_renderer_transfer_write_iov`.
    if !unsafe { must_look(handle, extent, list) } {
        return pass_on();
    }
    let shape = Strides {
        level,
        stride,
        layer_stride,
        offset,
    };
    // SAFETY: as above.
    unsafe { looked_at(Site::Read, handle, extent, &shape, pass_on) }
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

/// The numbers of a transfer beside its box.
struct Strides {
    level: u32,
    stride: u32,
    layer_stride: u32,
    offset: u64,
}

/// Whether a transfer of the attached list must be looked at before it is passed on.
///
/// # Safety
///
/// `extent` is null or a box.
#[inline]
unsafe fn must_look(handle: u32, extent: *const Extent, list: *const iovec) -> bool {
    // A transfer with a list of its own is left alone.
    if !watch::may_watch(handle) || extent.is_null() || !list.is_null() {
        return false;
    }
    // SAFETY: the caller's promise; the library reads the same box.
    watch::must_look(handle, unsafe { &*extent })
}

/// Passes a transfer on after a look, and takes its time if that is wanted.
///
/// # Safety
///
/// `extent` is a box.
#[cold]
#[inline(never)]
unsafe fn looked_at(
    site: Site,
    handle: u32,
    extent: *const Extent,
    shape: &Strides,
    pass_on: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let request = request(site, unsafe { &*extent }, shape);
    let real = real::get();
    // With a ledger the program sees our own time too, so it is counted.
    let recorded_from = state::get().ledger().map(|_| MonotonicClock.now());
    let seen = wall(|state| {
        table::with_patience(|table| table.before(state, real, (handle, &request), true)).flatten()
    });
    let timed = seen.filter(|seen| seen.is_timed || recorded_from.is_some());
    let Some(mut seen) = timed else {
        return pass_on();
    };
    let start = recorded_from.unwrap_or_else(|| MonotonicClock.now());
    let answer = pass_on();
    wall(|state| {
        let wall = MonotonicClock.now().saturating_sub(start);
        if answer != 0 {
            seen.outcome = Outcome::CallFailed;
            seen.saving = Nanos::ZERO;
        } else if seen.is_timed {
            table::with(|table| table.after(state, real, handle, seen.bytes, wall));
        }
        record(state, site, &seen, start, wall);
        Some(())
    });
    answer
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

fn request(site: Site, extent: &Extent, shape: &Strides) -> Request {
    Request {
        level: shape.level,
        region: Region {
            x: extent.x,
            y: extent.y,
            z: extent.z,
            width: extent.w,
            height: extent.h,
            depth: extent.d,
        },
        offset: shape.offset,
        stride: u64::from(shape.stride),
        layer_stride: u64::from(shape.layer_stride),
        direction: match site {
            Site::Read => Direction::Download,
            Site::Write | Site::Submit => Direction::Upload,
        },
    }
}

fn record(state: &State, site: Site, seen: &Seen, start: Nanos, wall: Nanos) {
    let Some((ledger, site)) = state.ledger().zip(state.site(site)) else {
        return;
    };
    ledger.record(
        site,
        &Call {
            start,
            bytes: seen.bytes,
            wall,
            cold_bytes: Call::COLD_UNKNOWN,
            saved: SignedNanos::difference(seen.saving, Nanos::ZERO),
            outcome: seen.outcome,
            ..Call::default()
        },
    );
}
