//! The exported functions. Each passes on what is not ours.
#![expect(
    unsafe_code,
    reason = "functions of the C library, exported under their names"
)]

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use towpath_ledger::Counter;

use crate::observe::{self, Seen};
use crate::real::{self, errno, fail, set_errno};
use crate::state::{State, inside};

mod closing;
mod looking;
mod opening;

/// `ioctl`: sync requests are timed and, where the descriptor is an emulated one, answered.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // The kernel looks at 32 bits.
    let number = u32::try_from(request & 0xffff_ffff).unwrap_or(0);
    // DRM, sync files, software timelines; everything else is none of ours.
    if matches!((number >> 8) & 0xff, 0x64 | 0x3e | 0x57) {
        // SAFETY: the program's arguments.
        let answer = inside(|state| unsafe { watched(state, fd, number, request, argument) });
        if let Some(answer) = answer {
            return answer;
        }
    }
    // SAFETY: the program's arguments, unchanged.
    unsafe { next_ioctl(fd, request, argument) }
}

unsafe fn next_ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    match real::ioctl() {
        // SAFETY: the caller's arguments.
        Some(next) => unsafe { next(fd, request, argument) },
        None => fail(libc::ENOSYS),
    }
}

unsafe fn watched(
    state: &State,
    fd: c_int,
    number: u32,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    let observed = state.ledger.as_ref().zip(observe::name(number));
    let start = observed.map(|_| observe::now());
    let emulated = state.emulated.as_ref().and_then(|emulated| {
        // SAFETY: the program's request.
        unsafe { emulated.serve(fd, number, argument.expose_provenance() as u64) }
    });
    let answer = match emulated {
        Some(Ok(())) => 0,
        Some(Err(code)) => fail(code),
        // SAFETY: the program's arguments, unchanged.
        None => unsafe { next_ioctl(fd, request, argument) },
    };
    if answer == 0
        && let Some(ledger) = &state.ledger
        // SAFETY: the request succeeded with this argument.
        && unsafe { observe::is_frame(number, argument) }
    {
        ledger.count(Counter::Frames, 1);
    }
    if let (Some((ledger, name)), Some(start)) = (observed, start) {
        let code = if answer < 0 { errno() } else { 0 };
        let seen = Seen {
            fd,
            request: number,
            name,
            argument,
            start,
            code,
        };
        // SAFETY: the request has returned.
        unsafe { observe::record(ledger, &seen) };
        if answer < 0 {
            set_errno(code);
        }
    }
    answer
}

/// `eventfd`: counted.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eventfd(initial: c_uint, flags: c_int) -> c_int {
    let Some(next) = real::eventfd() else {
        return fail(libc::ENOSYS);
    };
    // SAFETY: the program's arguments.
    let answer = unsafe { next(initial, flags) };
    let code = errno();
    let _counted = inside(|state| {
        if let Some(ledger) = &state.ledger {
            ledger.count(Counter::EventfdsMade, 1);
        }
    });
    set_errno(code);
    answer
}
