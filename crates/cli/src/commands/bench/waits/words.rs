//! Words in memory that two processes share, for a bare futex between them.
#![expect(unsafe_code, reason = "maps a file and refers to atomics in it")]

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;

use super::lanes::Lane;

const BYTES: usize = 4096;

/// One page of words.
#[derive(Debug)]
pub(super) struct Words {
    fd: OwnedFd,
    base: NonNull<AtomicU32>,
}

// SAFETY: the mapping lives as long as the value and is reached through atomics only.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Makes the page.
    ///
    /// # Errors
    ///
    /// If the system has no memory or descriptor.
    pub(super) fn new() -> Result<Self> {
        let fd = rustix::fs::memfd_create("towpath-words", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&fd, BYTES as u64)?;
        Self::map(fd)
    }

    /// Maps the page of another process, by [`Self::path`].
    ///
    /// # Errors
    ///
    /// If it is not there, or too small.
    pub(super) fn open(path: &str) -> Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        anyhow::ensure!(
            file.metadata()?.len() >= BYTES as u64,
            "{path} is too small"
        );
        Self::map(file.into())
    }

    /// Where another process finds it, as long as this one has it.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    fn map(fd: OwnedFd) -> Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let place = std::ptr::null_mut();
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that long.
        let base = unsafe { rustix::mm::mmap(place, BYTES, access, MapFlags::SHARED, &fd, 0) }?;
        let base = NonNull::new(base.cast()).context("a null mapping")?;
        Ok(Self { fd, base })
    }

    /// The first or second word, a cache line and more apart.
    fn word(&self, index: usize) -> &AtomicU32 {
        let index = index.min(1) * (BYTES / 8);
        // SAFETY: inside the mapping.
        let word = unsafe { self.base.add(index) };
        // SAFETY: mapped as long as `self`, aligned, and any bits are a value.
        unsafe { word.as_ref() }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; no reference outlives `self`.
        let _unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), BYTES) };
    }
}

/// A bare futex on one of the words.
pub(super) struct WordLane<'a>(pub(super) &'a Words, pub(super) usize);

impl Lane for WordLane<'_> {
    fn raise(&self, value: u32) {
        let word = self.0.word(self.1);
        word.store(value, Ordering::SeqCst);
        let _woken = futex::wake(word, futex::Flags::empty(), 1);
    }

    fn await_value(&self, value: u32) {
        let word = self.0.word(self.1);
        loop {
            let seen = word.load(Ordering::SeqCst);
            if seen >= value {
                return;
            }
            let _woken = futex::wait(word, futex::Flags::empty(), seen, None);
        }
    }
}
