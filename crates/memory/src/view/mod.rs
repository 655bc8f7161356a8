//! Views: pieces of memory files mapped one after the other, so that an interface that wants one pointer
//! gets one.
//!
//! Two ways lead there. A *stitched* view maps each piece over a reserved range: it works without
//! privileges, can be handed to anything that pins pages, and costs one kernel mapping per piece that has
//! no neighbour in the file. A *udmabuf* view is one mapping of a dma-buf: cheaper to make, can be imported
//! by a driver, takes 4 KiB pieces of huge pages, but cannot be pinned again (`VM_PFNMAP`) and needs
//! brackets around accesses.
//!
//! The first piece may begin and the last may end inside a page; every inner border must lie on a page
//! border of its file. Anything else is [`Error::Unaligned`], and the caller copies.

#![expect(unsafe_code, reason = "mappings at fixed addresses")]

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mremap_fixed, munmap,
};
use towpath_sys::dma_buf::{self, Access};
use towpath_sys::udmabuf;

use crate::Range;
use crate::memfd::{PAGE, granularity};
use crate::volatile::VolatileBytes;

/// A run of bytes of a memory file.
#[derive(Clone, Copy, Debug)]
pub struct FilePiece<'a> {
    /// The memory file.
    pub file: BorrowedFd<'a>,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to map.
    #[error("the pieces hold no bytes")]
    Empty,
    /// A border inside the view does not lie on a page border of its file.
    #[error("piece {piece} begins or ends inside a page of {granularity} bytes")]
    Unaligned {
        /// Which piece, from 0.
        piece: usize,
        /// The file's page size.
        granularity: u64,
    },
    /// Offsets or lengths do not fit the address space.
    #[error("piece {piece} does not fit the address space")]
    TooLarge {
        /// Which piece, from 0.
        piece: usize,
    },
    /// The kernel refused: out of mappings, out of memory, past the file's end, no such device.
    #[error("the kernel refused to {operation}")]
    Refused {
        /// What was tried.
        operation: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// A contiguous mapping of pieces; unmapped when dropped.
#[derive(Debug)]
pub struct View {
    start: NonNull<u8>,
    mapped: usize,
    skip: usize,
    len: usize,
    mappings: usize,
    buffer: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only reached through volatile bytes.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Maps the pieces one after the other, shared and writable, with all pages present.
    ///
    /// Cost: one system call per piece and two more; about 3 us per piece and 1 us per page
    /// (`research` constants; calibration measures them). Page tables of 8 bytes per page.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`]; nothing stays mapped.
    pub fn stitch(pieces: &[FilePiece<'_>]) -> Result<Self, Error> {
        let units = Units::default();
        let spans = || pieces.iter().map(|piece| units.span(piece));
        let mut view = Self::reserve(&Layout::of(spans())?)?;
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        let mut at = 0;
        for ((piece, span), index) in pieces.iter().zip(spans()).zip(0..) {
            let (offset, len) = span?.widened(index)?;
            if piece.len == 0 {
                continue;
            }
            // SAFETY: `Layout::of` summed the same spans, so `at + len` stays inside the reservation.
            let target = unsafe { view.start.add(at) };
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            let target = target.as_ptr().cast();
            // SAFETY: the target range belongs to our reservation, which nobody else uses yet.
            unsafe { mmap(target, len, writable, flags, piece.file, offset) }
                .map_err(refused("map a piece"))?;
            at += len;
            view.mappings += 1;
        }
        view.populate()?;
        Ok(view)
    }

    /// As [`stitch`](Self::stitch), for shared memory that is mapped already: each run of addresses gets a
    /// second mapping of the same pages, without knowing their file. `unit` is the page size of all runs.
    ///
    /// # Errors
    ///
    /// As [`stitch`](Self::stitch). `EINVAL` and `EFAULT` in [`Error::Refused`] for memory that is private
    /// or a driver's; the kernel also logs a warning then, so ask [`vma::kind`](crate::vma::kind) before.
    pub fn alias(runs: &[Range], unit: u64) -> Result<Self, Error> {
        let span = |run: &Range| Span {
            offset: run.address as u64,
            len: run.len as u64,
            unit,
        };
        let layout = Layout::of(runs.iter().map(|run| Ok(span(run))))?;
        let mut view = Self::reserve(&layout)?;
        let mut at = 0;
        for (run, index) in runs.iter().zip(0..).filter(|(run, _)| run.len > 0) {
            let (address, len) = span(run).widened(index)?;
            // SAFETY: as in `stitch`.
            let target = unsafe { view.start.add(at) };
            let source =
                usize::try_from(address).map_err(|_too_large| Error::TooLarge { piece: index })?;
            let source = std::ptr::without_provenance_mut(source);
            let flags = MremapFlags::MAYMOVE;
            // SAFETY: an old length of 0 leaves the source as it is and makes a second mapping; the
            // target range belongs to our reservation.
            unsafe { mremap_fixed(source, 0, len, flags, target.as_ptr().cast()) }
                .map_err(refused("map a run again"))?;
            at += len;
            view.mappings += 1;
        }
        view.populate()?;
        Ok(view)
    }

    /// Makes all pages present.
    fn populate(&self) -> Result<(), Error> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is mapped; populating it changes no contents.
        match unsafe { madvise(start, self.mapped, Advice::LinuxPopulateWrite) } {
            // Kernels before 5.14 fault pages in at the first access instead.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(errno) => Err(refused("populate the view")(errno)),
        }
    }

    /// Makes a dma-buf of the pieces through `device` (`/dev/udmabuf`) and maps it.
    ///
    /// Cost: two system calls, one pin per page; the first access faults.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`]; `EINVAL` in [`Error::Refused`] for more than 1024 pieces or 64 MiB
    /// (the device's limits) and for files without `F_SEAL_SHRINK`.
    pub fn udmabuf(device: BorrowedFd<'_>, pieces: &[FilePiece<'_>]) -> Result<Self, Error> {
        // udmabuf takes 4 KiB pieces even of huge files.
        let span = |piece: &FilePiece<'_>| Span {
            offset: piece.offset,
            len: piece.len,
            unit: PAGE,
        };
        let layout = Layout::of(pieces.iter().map(|piece| Ok(span(piece))))?;
        let mut items = Vec::with_capacity(pieces.len());
        for (piece, index) in pieces.iter().zip(0..).filter(|(piece, _)| piece.len > 0) {
            let (offset, len) = span(piece).widened(index)?;
            items.push(udmabuf::Item::new(piece.file, offset, len as u64));
        }
        let buffer = udmabuf::create_list(device, &items).map_err(|source| Error::Refused {
            operation: "create a udmabuf",
            source,
        })?;
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        let no_hint = std::ptr::null_mut();
        let len = layout.mapped;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap(no_hint, len, writable, MapFlags::SHARED, &buffer, 0) }
            .map_err(refused("map a udmabuf"))?;
        let start = NonNull::new(start.cast()).ok_or(Error::Empty)?;
        Ok(Self {
            start,
            mapped: layout.mapped,
            skip: layout.skip,
            len: layout.len,
            mappings: 1,
            buffer: Some(buffer),
        })
    }

    /// The pieces' bytes. Between [`begin`](Self::begin) and the drop of its answer for a udmabuf view.
    #[must_use]
    pub fn bytes(&self) -> VolatileBytes<'_> {
        // SAFETY: `skip + len <= mapped` by `Layout::of`.
        let start = unsafe { self.start.add(self.skip) };
        // SAFETY: the range is mapped readable and writable until `self` is dropped, and no reference
        // to it is ever made.
        unsafe { VolatileBytes::new(start, self.len) }
    }

    /// The whole mapping: page-aligned at both ends, as drivers want it for an import.
    #[must_use]
    pub fn pages(&self) -> VolatileBytes<'_> {
        // SAFETY: the whole range is mapped until `self` is dropped.
        unsafe { VolatileBytes::new(self.start, self.mapped) }
    }

    /// Bytes between the start of [`pages`](Self::pages) and that of [`bytes`](Self::bytes).
    #[must_use]
    pub const fn skip(&self) -> usize {
        self.skip
    }

    /// The dma-buf behind a udmabuf view.
    #[must_use]
    pub fn dma_buf(&self) -> Option<BorrowedFd<'_>> {
        self.buffer.as_ref().map(|buffer| buffer.as_fd())
    }

    /// Kernel mappings made, an upper bound of those used: the kernel merges neighbours.
    #[must_use]
    pub const fn mappings(&self) -> usize {
        self.mappings
    }

    /// Begins an access by the processor; the answer ends it when dropped, on every path.
    ///
    /// # Errors
    ///
    /// The kernel's, for a udmabuf view. A stitched view needs no bracket and never fails.
    pub fn begin(&self, access: Access) -> io::Result<Accessing<'_>> {
        if let Some(buffer) = self.dma_buf() {
            dma_buf::sync_start(buffer, access)?;
        }
        Ok(Accessing { view: self, access })
    }

    fn reserve(layout: &Layout) -> Result<Self, Error> {
        let no_hint = std::ptr::null_mut();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { mmap_anonymous(no_hint, layout.reserved(), ProtFlags::empty(), flags) }
                .map_err(refused("reserve addresses"))?;
        let aligned = layout.align(start.addr()) - start.addr();
        trim(start.cast(), layout.reserved(), aligned, layout.mapped);
        // SAFETY: `reserved()` leaves room for the alignment, so the result lies in the reservation.
        let start = unsafe { start.cast::<u8>().add(aligned) };
        let start = NonNull::new(start).ok_or(Error::Empty)?;
        Ok(Self {
            start,
            mapped: layout.mapped,
            skip: layout.skip,
            len: layout.len,
            mappings: 0,
            buffer: None,
        })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the range is ours; `bytes` and `pages` borrow `self`, so nobody uses it any more.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// An access by the processor in progress.
#[derive(Debug)]
#[must_use = "the access ends when this is dropped"]
pub struct Accessing<'a> {
    view: &'a View,
    access: Access,
}

impl Accessing<'_> {
    /// The view's bytes.
    #[must_use]
    pub fn bytes(&self) -> VolatileBytes<'_> {
        self.view.bytes()
    }
}

impl Drop for Accessing<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.view.dma_buf() {
            let _nothing_to_do = dma_buf::sync_end(buffer, self.access);
        }
    }
}

/// Page sizes of files; remembers the last, since a backing has one file as a rule.
#[derive(Debug, Default)]
struct Units {
    last: Cell<Option<(RawFd, u64)>>,
}

impl Units {
    fn span(&self, piece: &FilePiece<'_>) -> Result<Span, Error> {
        let number = piece.file.as_raw_fd();
        let unit = match self.last.get().filter(|(seen, _)| *seen == number) {
            Some((_, unit)) => unit,
            None => granularity(piece.file).map_err(|source| Error::Refused {
                operation: "look at a piece's file",
                source,
            })?,
        };
        self.last.set(Some((number, unit)));
        Ok(Span {
            offset: piece.offset,
            len: piece.len,
            unit,
        })
    }
}

/// A run to map: where it begins in what is mapped, its bytes, and the page size there.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: u64,
    len: u64,
    unit: u64,
}

impl Span {
    /// Offset and length, widened to whole pages.
    fn widened(self, piece: usize) -> Result<(u64, usize), Error> {
        let too_large = || Error::TooLarge { piece };
        let end = self.offset.checked_add(self.len).ok_or_else(too_large)?;
        let start = self.offset / self.unit * self.unit;
        let end = end
            .checked_next_multiple_of(self.unit)
            .ok_or_else(too_large)?;
        let len = usize::try_from(end - start).map_err(|_too_large| too_large())?;
        // Addresses end at 2^47; larger sums cannot be mapped anyway.
        if len > isize::MAX.cast_unsigned() {
            return Err(too_large());
        }
        Ok((start, len))
    }
}

#[derive(Debug)]
struct Layout {
    granularity: u64,
    mapped: usize,
    skip: usize,
    len: usize,
    /// The piece that ends inside a page; it must be the last.
    ragged: Option<(usize, u64)>,
}

impl Layout {
    /// Checks and sums spans that hold bytes.
    fn of(spans: impl Iterator<Item = Result<Span, Error>>) -> Result<Self, Error> {
        let mut layout = Self {
            granularity: PAGE,
            mapped: 0,
            skip: 0,
            len: 0,
            ragged: None,
        };
        for (span, index) in spans.zip(0..) {
            let span = span?;
            if span.len > 0 {
                layout.add(span, index)?;
            }
        }
        if layout.len == 0 {
            return Err(Error::Empty);
        }
        Ok(layout)
    }

    fn add(&mut self, span: Span, piece: usize) -> Result<(), Error> {
        let too_large = || Error::TooLarge { piece };
        let unaligned = |(piece, granularity)| Err(Error::Unaligned { piece, granularity });
        if let Some(ragged) = self.ragged {
            return unaligned(ragged);
        }
        self.granularity = self.granularity.max(span.unit);
        let (offset, mapped) = span.widened(piece)?;
        let skip = usize::try_from(span.offset - offset).map_err(|_too_large| too_large())?;
        let len = usize::try_from(span.len).map_err(|_too_large| too_large())?;
        if self.len == 0 {
            self.skip = skip;
        } else if skip != 0 {
            return unaligned((piece, span.unit));
        }
        if skip + len != mapped {
            self.ragged = Some((piece, span.unit));
        }
        self.mapped = self.mapped.checked_add(mapped).ok_or_else(too_large)?;
        self.len = self.len.checked_add(len).ok_or_else(too_large)?;
        Ok(())
    }

    fn reserved(&self) -> usize {
        let slack = usize::try_from(self.granularity - PAGE).unwrap_or(0);
        self.mapped.saturating_add(slack)
    }

    fn align(&self, address: usize) -> usize {
        let unit = usize::try_from(self.granularity).unwrap_or(1);
        address.next_multiple_of(unit)
    }
}

/// Gives back what a reservation has before and after the part that is used.
fn trim(start: *mut u8, reserved: usize, before: usize, used: usize) {
    let after = reserved - before - used;
    if before > 0 {
        // SAFETY: the first `before` bytes are ours and unused.
        let _unmapped = unsafe { munmap(start.cast(), before) };
    }
    if after > 0 {
        let end = start.wrapping_add(before + used);
        // SAFETY: the last `after` bytes are ours and unused.
        let _unmapped = unsafe { munmap(end.cast(), after) };
    }
}

fn refused(operation: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |errno| Error::Refused {
        operation,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests;
