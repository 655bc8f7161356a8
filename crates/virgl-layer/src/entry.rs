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
    let number = handle.cast_unsigned();
    // A second list would be refused by the library; ours for the first must stay.
    let is_new = wall(|_state| table::with(|table| !table.knows(number))).unwrap_or(false);
    let ours = if is_new {
        wall(|state| {
            // SAFETY: the program hands `count` entries at `list` to the library.
            table::with(|table| unsafe { table.attaching(state, number, list, count) })?
        })
    } else {
        None
    };
    let (list, count) = ours.unwrap_or((list, count));
    // SAFETY: the program's list, or ours with the same bytes in the same order.
    let answer = unsafe { attach(handle, list, count) };
    if answer != 0 && is_new {
        wall(|_state| table::with(|table| table.forget(number)));
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
    let shape = Strides {
        level: level.cast_unsigned(),
        stride,
        layer_stride,
        offset,
    };
    // SAFETY: the box is the program's; a transfer with a list of its own is left alone.
    let around = unsafe { Around::begin(Site::Write, handle, extent, list, &shape) };
    // SAFETY: the program's arguments, unchanged.
    let answer = unsafe {
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
    around.end(answer);
    answer
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
    let shape = Strides {
        level,
        stride,
        layer_stride,
        offset,
    };
    // SAFETY: as in `virgl_renderer_transfer_write_iov`.
    let around = unsafe { Around::begin(Site::Read, handle, extent, list, &shape) };
    // SAFETY: the program's arguments, unchanged.
    let answer = unsafe {
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
    around.end(answer);
    answer
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
    wall(|state| {
        let len = usize::try_from(words).ok()?;
        let is_words = !buffer.is_null() && buffer.cast::<u32>().is_aligned();
        if !is_words {
            return None;
        }
        // SAFETY: the program hands `words` words at `buffer` to the library.
        let stream = unsafe { std::slice::from_raw_parts(buffer.cast::<u32>(), len) };
        let real = real::get();
        for transfer in stream::transfers(stream) {
            let seen = table::with_patience(|table| match &transfer {
                Transfer::Own { resource, request } => {
                    table.before(state, real, *resource, request)
                }
                Transfer::Other { resource } => {
                    table.keep_away(real, *resource);
                    None
                }
            });
            // How long each transfer takes inside the stream cannot be seen.
            if let Some(seen) = seen.flatten() {
                record(state, Site::Submit, &seen, Nanos::ZERO, Nanos::ZERO);
            }
        }
        Some(())
    });
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

/// What happens around a transfer.
struct Around {
    site: Site,
    handle: u32,
    start: Nanos,
    seen: Option<Seen>,
}

impl Around {
    /// # Safety
    ///
    /// `extent` is null or a box.
    unsafe fn begin(
        site: Site,
        handle: u32,
        extent: *const Extent,
        list: *const iovec,
        shape: &Strides,
    ) -> Self {
        let mut around = Self {
            site,
            handle,
            start: Nanos::ZERO,
            seen: None,
        };
        if extent.is_null() || !list.is_null() || !table::may_watch(handle) {
            return around;
        }
        around.seen = wall(|state| {
            let is_recorded = state.ledger().is_some();
            if is_recorded {
                around.start = MonotonicClock.now();
            }
            // SAFETY: the caller's promise.
            let extent = unsafe { extent.read() };
            let request = request(site, &extent, shape);
            let mut seen =
                table::with_patience(|table| table.before(state, real::get(), handle, &request))??;
            if seen.is_timed && !is_recorded {
                around.start = MonotonicClock.now();
            }
            seen.is_timed |= is_recorded;
            Some(seen)
        });
        around
    }

    fn end(self, answer: c_int) {
        let Some(mut seen) = self.seen.filter(|seen| seen.is_timed) else {
            return;
        };
        wall(|state| {
            let wall = MonotonicClock.now().saturating_sub(self.start);
            if answer == 0 {
                let real = real::get();
                table::with(|table| table.after(state, real, self.handle, seen.bytes, wall));
            } else {
                seen.outcome = Outcome::CallFailed;
                seen.saving = Nanos::ZERO;
            }
            record(state, self.site, &seen, self.start, wall);
            Some(())
        });
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
