//! Bytes that somebody else (a guest, a GPU, another process) may write at any time.
//!
//! No `&[u8]` to such memory ever exists: a slice promises the compiler that the bytes stand still.

#![expect(
    unsafe_code,
    reason = "the one place that touches shared memory through raw pointers"
)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::stream::stream_raw;

/// A run of shared bytes, borrowed from whoever keeps the mapping alive.
#[derive(Clone, Copy, Debug)]
pub struct VolatileBytes<'a> {
    start: NonNull<u8>,
    len: usize,
    owner: PhantomData<&'a ()>,
}

// SAFETY: the type hands out no references; all access is by byte copies, which have no thread affinity.
unsafe impl Send for VolatileBytes<'_> {}
// SAFETY: as above; concurrent writers are what the type is for.
unsafe impl Sync for VolatileBytes<'_> {}

impl<'a> VolatileBytes<'a> {
    /// No bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            start: NonNull::dangling(),
            len: 0,
            owner: PhantomData,
        }
    }

    /// The `len` bytes at `start`.
    ///
    /// # Safety
    ///
    /// The bytes stay mapped readable and writable (or only readable, if nobody writes through the
    /// result) for `'a`, and no Rust reference to them is used in the meantime.
    #[must_use]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            owner: PhantomData,
        }
    }

    /// Bytes of a slice that nobody else looks at while `'a` lasts.
    #[must_use]
    pub const fn of(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len();
        match NonNull::new(bytes.as_mut_ptr()) {
            Some(start) => Self {
                start,
                len,
                owner: PhantomData,
            },
            None => Self::empty(),
        }
    }

    /// Bytes in the run.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte, for handing to a driver.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The `len` bytes from `offset`, or `None` if they are not all inside.
    #[must_use]
    pub fn get(&self, offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: `offset <= end <= self.len`, so the result points into the run or one past its end.
        let start = unsafe { self.start.add(offset) };
        Some(Self {
            start,
            len,
            owner: PhantomData,
        })
    }

    /// Copies the first bytes into `target`, as many as both have, and returns how many.
    pub fn copy_to(&self, target: &mut [u8]) -> usize {
        let count = self.len.min(target.len());
        // SAFETY: both sides hold `count` bytes; `target` is exclusively borrowed, so they are disjoint
        // unless the constructor's promise was broken.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr(), target.as_mut_ptr(), count) };
        count
    }

    /// Appends a copy of the bytes to `target`, without writing the place first.
    pub fn append_to(&self, target: &mut Vec<u8>) {
        target.reserve(self.len);
        let end = target.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: `reserve` made room for `len` bytes behind the vector's end, which nobody else sees.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr(), end, self.len) };
        let len = target.len() + self.len;
        // SAFETY: the bytes up to `len` were written just now.
        unsafe { target.set_len(len) };
    }

    /// Copies `source` over the first bytes, as many as both have, and returns how many.
    pub fn copy_from(&self, source: &[u8]) -> usize {
        let count = self.len.min(source.len());
        // SAFETY: as in `copy_to`; the run is writable by the constructor's promise.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), self.start.as_ptr(), count) };
        count
    }

    /// Copies the first bytes into another run, as many as both have; the two may overlap.
    pub fn copy_into(&self, target: &VolatileBytes<'_>) -> usize {
        let count = self.len.min(target.len);
        // SAFETY: both runs hold `count` bytes; `copy` allows overlap.
        unsafe { std::ptr::copy(self.start.as_ptr(), target.start.as_ptr(), count) };
        count
    }

    /// As [`copy_into`](Self::copy_into), storing past the caches; the two may not overlap.
    pub fn stream_into(&self, target: &VolatileBytes<'_>) -> usize {
        let count = self.len.min(target.len);
        let apart = self.start.addr().get().abs_diff(target.start.addr().get());
        if apart < count {
            return self.copy_into(target);
        }
        // SAFETY: both runs hold `count` bytes and, as just checked, do not overlap.
        unsafe { stream_raw(self.start.as_ptr(), target.start.as_ptr(), count) };
        count
    }

    /// Writes `value` over every byte.
    pub fn fill(&self, value: u8) {
        // SAFETY: the run is writable for its whole length by the constructor's promise.
        unsafe { std::ptr::write_bytes(self.start.as_ptr(), value, self.len) };
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy_to(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_outside_is_refused() {
        let mut bytes = [1, 2, 3, 4];
        let run = VolatileBytes::of(&mut bytes);
        assert_eq!(run.get(1, 3).unwrap().to_vec(), [2, 3, 4]);
        assert_eq!(run.get(4, 0).unwrap().len(), 0);
        assert!(run.get(4, 1).is_none());
        assert!(run.get(usize::MAX, 2).is_none());
    }

    #[test]
    fn copies_go_both_ways() {
        let mut bytes = [0; 4];
        let run = VolatileBytes::of(&mut bytes);
        assert_eq!(run.copy_from(&[7, 8]), 2);
        run.get(2, 2).unwrap().fill(9);
        let mut other = [0; 8];
        assert_eq!(run.copy_into(&VolatileBytes::of(&mut other)), 4);
        assert_eq!(other, [7, 8, 9, 9, 0, 0, 0, 0]);
    }
}
