//! `madvise(2)`, only those pieces of advice that never change the content of memory.
//!
//! Because of that restriction [`advise`] is a safe function: whatever range it is given, every byte
//! that could be read before has the same value afterwards.

#![expect(unsafe_code, reason = "a system call on a bare address range")]

use std::io;

/// Advice that keeps the content of the range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Advice {
    /// Makes every page present and writable as if written to. Since Linux 5.14.
    PopulateWrite,
    /// Lets faults in the range take huge pages. Stays on the mapping until it is unmapped.
    HugePage,
    /// Keeps huge pages out of the range.
    NoHugePage,
    /// Pushes the pages out to swap or their file. Since Linux 5.4.
    PageOut,
}

/// Gives the kernel `advice` about `len` bytes from `address`, which must be page-aligned.
///
/// # Errors
///
/// - `EINVAL`: unaligned address, advice unknown to this kernel, or a mapping that refuses it
///   (read-only, no access, driver memory).
/// - `ENOMEM`: a part of the range is not mapped; what lies before it has been handled.
/// - `EFAULT`: the page lies after the end of its file (`PopulateWrite`).
/// - `EHWPOISON`: a broken page (`PopulateWrite`).
///
/// # Source
///
/// `include/uapi/asm-generic/mman-common.h`; `madvise(2)`.
pub fn advise(address: usize, len: usize, advice: Advice) -> io::Result<()> {
    let number = match advice {
        Advice::PopulateWrite => libc::MADV_POPULATE_WRITE,
        Advice::HugePage => libc::MADV_HUGEPAGE,
        Advice::NoHugePage => libc::MADV_NOHUGEPAGE,
        Advice::PageOut => libc::MADV_PAGEOUT,
    };
    // SAFETY: each advice of the match above keeps the content of memory (`madvise(2)`); the kernel
    // checks the range and answers with an error where it is not mapped.
    let answer =
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(address), len, number) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unaligned_address_is_refused() {
        let error = advise(1, 4096, Advice::PopulateWrite).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn a_hole_is_refused() {
        let error = advise(0, 4096, Advice::PopulateWrite).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }
}
