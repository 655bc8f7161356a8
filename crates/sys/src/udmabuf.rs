//! `/dev/udmabuf`: pages of sealed memfds as one dma-buf (`include/uapi/linux/udmabuf.h`).
//!
//! Layouts are for little-endian 64-bit machines, the only ones this workspace builds for.

#![expect(
    unsafe_code,
    reason = "ioctl numbers and layouts are a contract with the kernel"
)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// One run of pages of one memfd: `struct udmabuf_create_item`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Item {
    /// The memfd's descriptor number.
    pub memfd: u32,
    /// Unused.
    pub pad: u32,
    /// First byte, a multiple of the page size.
    pub offset: u64,
    /// Bytes, a multiple of the page size, not 0.
    pub size: u64,
}

impl Item {
    /// The run of `size` bytes at `offset` of `memfd`.
    #[must_use]
    pub fn new(memfd: BorrowedFd<'_>, offset: u64, size: u64) -> Self {
        Self {
            // A borrowed descriptor is never negative.
            memfd: memfd.as_raw_fd().cast_unsigned(),
            pad: 0,
            offset,
            size,
        }
    }
}

/// Makes a dma-buf of one run of pages.
///
/// - Permissions: those of the device node (group kvm in most distributions).
/// - Since: Linux 4.20; Debian's 6.1 lacks it, 6.12 has it built in.
/// - Pins: the pages, for the dma-buf's life (since 6.11).
///
/// # Errors
///
/// - `EINVAL`: the memfd lacks `F_SEAL_SHRINK` or has `F_SEAL_WRITE`; offset or size is no page
///   multiple; size is 0, over `size_limit_mb` (64) or past the memfd's end.
/// - `EBADFD` (77): not a memfd, or no descriptor at all.
///
/// # Source
///
/// `UDMABUF_CREATE`, `drivers/dma-buf/udmabuf.c`.
pub fn create(device: BorrowedFd<'_>, item: Item) -> io::Result<OwnedFd> {
    // Word layout of `struct udmabuf_create`: memfd and flags, offset, size.
    let mut words = [pair(item.memfd, CLOEXEC), item.offset, item.size];
    let call = Call {
        opcode: CREATE,
        words: &mut words,
    };
    // SAFETY: `UDMABUF_CREATE` reads the 24 bytes of `words` and writes nothing.
    Ok(unsafe { ioctl(device, call) }?)
}

/// Makes one dma-buf of a list of runs, in order.
///
/// Cost: one allocation of 24 bytes per item.
///
/// # Errors
///
/// As [`create`], and `EINVAL` for no items, more than `list_limit` (1024), or more than 64 MiB in all.
///
/// # Source
///
/// `UDMABUF_CREATE_LIST`, `drivers/dma-buf/udmabuf.c`.
pub fn create_list(device: BorrowedFd<'_>, items: &[Item]) -> io::Result<OwnedFd> {
    let too_many = |_overflow| io::Error::from(rustix::io::Errno::INVAL);
    let count = u32::try_from(items.len()).map_err(too_many)?;
    // `struct udmabuf_create_list`: flags and count, then the items.
    let mut words = Vec::with_capacity(1 + 3 * items.len());
    words.push(pair(CLOEXEC, count));
    for item in items {
        words.extend([pair(item.memfd, item.pad), item.offset, item.size]);
    }
    let call = Call {
        opcode: CREATE_LIST,
        words: &mut words,
    };
    // SAFETY: `UDMABUF_CREATE_LIST` reads the header and `count` items, all inside `words`.
    Ok(unsafe { ioctl(device, call) }?)
}

/// `UDMABUF_FLAGS_CLOEXEC`.
pub const CLOEXEC: u32 = 1;

/// The most items of one list unless `/sys/module/udmabuf/parameters/list_limit` says otherwise.
pub const LIST_LIMIT: usize = 1024;

/// The most bytes of one dma-buf unless `/sys/module/udmabuf/parameters/size_limit_mb` says otherwise.
pub const SIZE_LIMIT: u64 = 64 << 20;

struct Call<'a> {
    opcode: Opcode,
    words: &'a mut [u64],
}

// SAFETY: both calls take a pointer to memory they only read, and answer with a new descriptor.
unsafe impl Ioctl for Call<'_> {
    type Output = OwnedFd;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.words.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        answer: IoctlOutput,
        _pointer: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<OwnedFd> {
        let fd: RawFd = answer;
        // SAFETY: the kernel made this descriptor for us just now; nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

const fn pair(low: u32, high: u32) -> u64 {
    (low as u64) | ((high as u64) << 32)
}

const CREATE: Opcode = opcode::write::<[u64; 3]>(b'u', 0x42);
const CREATE_LIST: Opcode = opcode::write::<u64>(b'u', 0x43);

const _: () = assert!(CREATE == 0x4018_7542);
const _: () = assert!(CREATE_LIST == 0x4008_7543);
const _: () = assert!(size_of::<Item>() == 24);
const _: () = assert!(std::mem::offset_of!(Item, offset) == 8);
const _: () = assert!(cfg!(target_endian = "little"));

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_file_that_is_no_udmabuf_device_refuses() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let item = Item::new(null.as_fd(), 0, 4096);
        let error = create_list(null.as_fd(), &[item]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
