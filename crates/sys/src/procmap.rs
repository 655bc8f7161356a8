//! `/proc/self/maps`: the `PROCMAP_QUERY` ioctl (Linux 6.11), which finds one mapping without
//! printing all of them.

#![expect(
    unsafe_code,
    reason = "an ioctl whose layout is a contract with the kernel"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Longest mapping name asked for, in bytes; the kernel refuses longer ones with `ENAMETOOLONG`.
pub const NAME_BYTES_MAX: usize = 4096;

const QUERY_VMA_READABLE: u64 = 0x01;
const QUERY_VMA_WRITABLE: u64 = 0x02;
const QUERY_VMA_SHARED: u64 = 0x08;
const QUERY_COVERING_OR_NEXT: u64 = 0x10;

/// `struct procmap_query`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611;

/// One mapping, without its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mapping {
    /// First address.
    pub start: usize,
    /// Address after the last byte.
    pub end: usize,
    /// Whether the program may read it.
    pub is_readable: bool,
    /// Whether the program may write to it.
    pub is_writable: bool,
    /// Whether writes are seen by others who map the same object.
    pub is_shared: bool,
    /// Page size of the mapping in bytes; more than the system's for hugetlb.
    pub page_size: usize,
    /// Inode of the file, 0 where there is none.
    pub inode: u64,
}

/// Opens this process's maps. As with pagemap, a descriptor inherited over a fork shows the parent.
///
/// # Errors
///
/// Those of `open(2)`.
pub fn open() -> io::Result<File> {
    File::open("/proc/self/maps")
}

/// Finds the mapping at `address` or, if there is none, the next one after it; writes its name
/// (without the terminating NUL) to `name` and says how many bytes it has.
///
/// - Since: Linux 6.11.
///
/// # Errors
///
/// - `ENOTTY`: older kernel.
/// - `ENOENT`: nothing is mapped at the address or after it.
/// - `ENAMETOOLONG`: the name does not fit.
///
/// # Source
///
/// `PROCMAP_QUERY`, `include/uapi/linux/fs.h`.
pub fn query(
    maps: BorrowedFd<'_>,
    address: usize,
    name: &mut [u8; NAME_BYTES_MAX],
) -> io::Result<(Mapping, usize)> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: QUERY_COVERING_OR_NEXT,
        address: address as u64,
        // 4096 fits any integer.
        vma_name_size: u32::try_from(name.len()).unwrap_or(0),
        vma_name_addr: name.as_mut_ptr().expose_provenance() as u64,
        ..Query::default()
    };
    // SAFETY: the argument is a live `procmap_query` (layout asserted below) whose name buffer is the
    // exclusively borrowed array with its length; the kernel writes to these two only.
    let answer = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let mapping = Mapping {
        start: usize::try_from(query.vma_start).unwrap_or(usize::MAX),
        end: usize::try_from(query.vma_end).unwrap_or(usize::MAX),
        is_readable: query.vma_flags & QUERY_VMA_READABLE != 0,
        is_writable: query.vma_flags & QUERY_VMA_WRITABLE != 0,
        is_shared: query.vma_flags & QUERY_VMA_SHARED != 0,
        page_size: usize::try_from(query.vma_page_size).unwrap_or(0),
        inode: query.inode,
    };
    let name_len = usize::try_from(query.vma_name_size).unwrap_or(0);
    Ok((mapping, name_len.saturating_sub(1)))
}

const _: () = assert!(size_of::<Query>() == 104);
const _: () = assert!(std::mem::offset_of!(Query, vma_name_addr) == 88);

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_mapping_of_a_local_is_found_or_the_kernel_is_older() {
        let maps = open().unwrap();
        let local = 1_u8;
        let address = (&raw const local).addr();
        let mut name = [0; NAME_BYTES_MAX];
        match query(maps.as_fd(), address, &mut name) {
            Ok((mapping, _)) => {
                assert!((mapping.start..mapping.end).contains(&address));
                assert!(mapping.is_readable && mapping.is_writable && !mapping.is_shared);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY)),
        }
    }
}
