//! The functions behind us.
#![expect(unsafe_code, reason = "functions found by name")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

pub(crate) type Ioctl = unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int;
pub(crate) type Open = unsafe extern "C" fn(*const c_char, c_int, c_uint) -> c_int;
pub(crate) type OpenAt = unsafe extern "C" fn(c_int, *const c_char, c_int, c_uint) -> c_int;
pub(crate) type Close = unsafe extern "C" fn(c_int) -> c_int;
pub(crate) type Fortified = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
pub(crate) type FortifiedAt = unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int;
pub(crate) type CloseRange = unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;
pub(crate) type CloseFrom = unsafe extern "C" fn(c_int);
pub(crate) type Dup2 = unsafe extern "C" fn(c_int, c_int) -> c_int;
pub(crate) type Dup3 = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
pub(crate) type Stat = unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int;
pub(crate) type StatAt =
    unsafe extern "C" fn(c_int, *const c_char, *mut libc::stat, c_int) -> c_int;
pub(crate) type StatOf = unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int;
pub(crate) type OldStat = unsafe extern "C" fn(c_int, *const c_char, *mut libc::stat) -> c_int;
pub(crate) type OldStatOf = unsafe extern "C" fn(c_int, c_int, *mut libc::stat) -> c_int;
pub(crate) type Statx =
    unsafe extern "C" fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int;
pub(crate) type Access = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
pub(crate) type AccessAt = unsafe extern "C" fn(c_int, *const c_char, c_int, c_int) -> c_int;
pub(crate) type Eventfd = unsafe extern "C" fn(c_uint, c_int) -> c_int;

/// A function of the next library, looked up once.
#[derive(Debug)]
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address; null if nobody has it.
    pub(crate) fn get(&self) -> *mut c_void {
        // Acquire: pairs with the release below; the same value is found by whoever comes first.
        let found = self.found.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        // SAFETY: a constant handle and a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Release);
        found
    }
}

macro_rules! next {
    ($($name:ident: $type:ty = $symbol:literal;)*) => {
        $(pub(crate) fn $name() -> Option<$type> {
            static NEXT: Next = Next::new($symbol);
            // SAFETY: the C library's function of that name has this type on Linux's 64-bit ABIs,
            // where trailing variable arguments go as named ones do; null becomes `None`.
            unsafe { std::mem::transmute::<*mut c_void, Option<$type>>(NEXT.get()) }
        })*
    };
}

next! {
    ioctl: Ioctl = c"ioctl";
    open: Open = c"open";
    open64: Open = c"open64";
    openat: OpenAt = c"openat";
    openat64: OpenAt = c"openat64";
    __open_2: Fortified = c"__open_2";
    __open64_2: Fortified = c"__open64_2";
    __openat_2: FortifiedAt = c"__openat_2";
    __openat64_2: FortifiedAt = c"__openat64_2";
    close: Close = c"close";
    close_range: CloseRange = c"close_range";
    closefrom: CloseFrom = c"closefrom";
    dup2: Dup2 = c"dup2";
    dup3: Dup3 = c"dup3";
    stat: Stat = c"stat";
    stat64: Stat = c"stat64";
    lstat: Stat = c"lstat";
    lstat64: Stat = c"lstat64";
    fstatat: StatAt = c"fstatat";
    fstatat64: StatAt = c"fstatat64";
    fstat: StatOf = c"fstat";
    fstat64: StatOf = c"fstat64";
    __xstat: OldStat = c"__xstat";
    __xstat64: OldStat = c"__xstat64";
    __fxstat: OldStatOf = c"__fxstat";
    __fxstat64: OldStatOf = c"__fxstat64";
    statx: Statx = c"statx";
    access: Access = c"access";
    faccessat: AccessAt = c"faccessat";
    eventfd: Eventfd = c"eventfd";
}

/// The thread's `errno`.
pub(crate) fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sets the thread's `errno`.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: the C library gives a valid address for the calling thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = code };
}

/// Fails as the C library does.
pub(crate) fn fail(code: c_int) -> c_int {
    set_errno(code);
    -1
}
