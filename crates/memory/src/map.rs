//! A private anonymous mapping that is owned.

#![expect(unsafe_code, reason = "maps, unmaps and lends memory")]

use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::{Error, Range, Result, page_size};

/// Private anonymous memory, zero until written, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by this value alone; access goes through `&self` and `&mut self`.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives out shared slices and addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes, none of them present yet.
    ///
    /// # Errors
    ///
    /// - [`Error::Map`].
    pub fn anonymous(len: usize) -> Result<Self> {
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let answer = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len.max(1),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let start = answer.map_err(|errno| Error::Map {
            len,
            source: errno.into(),
        })?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| Error::Map {
            len,
            source: std::io::Error::from(std::io::ErrorKind::OutOfMemory),
        })?;
        Ok(Self { start, len })
    }

    /// Where it lies.
    #[must_use]
    pub fn range(&self) -> Range {
        Range {
            address: self.start.as_ptr().expose_provenance(),
            len: self.len,
        }
    }

    /// Locks its pages in memory, so that they are not paged out; false where the limit does not allow
    /// it. Unlocked when dropped.
    pub fn lock(&mut self) -> bool {
        // SAFETY: the range is this value's own mapping; locking changes no content.
        unsafe { rustix::mm::mlock(self.start.as_ptr().cast(), self.len) }.is_ok()
    }

    /// First byte, for calls that write through a pointer.
    #[must_use]
    pub const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// All bytes.
    #[must_use]
    pub const fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped readable from `start` as long as `self` lives, and writers
        // need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// All bytes.
    #[must_use]
    pub const fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes are mapped writable from `start`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let len = self.len.max(1).next_multiple_of(page_size());
        // SAFETY: `start` and the length are those of the mapping that this value owns; no borrow of
        // it is left when it is dropped.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), len) };
    }
}
