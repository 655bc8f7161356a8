//! The dma-buf ioctls (`include/uapi/linux/dma-buf.h`).

#![expect(
    unsafe_code,
    reason = "ioctl numbers and layouts are a contract with the kernel"
)]

use std::io;
use std::os::fd::BorrowedFd;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// What the processor does with the mapping between begin and end of an access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the kernel's two bits have three values"
)]
pub enum Access {
    /// `DMA_BUF_SYNC_READ`.
    Read = 1,
    /// `DMA_BUF_SYNC_WRITE`.
    Write = 2,
    /// `DMA_BUF_SYNC_RW`.
    ReadWrite = 3,
}

/// Begins a processor access to a mapped dma-buf.
///
/// Cost: O(pages): the first one builds and maps a scatter list, later ones synchronise it.
///
/// # Errors
///
/// `EINVAL` for unknown bits, `EINTR`/`EAGAIN` if a fence wait was interrupted.
///
/// # Source
///
/// `DMA_BUF_IOCTL_SYNC`, `drivers/dma-buf/dma-buf.c`.
pub fn sync_start(buffer: BorrowedFd<'_>, access: Access) -> io::Result<()> {
    sync(buffer, access as u64)
}

/// Ends a processor access.
///
/// # Errors
///
/// `EINVAL` where no access was begun (udmabuf says so).
pub fn sync_end(buffer: BorrowedFd<'_>, access: Access) -> io::Result<()> {
    sync(buffer, access as u64 | END)
}

fn sync(buffer: BorrowedFd<'_>, flags: u64) -> io::Result<()> {
    loop {
        // SAFETY: `DMA_BUF_IOCTL_SYNC` reads one `u64` of flags and writes nothing.
        let setter = unsafe { Setter::<SYNC, u64>::new(flags) };
        // SAFETY: as above.
        match unsafe { ioctl(buffer, setter) } {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            answer => return Ok(answer?),
        }
    }
}

const END: u64 = 4;
const SYNC: Opcode = opcode::write::<u64>(b'b', 0);
const _: () = assert!(SYNC == 0x4008_6200);
