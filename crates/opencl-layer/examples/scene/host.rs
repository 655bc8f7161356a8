//! Host memory of every kind, with guard pages, and what the kernel says about it.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

use towpath_cold::{PAGE, Rows, pages};

/// A destination between two pages that nobody may touch.
pub(crate) struct Host {
    map: *mut u8,
    map_bytes: usize,
    pub(crate) address: *mut u8,
    pub(crate) bytes: usize,
    _file: Option<File>,
}

/// The kinds of destination, research 4.3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Never touched.
    Cold,
    /// Written before.
    Warm,
    /// Read before: the zero page.
    Zero,
    /// Every second page written.
    Half,
    /// Advised to be in huge pages, untouched.
    Huge,
    /// A file, mapped privately.
    FilePrivate,
    /// A file, mapped shared.
    FileShared,
    /// A memfd.
    Memfd,
    /// Anonymous, shared.
    Shared,
    /// Locked in memory.
    Locked,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        Self::Cold,
        Self::Warm,
        Self::Zero,
        Self::Half,
        Self::Huge,
        Self::FilePrivate,
        Self::FileShared,
        Self::Memfd,
        Self::Shared,
        Self::Locked,
    ];
}

impl Host {
    /// Maps `bytes` (whole pages) of `kind`.
    pub(crate) fn new(kind: Kind, bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(PAGE);
        let map_bytes = bytes + 2 * PAGE;
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let map = mmap(
            std::ptr::null_mut(),
            map_bytes,
            libc::PROT_NONE,
            anonymous,
            -1,
        );
        let address = map.wrapping_add(PAGE);
        let file = match kind {
            Kind::FilePrivate | Kind::FileShared => Some(on_disk(bytes)),
            Kind::Memfd => Some(memfd(bytes)),
            _ => None,
        };
        let flags = match kind {
            Kind::FilePrivate => libc::MAP_PRIVATE,
            Kind::FileShared | Kind::Memfd => libc::MAP_SHARED,
            Kind::Shared => libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            _ => anonymous,
        };
        let descriptor = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        mmap(
            address.cast(),
            bytes,
            rights,
            flags | libc::MAP_FIXED,
            descriptor,
        );
        let this = Self {
            map,
            map_bytes,
            address,
            bytes,
            _file: file,
        };
        this.make_ready(kind);
        this
    }

    fn make_ready(&self, kind: Kind) {
        match kind {
            Kind::Warm => self.touch(),
            Kind::Half => (0..self.bytes)
                .step_by(2 * PAGE)
                .for_each(|at| self.put(at, 1)),
            Kind::Zero => {
                let sum: u64 = (0..self.bytes)
                    .step_by(PAGE)
                    .map(|at| u64::from(self.get(at)))
                    .sum();
                assert_eq!(sum, 0);
            }
            Kind::Huge => self.advise(libc::MADV_HUGEPAGE),
            Kind::Locked => {
                // SAFETY: the mapping of this object.
                unsafe { libc::mlock(self.address.cast(), self.bytes) };
            }
            _ => {}
        }
    }

    /// Writes to each page.
    pub(crate) fn touch(&self) {
        (0..self.bytes).step_by(PAGE).for_each(|at| self.put(at, 1));
    }

    /// Gives advice about the whole.
    pub(crate) fn advise(&self, advice: i32) {
        // SAFETY: the mapping of this object; the advice keeps it mapped.
        unsafe { libc::madvise(self.address.cast(), self.bytes, advice) };
    }

    /// Takes rights away from the whole.
    pub(crate) fn protect(&self, rights: i32) {
        // SAFETY: the mapping of this object, which is accessed through pointers only.
        unsafe { libc::mprotect(self.address.cast(), self.bytes, rights) };
    }

    /// A pointer to byte `at`.
    pub(crate) fn at(&self, at: usize) -> *mut c_void {
        self.address.wrapping_add(at).cast()
    }

    fn get(&self, at: usize) -> u8 {
        assert!(at < self.bytes);
        // SAFETY: inside the mapping; volatile, since a driver may write it.
        unsafe { self.address.wrapping_add(at).read_volatile() }
    }

    fn put(&self, at: usize, value: u8) {
        assert!(at < self.bytes);
        // SAFETY: inside the mapping.
        unsafe { self.address.wrapping_add(at).write_volatile(value) };
    }

    /// Fills the whole.
    pub(crate) fn fill(&self, content: &[u8]) {
        assert!(content.len() >= self.bytes);
        // SAFETY: the mapping of this object; the scenes call this when no command runs.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), self.address, self.bytes) };
    }

    /// The bytes.
    pub(crate) fn content(&self) -> Vec<u8> {
        // SAFETY: the mapping of this object; the scenes call this when no command runs.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }.to_vec()
    }

    /// Pages that a read of `rows` finds cold.
    pub(crate) fn cold(rows: &Rows) -> u64 {
        pages(rows).unwrap().cold
    }

    /// Pages of the whole that are cold.
    pub(crate) fn cold_pages(&self) -> u64 {
        Self::cold(&Rows::flat(self.address.addr(), self.bytes))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the mapping of this object, not used after.
        unsafe { libc::munmap(self.map.cast(), self.map_bytes) };
    }
}

/// A short number that differs where content differs.
pub(crate) fn hash(content: &[u8]) -> u64 {
    content.iter().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn mmap(at: *mut c_void, bytes: usize, rights: i32, flags: i32, file: i32) -> *mut u8 {
    // SAFETY: a new mapping, or one over a part of the caller's own.
    let map = unsafe { libc::mmap(at, bytes, rights, flags, file, 0) };
    assert_ne!(map, libc::MAP_FAILED);
    map.cast()
}

fn memfd(bytes: usize) -> File {
    // SAFETY: a terminated name.
    let descriptor = unsafe { libc::memfd_create(c"scene".as_ptr(), 0) };
    // SAFETY: a new descriptor, or -1, which the length below refuses.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(bytes as u64).unwrap();
    file
}

fn on_disk(bytes: usize) -> File {
    let path = std::env::temp_dir().join(format!("towpath-scene-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(path).unwrap();
    file.set_len(bytes as u64).unwrap();
    file
}
