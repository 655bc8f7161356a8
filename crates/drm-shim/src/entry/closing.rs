//! Functions that close descriptors: fences of a software timeline end with its last one.
#![expect(
    unsafe_code,
    reason = "functions of the C library, exported under their names"
)]

use std::ffi::{c_int, c_uint};

use crate::real::{self, errno, fail, set_errno};
use crate::state::inside;

/// Ends what hung on descriptors that are closed now.
fn closed() {
    let code = errno();
    let _quiet = inside(|state| {
        if let Some(emulated) = &state.emulated {
            emulated.closed();
        }
    });
    set_errno(code);
}

macro_rules! closes {
    ($($(#[doc = $doc:literal])+ $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            ///
            /// As the C library's.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                let Some(next) = real::$name() else {
                    return fail(libc::ENOSYS);
                };
                // SAFETY: the program's arguments.
                let answer = unsafe { next($($argument),*) };
                closed();
                answer
            }
        )*
    };
}

closes! {
    /// `close`.
    close(fd: c_int);
    /// `close_range`.
    close_range(first: c_uint, last: c_uint, flags: c_int);
    /// `dup2`, which closes what had the number.
    dup2(old: c_int, new: c_int);
    /// `dup3`, as [`dup2`].
    dup3(old: c_int, new: c_int, flags: c_int);
}

/// `closefrom`.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn closefrom(first: c_int) {
    if let Some(next) = real::closefrom() {
        // SAFETY: the program's argument.
        unsafe { next(first) };
        closed();
    }
}
