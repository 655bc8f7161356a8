//! Mends `OPENCL_LAYERS` for child processes.
//!
//! ocl-icd (2.3.1 to 2.3.3 at least) writes a zero over each colon of the variable in the process's own
//! environment while it walks the list, so that children inherit only the first layer. `towpath run`
//! passes the whole list in a second variable. No longer needed when a child of a program that used
//! OpenCL sees the whole list with a newer ocl-icd.
#![expect(unsafe_code, reason = "the environment block is the C library's")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Puts the colons back where the loader cut the list `whole`; does nothing to any other text.
pub(crate) fn restore(whole: Option<&OsStr>) {
    let Some(whole) = whole.map(OsStrExt::as_bytes) else {
        return;
    };
    // SAFETY: a terminated name; the answer is checked for null.
    let text = unsafe { libc::getenv(c"OPENCL_LAYERS".as_ptr()) };
    if text.is_null() {
        return;
    }
    mend(text.cast(), whole);
}

/// Walks the text as long as it is the list, with zeros for colons; then puts the colons back.
fn mend(text: *mut u8, whole: &[u8]) {
    for (index, expected) in whole.iter().enumerate() {
        // SAFETY: every byte before this one was of the list that the loader was given, so that this
        // one lies in the same string or is its end.
        let found = unsafe { text.wrapping_add(index).read() };
        let is_cut = found == 0 && *expected == b':';
        if found != *expected && !is_cut {
            return;
        }
    }
    for (index, expected) in whole.iter().enumerate() {
        if *expected == b':' {
            // SAFETY: compared above; the loader writes to the same byte, so that it may be written.
            unsafe { text.wrapping_add(index).write(b':') };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_lists_are_mended_and_others_left_alone() {
        let mut cut = *b"/a.so\0/b.so\0c\0";
        mend(cut.as_mut_ptr(), b"/a.so:/b.so:c");
        assert_eq!(&cut, b"/a.so:/b.so:c\0");
        let mut other = *b"/a.so\0HOME=/root\0";
        mend(other.as_mut_ptr(), b"/a.so:/b.so");
        assert_eq!(&other, b"/a.so\0HOME=/root\0");
    }
}
