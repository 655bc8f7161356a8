//! What kind of mapping a range of addresses lies in.
//!
//! Linux 6.11 answers for one address by an ioctl; older kernels print all mappings, which are read
//! up to the range.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};
use towpath_sys::procmap::{self, Mapping, NAME_BYTES_MAX};

use crate::{Range, page_size};

/// The kind of mapping that a whole range has.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Private memory without a file: heaps, stacks, large allocations.
    Anonymous,
    /// A file mapped privately: written pages become private copies.
    FilePrivate,
    /// A file mapped shared: written pages go back to the file.
    FileShared,
    /// Shared memory without a file on a disk: memfd, `/dev/shm`, System V, shared `/dev/zero`.
    Memfd,
    /// Pages of hugetlbfs.
    HugeTlb,
    /// Memory of a device driver.
    Driver,
    /// The program may not write to it.
    ReadOnly,
    /// The program may not even read it.
    NoAccess,
    /// A part of the range is not mapped.
    Hole,
    /// Several writable kinds.
    Mixed,
    /// The kernel's table could not be read.
    Unreadable,
}

/// Finds the kind of `range`.
///
/// A part that is not mapped or not writable decides for the whole.
///
/// # Cost
///
/// Two microseconds per mapping touched, or (before Linux 6.11) about half a microsecond for every
/// mapping of the process below it; allocates then.
#[must_use]
pub fn kind(range: Range) -> Kind {
    if range.is_empty() {
        return Kind::Hole;
    }
    by_query(range)
        .or_else(|_older| by_text(range))
        .unwrap_or(Kind::Unreadable)
}

fn by_query(range: Range) -> io::Result<Kind> {
    let maps = procmap::open()?;
    let mut name = [0; NAME_BYTES_MAX];
    let mut sum = Sum::new(range);
    while let Some(address) = sum.next_address() {
        match procmap::query(maps.as_fd(), address, &mut name) {
            Ok((mapping, len)) => sum.add(&mapping, name.get(..len).unwrap_or_default()),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sum.kind())
}

/// As [`kind`], from the text of `/proc/self/maps`.
///
/// # Errors
///
/// Those of reading the file.
pub fn by_text(range: Range) -> io::Result<Kind> {
    let mut lines = BufReader::with_capacity(16 << 10, File::open("/proc/self/maps")?);
    let mut sum = Sum::new(range);
    let mut line = Vec::new();
    while sum.next_address().is_some() {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if let Some(Line {
            mut mapping,
            device,
            name,
        }) = parse(&line)
        {
            if mapping.is_shared && name.starts_with(b"/memfd:") {
                mapping.page_size = page_size_of_memfd(device);
            }
            sum.add(&mapping, name);
        }
    }
    Ok(sum.kind())
}

/// The page size of memory files on `device`; 0 for the usual one. The text does not name it, but the kernel
/// keeps memory files of each huge page size on a device of their own.
fn page_size_of_memfd(device: Device) -> usize {
    static HUGE: OnceLock<[(Option<Device>, usize); 2]> = OnceLock::new();
    let known = HUGE.get_or_init(|| {
        [
            (device_of(MemfdFlags::HUGE_2MB), 2 << 20),
            (device_of(MemfdFlags::HUGE_1GB), 1 << 30),
        ]
    });
    let found = known.iter().find(|(huge, _)| *huge == Some(device));
    found.map_or(0, |(_, bytes)| *bytes)
}

/// The device of memory files in pages of `size`. Such a file needs no pages as long as it is empty.
fn device_of(size: MemfdFlags) -> Option<Device> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | size;
    let file = memfd_create("towpath-probe", flags).ok()?;
    let device = fstat(&file).ok()?.st_dev;
    Some(Device {
        major: major(device),
        minor: minor(device),
    })
}

/// Where a file lies.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Device {
    major: u32,
    minor: u32,
}

struct Line<'a> {
    mapping: Mapping,
    device: Device,
    name: &'a [u8],
}

/// Parses one line such as `7f00-7f10 rw-p 00000000 00:00 0    [heap]`.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut ends = fields.next()?.split(|byte| *byte == b'-');
    let mut address = || {
        let digits = std::str::from_utf8(ends.next()?).ok()?;
        usize::from_str_radix(digits, 16).ok()
    };
    let (start, end) = (address()?, address()?);
    let access = fields.next()?;
    let device = device(std::str::from_utf8(fields.nth(1)?).ok()?)?;
    let inode = fields.next()?;
    let name = fields.next().unwrap_or_default().trim_ascii_start();
    let mapping = Mapping {
        start,
        end,
        is_readable: access.first() == Some(&b'r'),
        is_writable: access.get(1) == Some(&b'w'),
        is_shared: access.get(3) == Some(&b's'),
        page_size: 0,
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
    };
    Some(Line {
        mapping,
        device,
        name,
    })
}

fn device(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(':')?;
    Some(Device {
        major: u32::from_str_radix(major, 16).ok()?,
        minor: u32::from_str_radix(minor, 16).ok()?,
    })
}

/// The kinds met so far, and how far the range is covered.
struct Sum {
    range: Range,
    at: usize,
    kind: Option<Kind>,
}

impl Sum {
    const fn new(range: Range) -> Self {
        Self {
            range,
            at: range.address,
            kind: None,
        }
    }

    /// The first address not looked at yet; `None` when the answer is settled.
    fn next_address(&self) -> Option<usize> {
        let settled = self.kind.is_some_and(decides);
        (!settled && self.at < self.range.end()).then_some(self.at)
    }

    fn add(&mut self, mapping: &Mapping, name: &[u8]) {
        if mapping.end <= self.at {
            return;
        }
        if mapping.start > self.at {
            self.kind = Some(Kind::Hole);
            return;
        }
        self.at = mapping.end;
        let kind = kind_of(mapping, name);
        self.kind = Some(match self.kind {
            Some(before) if before != kind && !decides(kind) => Kind::Mixed,
            _ => kind,
        });
    }

    fn kind(&self) -> Kind {
        match self.kind {
            Some(kind) if decides(kind) || self.at >= self.range.end() => kind,
            _ => Kind::Hole,
        }
    }
}

/// Whether one part of this kind decides for the whole range.
const fn decides(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Hole | Kind::NoAccess | Kind::ReadOnly | Kind::Driver | Kind::FileShared
    )
}

fn kind_of(mapping: &Mapping, name: &[u8]) -> Kind {
    if !mapping.is_readable && !mapping.is_writable {
        return Kind::NoAccess;
    }
    if !mapping.is_writable {
        return Kind::ReadOnly;
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p.as_bytes()));
    if mapping.page_size > page_size() || starts(&["/anon_hugepage", "/dev/hugepages"]) {
        return Kind::HugeTlb;
    }
    if starts(&["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "[anon_shmem"]) {
        return if mapping.is_shared {
            Kind::Memfd
        } else {
            Kind::FilePrivate
        };
    }
    if starts(&[
        "/dev/",
        "anon_inode:",
        "/dmabuf:",
        "[vvar",
        "[vdso",
        "[vsyscall",
    ]) {
        return Kind::Driver;
    }
    match (mapping.inode != 0, mapping.is_shared) {
        (true, true) => Kind::FileShared,
        (true, false) => Kind::FilePrivate,
        // Shared without an inode: nothing ordinary programs make.
        (false, true) => Kind::Driver,
        (false, false) => Kind::Anonymous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Kind {
        let line = parse(line.as_bytes()).unwrap();
        kind_of(&line.mapping, line.name)
    }

    #[test]
    fn lines_as_kernels_print_them_are_understood() {
        assert_eq!(
            of("55d0c000-55d0d000 rw-p 00000000 00:00 0          [heap]\n"),
            Kind::Anonymous
        );
        assert_eq!(of("7f00-7f10 rw-p 00000000 00:00 0 \n"), Kind::Anonymous);
        assert_eq!(of("7f00-7f10 r--p 00000000 00:00 0 \n"), Kind::ReadOnly);
        assert_eq!(of("7f00-7f10 ---p 00000000 00:00 0 \n"), Kind::NoAccess);
        assert_eq!(
            of("7f00-7f10 rw-s 00000000 08:01 12   /home/a file\n"),
            Kind::FileShared
        );
        assert_eq!(
            of("7f00-7f10 rw-p 00000000 08:01 12   /home/a file\n"),
            Kind::FilePrivate
        );
        assert_eq!(
            of("7f00-7f10 rw-s 00000000 00:01 12   /memfd:x (deleted)\n"),
            Kind::Memfd
        );
        assert_eq!(
            of("7f00-7f10 rw-s 00000000 00:01 12   /dev/zero (deleted)\n"),
            Kind::Memfd
        );
        assert_eq!(
            of("7f00-7f10 rw-s 00000000 00:05 12   /dev/nvidia0\n"),
            Kind::Driver
        );
        assert_eq!(
            of("7f00-7f10 rw-s 00000000 00:05 12   /dev/dri/renderD128\n"),
            Kind::Driver
        );
        assert_eq!(
            of("7f00-7f10 rw-s 00000000 00:0f 9    anon_inode:i915.gem\n"),
            Kind::Driver
        );
        assert_eq!(
            of("7f00-7f10 rw-p 00000000 00:0f 9    /anon_hugepage (deleted)\n"),
            Kind::HugeTlb
        );
    }

    #[test]
    fn damaged_lines_are_passed_over() {
        let line = b"7f00-7f10 rw-p 00000000 00:00 7    /x\n";
        for cut in 0..line.len() {
            let _any = parse(&line[..cut]);
            for bit in 0..8 {
                let mut damaged = line.to_vec();
                damaged[cut] ^= 1 << bit;
                let _any = parse(&damaged);
            }
        }
    }
}
