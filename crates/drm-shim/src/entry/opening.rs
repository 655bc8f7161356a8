//! Functions that open a path, also in the form that `_FORTIFY_SOURCE` calls where the flags are no
//! constant.
#![expect(
    unsafe_code,
    reason = "functions of the C library, exported under their names"
)]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};

use towpath_sync::kernel::Code;

use crate::real::{self, fail};
use crate::state::{Emulated, inside};

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

macro_rules! fortified {
    ($($(#[doc = $doc:literal])+ $name:ident($($folder:ident)?);)*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                $($folder: c_int,)?
                path: *const c_char,
                flags: c_int,
            ) -> c_int {
                // SAFETY: the program's arguments; emulated paths are absolute.
                if let Some(fd) = unsafe { emulated_open(path, flags) } {
                    return fd;
                }
                match real::$name() {
                    // SAFETY: the program's arguments, unchanged.
                    Some(next) => unsafe { next($($folder,)? path, flags) },
                    None => fail(libc::ENOSYS),
                }
            }
        )*
    };
}

fortified! {
    /// `__open_2`: as [`open`].
    __open_2();
    /// `__open64_2`: as [`open`].
    __open64_2();
    /// `__openat_2`: as [`open`].
    __openat_2(folder);
    /// `__openat64_2`: as [`open`].
    __openat64_2(folder);
}
