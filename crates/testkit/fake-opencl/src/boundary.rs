//! The program's pointers, in one place: null checks, reads, writes, copies.
#![expect(
    unsafe_code,
    reason = "the program's pointers; OpenCL's contract with the program is all there is"
)]

use std::ffi::{CStr, c_char, c_void};

use opencl_sys::{CL_INVALID_VALUE, CL_SUCCESS, cl_icd::cl_icd_dispatch, cl_int};
use towpath_cold::Rows;

/// Writes `value` unless `to` is null.
pub(crate) fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, and OpenCL demands that it be valid.
        unsafe { to.write(value) };
    }
}

/// Reads a value; `None` if `from` is null.
pub(crate) fn read<T: Copy>(from: *const T) -> Option<T> {
    // SAFETY: not null, and OpenCL demands that it be valid.
    (!from.is_null()).then(|| unsafe { from.read() })
}

/// Reads `len` values; empty if `from` is null.
pub(crate) fn list<T: Copy>(from: *const T, len: usize) -> Vec<T> {
    if from.is_null() {
        return Vec::new();
    }
    // SAFETY: not null, and OpenCL demands `len` values.
    unsafe { std::slice::from_raw_parts(from, len) }.to_vec()
}

/// Three sizes, as origins and regions are.
pub(crate) fn triple(from: *const usize) -> Result<[usize; 3], cl_int> {
    read(from.cast::<[usize; 3]>()).ok_or(CL_INVALID_VALUE)
}

/// A C string; empty if null.
pub(crate) fn text<'a>(from: *const c_char) -> &'a CStr {
    if from.is_null() {
        return c"";
    }
    // SAFETY: not null, and the caller passes a terminated string.
    unsafe { CStr::from_ptr(from) }
}

/// Answers a `clGet...Info` call with `bytes`.
pub(crate) fn answer(
    bytes: &[u8],
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    put(size_ret, bytes.len());
    if value.is_null() {
        return CL_SUCCESS;
    }
    if size < bytes.len() {
        return CL_INVALID_VALUE;
    }
    // SAFETY: OpenCL demands `size` bytes at `value`, and that is enough.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    CL_SUCCESS
}

/// Copies between two sets of rows of equal shape, through addresses.
pub(crate) fn copy_rows(from: &Rows, to: &Rows) {
    for slice in 0..to.slices {
        for row in 0..to.rows {
            let source = from.base + slice * from.slice_pitch + row * from.row_pitch;
            let target = to.base + slice * to.slice_pitch + row * to.row_pitch;
            let source = std::ptr::with_exposed_provenance::<u8>(source);
            let target = std::ptr::with_exposed_provenance_mut::<u8>(target);
            // SAFETY: one side is the driver's memory, whose bounds were checked; the other is the
            // program's, which OpenCL demands to be valid until the command is done. They may overlap
            // where the program passed a pointer that it had mapped.
            unsafe { std::ptr::copy(source, target, to.row_bytes) };
        }
    }
}

/// New zeroed memory of the driver; 0 if there is none.
pub(crate) fn map(bytes: usize) -> usize {
    // SAFETY: a new anonymous mapping of any length; failure is checked below.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        0
    } else {
        address.expose_provenance()
    }
}

/// Gives memory of [`map`] back.
pub(crate) fn unmap(address: usize, bytes: usize) {
    // SAFETY: the owner of the mapping is being dropped, and only it had the address.
    unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(address), bytes) };
}

/// Fills driver memory with a repeated pattern.
pub(crate) fn fill(address: usize, bytes: usize, pattern: &[u8]) {
    for at in (0..bytes).step_by(pattern.len().max(1)) {
        let target = std::ptr::with_exposed_provenance_mut::<u8>(address + at);
        let len = pattern.len().min(bytes - at);
        // SAFETY: inside the driver's buffer, whose bounds the caller checked.
        unsafe { std::ptr::copy_nonoverlapping(pattern.as_ptr(), target, len) };
    }
}

/// A dispatch table with no entries.
pub(crate) fn empty_table() -> cl_icd_dispatch {
    // SAFETY: every entry is a nullable function pointer or an integer.
    unsafe { std::mem::zeroed() }
}

/// Values of integer types and their arrays, as bytes for [`answer`].
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: used with integers and pointers only, which have no padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}
