//! The exported functions. Each passes on what is not ours.
#![expect(
    unsafe_code,
    reason = "functions of the C library, exported under their names"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};

use towpath_ledger::Counter;
use towpath_sync::kernel::Code;

use crate::observe::{self, Seen};
use crate::real::{self, errno, fail, set_errno};
use crate::state::{Emulated, State, inside};

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

/// What an emulated path gives: the descriptor, or -1.
fn opened(answer: Result<OwnedFd, Code>, flags: c_int) -> c_int {
    match answer {
        Ok(fd) => {
            if flags & libc::O_CLOEXEC == 0 {
                // SAFETY: a descriptor made just now.
                let _cleared = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) };
            }
            fd.into_raw_fd()
        }
        Err(code) => fail(code),
    }
}

/// Opens an emulated path; `None` for every other.
unsafe fn emulated_open(path: *const c_char, flags: c_int) -> Option<c_int> {
    if path.is_null() {
        return None;
    }
    let answer = inside(|state| {
        let emulated: &Emulated = state.emulated.as_ref()?;
        // SAFETY: the program passed a string to open.
        let path = unsafe { CStr::from_ptr(path) };
        emulated.open(path)
    });
    answer.flatten().map(|answer| opened(answer, flags))
}

macro_rules! opens {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
                // SAFETY: the program's arguments.
                if let Some(fd) = unsafe { emulated_open(path, flags) } {
                    return fd;
                }
                match real::$name() {
                    // SAFETY: the program's arguments, unchanged.
                    Some(next) => unsafe { next(path, flags, mode) },
                    None => fail(libc::ENOSYS),
                }
            }
        )*
    };
}

opens! {
    /// `open`: an emulated path gives an emulated descriptor.
    open;
    /// `open64`: as [`open`].
    open64;
}

macro_rules! opens_at {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                folder: c_int,
                path: *const c_char,
                flags: c_int,
                mode: c_uint,
            ) -> c_int {
                // SAFETY: the program's arguments; emulated paths are absolute.
                if let Some(fd) = unsafe { emulated_open(path, flags) } {
                    return fd;
                }
                match real::$name() {
                    // SAFETY: the program's arguments, unchanged.
                    Some(next) => unsafe { next(folder, path, flags, mode) },
                    None => fail(libc::ENOSYS),
                }
            }
        )*
    };
}

opens_at! {
    /// `openat`: as [`open`].
    openat;
    /// `openat64`: as [`open`].
    openat64;
}

/// `close`: fences of a software timeline end with its last descriptor.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn close(fd: c_int) -> c_int {
    let Some(next) = real::close() else {
        return fail(libc::ENOSYS);
    };
    // SAFETY: the program's argument.
    let answer = unsafe { next(fd) };
    let code = errno();
    let _quiet = inside(|state| {
        if let Some(emulated) = &state.emulated {
            emulated.closed();
        }
    });
    set_errno(code);
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
