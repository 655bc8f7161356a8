//! Functions that look at a path or a descriptor: programs do before they open a node, and to see what
//! they have opened.
#![expect(
    unsafe_code,
    reason = "functions of the C library, exported under their names"
)]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem::MaybeUninit;

use crate::real::{self, errno, fail};
use crate::state::{Looked, inside};

/// What an emulated path is; `None` for every other.
unsafe fn at(path: *const c_char) -> Option<Looked> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the program passed a string.
    let path = unsafe { CStr::from_ptr(path) };
    inside(|state| state.emulated.as_ref()?.at(path)).flatten()
}

/// What an emulated descriptor is; `None` for every other.
fn of(fd: c_int) -> Option<Looked> {
    inside(|state| state.emulated.as_ref()?.of(fd)).flatten()
}

/// What is told of it.
fn told(what: Looked) -> libc::stat {
    // SAFETY: a struct of integers.
    let mut told = unsafe { MaybeUninit::<libc::stat>::zeroed().assume_init() };
    told.st_mode = what.mode();
    told.st_nlink = 1;
    told.st_rdev = what
        .device()
        .map_or(0, |(major, minor)| libc::makedev(major, minor));
    told.st_blksize = 4096;
    told
}

/// Answers of the look itself or, for a folder that may be there, after the C library found nothing.
macro_rules! or_real {
    ($looked:expr, $real:expr, $fill:expr) => {{
        let looked: Option<Looked> = $looked;
        match looked {
            Some(Looked::Folder) => {
                let answer = $real;
                if answer == 0 || errno() != libc::ENOENT {
                    return answer;
                }
                $fill(Looked::Folder)
            }
            Some(what) => $fill(what),
            None => $real,
        }
    }};
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $name:ident($($before:ident: $before_type:ty,)* @ $key:ident: $key_type:ty $(, $after:ident: $after_type:ty)*) by $look:ident;)*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                $($before: $before_type,)*
                $key: $key_type,
                answer: *mut libc::stat
                $(, $after: $after_type)*
            ) -> c_int {
                let fill = |what| {
                    // SAFETY: the program gave room for the struct.
                    unsafe { answer.write(told(what)) };
                    0
                };
                or_real!(
                    look!($look $key),
                    match real::$name() {
                        // SAFETY: the program's arguments, unchanged.
                        Some(next) => unsafe { next($($before,)* $key, answer $(, $after)*) },
                        None => fail(libc::ENOSYS),
                    },
                    fill
                )
            }
        )*
    };
}

macro_rules! look {
    (path $key:ident) => {
        // SAFETY: the program's argument.
        unsafe { at($key) }
    };
    (fd $key:ident) => {
        of($key)
    };
}

stats! {
    /// `stat`.
    stat(@ path: *const c_char) by path;
    /// `stat64`.
    stat64(@ path: *const c_char) by path;
    /// `lstat`.
    lstat(@ path: *const c_char) by path;
    /// `lstat64`.
    lstat64(@ path: *const c_char) by path;
    /// `fstatat`.
    fstatat(folder: c_int, @ path: *const c_char, flags: c_int) by path;
    /// `fstatat64`.
    fstatat64(folder: c_int, @ path: *const c_char, flags: c_int) by path;
    /// `fstat`.
    fstat(@ fd: c_int) by fd;
    /// `fstat64`.
    fstat64(@ fd: c_int) by fd;
    /// `stat` of programs that were built before glibc 2.33.
    __xstat(version: c_int, @ path: *const c_char) by path;
    /// As [`__xstat`].
    __xstat64(version: c_int, @ path: *const c_char) by path;
    /// As [`__xstat`], for `fstat`.
    __fxstat(version: c_int, @ fd: c_int) by fd;
    /// As [`__fxstat`].
    __fxstat64(version: c_int, @ fd: c_int) by fd;
}

/// `statx`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    answer: *mut libc::statx,
) -> c_int {
    let fill = |what: Looked| {
        // SAFETY: a struct of integers.
        let mut told = unsafe { MaybeUninit::<libc::statx>::zeroed().assume_init() };
        told.stx_mask = libc::STATX_BASIC_STATS;
        told.stx_mode = u16::try_from(what.mode()).unwrap_or(0);
        told.stx_nlink = 1;
        (told.stx_rdev_major, told.stx_rdev_minor) = what.device().unwrap_or((0, 0));
        told.stx_blksize = 4096;
        // SAFETY: the program gave room for the struct.
        unsafe { answer.write(told) };
        0
    };
    // SAFETY: the program's argument, which may be null where the flags say so.
    let is_empty = path.is_null() || unsafe { path.read() } == 0;
    let looked = if is_empty && flags & libc::AT_EMPTY_PATH != 0 {
        of(folder)
    } else {
        // SAFETY: the program's argument.
        unsafe { at(path) }
    };
    or_real!(
        looked,
        match real::statx() {
            // SAFETY: the program's arguments, unchanged.
            Some(next) => unsafe { next(folder, path, flags, mask, answer) },
            None => fail(libc::ENOSYS),
        },
        fill
    )
}

/// What a question for permission is answered for an emulated path.
fn permitted(what: Looked, mode: c_int) -> c_int {
    if mode & libc::X_OK != 0 && what != Looked::Folder {
        return fail(libc::EACCES);
    }
    0
}

/// `access`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    or_real!(
        // SAFETY: the program's argument.
        unsafe { at(path) },
        match real::access() {
            // SAFETY: the program's arguments, unchanged.
            Some(next) => unsafe { next(path, mode) },
            None => fail(libc::ENOSYS),
        },
        |what| permitted(what, mode)
    )
}

/// `faccessat`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn faccessat(
    folder: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    or_real!(
        // SAFETY: the program's argument.
        unsafe { at(path) },
        match real::faccessat() {
            // SAFETY: the program's arguments, unchanged.
            Some(next) => unsafe { next(folder, path, mode, flags) },
            None => fail(libc::ENOSYS),
        },
        |what| permitted(what, mode)
    )
}
