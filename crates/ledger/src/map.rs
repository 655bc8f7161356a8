//! The mapped file and the page that fork wipes.
//!
//! Contract: a [`Mapping`] is a shared mapping of a file whose whole length was allocated before, so
//! that loads and stores within it do not fault fatally; it stays mapped until it is dropped. A
//! [`Guard`] is one private page that the kernel fills with zeros in a forked child, so that a child
//! learns by one load that the mapping it sees is its parent's.

#![expect(
    unsafe_code,
    reason = "mapped memory is laid out by this crate and shared with the kernel"
)]

use std::io;
use std::mem::size_of;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::layout::{FILE_BYTES, Ledger};

/// Maps a ledger's file, `FILE_BYTES` long and fully allocated.
///
/// # Errors
///
/// What the kernel answered.
pub(crate) fn map_file(file: impl AsFd) -> io::Result<NonNull<Ledger>> {
    // SAFETY: a null hint lets the kernel choose an unused range; the mapping is this crate's alone.
    let address = unsafe {
        mmap(
            std::ptr::null_mut(),
            FILE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )
    }?;
    let before_frames = std::mem::offset_of!(Ledger, frames);
    // The pages that every call writes come in now; frames come as they are presented. Best effort:
    // on kernels before 5.14 the first stores take the faults.
    // SAFETY: the range lies in the mapping made above, and populating changes no byte.
    let _populated = unsafe { madvise(address, before_frames, Advice::LinuxPopulateWrite) };
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}

/// Unmaps what [`map_file`] mapped.
///
/// # Safety
///
/// Nobody uses the mapping any more.
pub(crate) unsafe fn unmap(ledger: NonNull<Ledger>) {
    // SAFETY: the range is exactly what `map_file` mapped, and the caller promises that it is unused.
    let _unmapped = unsafe { munmap(ledger.as_ptr().cast(), FILE_BYTES) };
}

/// Borrows the ledger behind `pointer`.
///
/// # Safety
///
/// `pointer` is null or comes from [`map_file`] and stays mapped for `'a`.
#[inline]
pub(crate) unsafe fn borrow<'a>(pointer: *mut Ledger) -> Option<&'a Ledger> {
    // SAFETY: the caller's promise; every field is an atomic, for which any bytes are valid and
    // stores by other threads and processes are allowed.
    unsafe { pointer.as_ref() }
}

/// What a forked child sees as zeros.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Guard {
    /// The mapping that this process writes to; null in a child that has none yet.
    pub(crate) ledger: AtomicPtr<Ledger>,
    /// Whether a child is making its own or has failed to.
    pub(crate) state: AtomicU32,
}

/// Size of the guard's page, in bytes. The kernel rounds up where pages are larger.
const GUARD_BYTES: usize = 4096;
const _: () = assert!(size_of::<Guard>() <= GUARD_BYTES);

/// Owns the page of a [`Guard`].
#[derive(Debug)]
pub(crate) struct GuardPage(NonNull<Guard>);

// SAFETY: the page holds atomics only and belongs to no thread.
unsafe impl Send for GuardPage {}
// SAFETY: as above; a shared reference gives access to atomics only.
unsafe impl Sync for GuardPage {}

impl GuardPage {
    /// A page of zeros that fork wipes.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `EINVAL` on kernels before 4.14.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a null hint lets the kernel choose an unused range.
        let address = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                GUARD_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let page = NonNull::new(address.cast())
            .map(Self)
            .ok_or_else(|| io::Error::other("mapped at address zero"))?;
        // SAFETY: the range is the page mapped above, private and anonymous as the advice demands.
        unsafe { madvise(address, GUARD_BYTES, Advice::LinuxWipeOnFork) }?;
        Ok(page)
    }

    /// The guard in the page.
    #[inline]
    pub(crate) fn get(&self) -> &Guard {
        // SAFETY: the page stays mapped until drop, is aligned to a page, and its zeros or later
        // atomic stores are valid values of a `Guard`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for GuardPage {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by `new` with this length and nobody else has its address.
        let _unmapped = unsafe { munmap(self.0.as_ptr().cast(), GUARD_BYTES) };
    }
}
