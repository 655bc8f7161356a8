//! The C library's calls that change what lies at an address, seen on their way.
//!
//! They come from every library of the process: before our own initialiser, inside allocators, in signal
//! handlers. So each notes a range of numbers and passes the call on; nothing here waits, allocates, panics or
//! touches `errno`. Not seen: system calls that a program makes itself, `shmdt`, and `shmat` over a mapping.

#![expect(unsafe_code, reason = "exported functions with the program's pointers")]

use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;

use libc::off_t;
use towpath_memory::Range;

use crate::changes::CHANGES;
use crate::real;

type Mmap = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, off_t) -> *mut c_void;
type Munmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type Mremap = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, ...) -> *mut c_void;
type Mprotect = unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
type PkeyMprotect = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int) -> c_int;
type RemapFilePages = unsafe extern "C" fn(*mut c_void, usize, c_int, usize, c_int) -> c_int;

/// The functions behind ours.
#[derive(Debug)]
struct Next {
    mmap: Option<Mmap>,
    mmap64: Option<Mmap>,
    munmap: Option<Munmap>,
    mremap: Option<Mremap>,
    mprotect: Option<Mprotect>,
    pkey_mprotect: Option<PkeyMprotect>,
    remap_file_pages: Option<RemapFilePages>,
}

// `mmap64` has the same type, and the kernel is asked by the same number.
const _: () = assert!(size_of::<off_t>() == 8);

/// Empty until the initialiser has run: finding a function by name may allocate, so map.
static NEXT: OnceLock<Next> = OnceLock::new();

/// Run by the dynamic loader before the program's `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISER: extern "C" fn() = initialise;

extern "C" fn initialise() {
    macro_rules! symbol {
        ($name:literal, $type:ty) => {{
            let found = real::following($name);
            // SAFETY: the type is that of the C library's header; null becomes `None`.
            unsafe { std::mem::transmute::<*mut c_void, Option<$type>>(found) }
        }};
    }
    let found = Next {
        mmap: symbol!(c"mmap", Mmap),
        mmap64: symbol!(c"mmap64", Mmap),
        munmap: symbol!(c"munmap", Munmap),
        mremap: symbol!(c"mremap", Mremap),
        mprotect: symbol!(c"mprotect", Mprotect),
        pkey_mprotect: symbol!(c"pkey_mprotect", PkeyMprotect),
        remap_file_pages: symbol!(c"remap_file_pages", RemapFilePages),
    };
    // The loader calls an initialiser once.
    let _first = NEXT.set(found);
}

/// Exports a function that notes a change and passes the call on to the next library's function of its name, or
/// to the kernel as long as that is not found.
macro_rules! watched {
    ($name:ident, $number:ident, ($($argument:ident: $type:ty),+) -> $answer:ty, $answered:path, $change:expr) => {
        /// # Safety
        ///
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),+) -> $answer {
            $change;
            match NEXT.get().and_then(|next| next.$name) {
                // SAFETY: the program's arguments, unchanged.
                Some(next) => unsafe { next($($argument),+) },
                None => {
                    // SAFETY: as above.
                    let answer = unsafe { libc::syscall(libc::$number, $($argument),+) };
                    $answered(answer)
                }
            }
        }
    };
}

watched!(mmap, SYS_mmap,
    (address: *mut c_void, len: usize, protection: c_int, flags: c_int, file: c_int, offset: off_t) -> *mut c_void,
    to_address, put(address, len, flags, file));
watched!(mmap64, SYS_mmap,
    (address: *mut c_void, len: usize, protection: c_int, flags: c_int, file: c_int, offset: off_t) -> *mut c_void,
    to_address, put(address, len, flags, file));
watched!(munmap, SYS_munmap, (address: *mut c_void, len: usize) -> c_int,
    to_status, changed(address, len));
// Variadic in C: without `MREMAP_FIXED` the last argument may hold anything, and nobody looks at it.
watched!(mremap, SYS_mremap,
    (address: *mut c_void, old_len: usize, len: usize, flags: c_int, target: *mut c_void) -> *mut c_void,
    to_address, moved((address, old_len), (target, len), flags));
watched!(mprotect, SYS_mprotect, (address: *mut c_void, len: usize, protection: c_int) -> c_int,
    to_status, changed(address, len));
watched!(pkey_mprotect, SYS_pkey_mprotect,
    (address: *mut c_void, len: usize, protection: c_int, key: c_int) -> c_int,
    to_status, changed(address, len));
watched!(remap_file_pages, SYS_remap_file_pages,
    (address: *mut c_void, len: usize, protection: c_int, page: usize, flags: c_int) -> c_int,
    to_status, changed(address, len));

/// A new mapping replaces another only where it is told to stand.
fn put(address: *mut c_void, len: usize, flags: c_int, file: c_int) {
    if flags & libc::MAP_FIXED == 0 {
        return;
    }
    // The kernel rounds the length up to the file's pages.
    let may_be_huge = file >= 0 || flags & libc::MAP_HUGETLB != 0;
    let end = address.addr().saturating_add(len);
    let rounded = end.checked_next_multiple_of(LARGEST_PAGE);
    let end = rounded.filter(|_| may_be_huge).unwrap_or(end);
    CHANGES.note(Range::between(address.addr(), end));
}

/// A mapping leaves its place, or loses its end, and may replace others where it goes to. An old length of 0
/// makes a second mapping and leaves the first.
fn moved(old: (*mut c_void, usize), new: (*mut c_void, usize), flags: c_int) {
    if old.1 > 0 {
        changed(old.0, old.1);
    }
    if flags & libc::MREMAP_FIXED != 0 {
        changed(new.0, new.1);
    }
}

fn changed(address: *mut c_void, len: usize) {
    CHANGES.note(Range {
        address: address.addr(),
        len,
    });
}

fn to_address(answer: c_long) -> *mut c_void {
    // -1 is `MAP_FAILED`.
    let address = isize::try_from(answer).unwrap_or(-1);
    std::ptr::with_exposed_provenance_mut(address.cast_unsigned())
}

fn to_status(answer: c_long) -> c_int {
    // 0 or -1.
    answer.signum() as c_int
}

/// Of hugetlbfs, on the machines whose graphics this is for.
const LARGEST_PAGE: usize = 1 << 30;
