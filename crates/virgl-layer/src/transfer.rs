//! The transfers of an attached list: passed on by a jump, unless something may be gained.

#![expect(unsafe_code, reason = "exported functions with the program's pointers")]

use std::ffi::{c_int, c_uint};

use libc::iovec;
use towpath_ledger::{Call, Outcome};
use towpath_measure::{Clock as _, MonotonicClock, Nanos, SignedNanos};
use towpath_transfer::textures::{Direction, Region, Request};

use crate::entry::wall;
use crate::real::{self, Extent};
use crate::state::{self, Site, State};
use crate::table::{self, Seen};
use crate::watch;

/// A transfer function and what it jumps to: one load tells whether the resource is watched at all, a second
/// function counts, a third looks. Each ends in one call with the arguments as they came: a jump, and the first saves no
/// register.
macro_rules! transfer {
    ($name:ident, $counted:ident, $looked:ident, $real:ident, $site:expr, $level:ty, $number:expr, $count:ty) => {
        /// # Safety
        ///
        /// As the library's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            handle: u32,
            context: u32,
            level: $level,
            stride: u32,
            layer_stride: u32,
            extent: *mut Extent,
            offset: u64,
            list: *mut iovec,
            count: $count,
        ) -> c_int {
            let next = if watch::may_watch(handle) {
                None
            } else {
                real::known().and_then(|real| real.$real)
            };
            let next = next.unwrap_or($counted);
            // SAFETY: the program's arguments, unchanged.
            unsafe {
                next(
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
            }
        }

        /// # Safety
        ///
        /// As the library's.
        #[inline(never)]
        unsafe extern "C" fn $counted(
            handle: u32,
            context: u32,
            level: $level,
            stride: u32,
            layer_stride: u32,
            extent: *mut Extent,
            offset: u64,
            list: *mut iovec,
            count: $count,
        ) -> c_int {
            // SAFETY: the box is the program's; the library reads the same.
            let must_look = unsafe { must_look(handle, extent, list) };
            let next = if must_look {
                None
            } else {
                real::known().and_then(|real| real.$real)
            };
            let next = next.unwrap_or($looked);
            // SAFETY: the program's arguments, unchanged.
            unsafe {
                next(
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
            }
        }

        /// # Safety
        ///
        /// As the library's.
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn $looked(
            handle: u32,
            context: u32,
            level: $level,
            stride: u32,
            layer_stride: u32,
            extent: *mut Extent,
            offset: u64,
            list: *mut iovec,
            count: $count,
        ) -> c_int {
            let Some(next) = real::get().$real else {
                return libc::ENOSYS;
            };
            // SAFETY: the program's arguments, unchanged.
            let pass_on = || unsafe {
                next(
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
            let strides = Strides {
                level: $number(level),
                stride,
                layer_stride,
                offset,
            };
            // SAFETY: the box is the program's.
            unsafe { looked_at($site, handle, (extent, list), &strides, pass_on) }
        }
    };
}

transfer!(
    virgl_renderer_transfer_write_iov,
    counted_write,
    looked_at_write,
    write,
    Site::Write,
    c_int,
    c_int::cast_unsigned,
    c_uint
);
transfer!(
    virgl_renderer_transfer_read_iov,
    counted_read,
    looked_at_read,
    read,
    Site::Read,
    u32,
    std::convert::identity,
    c_int
);

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
    if extent.is_null() || !list.is_null() {
        return false;
    }
    // SAFETY: the caller's promise; the library reads the same box.
    watch::must_look(handle, unsafe { &*extent })
}

/// Passes a transfer on after a look, and takes its time if that is wanted.
///
/// # Safety
///
/// `extent` is null or a box.
unsafe fn looked_at(
    site: Site,
    handle: u32,
    (extent, list): (*const Extent, *const iovec),
    shape: &Strides,
    pass_on: impl FnOnce() -> c_int,
) -> c_int {
    // Also the first call of all comes here.
    if extent.is_null() || !list.is_null() || !watch::may_watch(handle) {
        return pass_on();
    }
    // SAFETY: the caller's promise, and not null.
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

/// Notes a transfer in the ledger, if there is one.
pub(crate) fn record(state: &State, site: Site, seen: &Seen, start: Nanos, wall: Nanos) {
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
