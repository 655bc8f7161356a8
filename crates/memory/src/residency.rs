//! How much of a range is cold: pages on which a write would fault.
//!
//! From Linux 6.7 one `PAGEMAP_SCAN` gives the exact list (9 microseconds for 154 MiB cold, 100 to 150
//! warm). Older kernels: a sample of `/proc/self/pagemap`, since reading all of it costs 8 % of a warm
//! read of that size; it takes the page of zeros for warm. `mincore` does so too and is not used.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use towpath_sys::pagemap::{self, PageRegion};

use crate::{Range, fork, page_size};

/// How cold a range is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Residency {
    /// Read off the page tables.
    Known {
        /// Bytes in cold pages.
        cold: usize,
        /// Bytes in all pages of the range.
        total: usize,
    },
    /// Estimated from a sample of pages.
    Sampled {
        /// Bytes in cold pages, estimated.
        cold: usize,
        /// Bytes in all pages of the range.
        total: usize,
    },
    /// Not known.
    Unknown(Why),
}

/// Why residency is not known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Why {
    /// The process forked and nothing shows that the range was written since.
    Forked,
    /// The kernel's table cannot be read.
    NoPagemap,
}

impl Residency {
    /// Cold bytes, `None` where not known.
    #[must_use]
    pub const fn cold(self) -> Option<usize> {
        match self {
            Self::Known { cold, .. } | Self::Sampled { cold, .. } => Some(cold),
            Self::Unknown(_) => None,
        }
    }
}

/// How many bytes of `range` lie in pages on which a write would fault.
///
/// # Cost
///
/// Open, scan and close of pagemap: about 6 microseconds, and up to 1 microsecond per MiB of warm
/// 4 KiB pages. No allocation.
#[must_use]
pub fn cold_bytes(range: Range) -> Residency {
    let mut cold = 0;
    match visit_cold(range, &mut |piece| cold += piece.len) {
        Visited::Exact => Residency::Known {
            cold,
            total: range.pages().len,
        },
        Visited::Sampled => Residency::Sampled {
            cold,
            total: range.pages().len,
        },
        Visited::Unknown(why) => Residency::Unknown(why),
    }
}

/// How a visit found its pieces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Visited {
    /// Every cold piece was visited, and no warm one.
    Exact,
    /// Pieces stand for samples: a visited one may hold warm pages, and cold ones may be missed.
    Sampled,
    /// What was visited is cold; there may be more.
    Unknown(Why),
}

/// Calls `visit` with each cold run of pages in `range`, in order of address.
///
/// # Cost
///
/// As [`cold_bytes`].
pub fn visit_cold(range: Range, visit: &mut dyn FnMut(Range)) -> Visited {
    Scanner::new().visit(range, visit)
}

/// Why a write to a cold page would fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// No page is there.
    Absent,
    /// The page of zeros is: it has to be taken away first, on every processor that runs the process.
    Replaced,
}

/// Looks at several ranges with one pagemap descriptor. Keep it for one call only: over a fork it
/// would show the parent.
#[derive(Debug)]
pub struct Scanner {
    pagemap: Option<File>,
}

impl Scanner {
    /// Opens the pagemap; where that fails, every answer is unknown.
    #[must_use]
    pub fn new() -> Self {
        Self {
            pagemap: pagemap::open().ok(),
        }
    }

    /// As [`visit_cold`].
    pub fn visit(&self, range: Range, visit: &mut dyn FnMut(Range)) -> Visited {
        self.visit_faults(range, &mut |piece, _fault| visit(piece))
    }

    /// As [`visit_cold`], with the kind of fault that each run would take; where pages are sampled, all
    /// count as absent.
    pub fn visit_faults(&self, range: Range, visit: &mut dyn FnMut(Range, Fault)) -> Visited {
        let pages = range.pages();
        if pages.is_empty() {
            return Visited::Exact;
        }
        let Some(file) = &self.pagemap else {
            return Visited::Unknown(Why::NoPagemap);
        };
        if HAS_SCAN.load(Ordering::Relaxed) {
            match scan(file, pages, visit) {
                Ok(()) if fork::is_known(range) => return Visited::Exact,
                Ok(()) => return Visited::Unknown(Why::Forked),
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
                    HAS_SCAN.store(false, Ordering::Relaxed);
                }
                Err(_io) => return Visited::Unknown(Why::NoPagemap),
            }
        }
        match sample(file, pages, SAMPLES, &mut |piece| {
            visit(piece, Fault::Absent);
        }) {
            Err(_io) => Visited::Unknown(Why::NoPagemap),
            Ok(()) if !fork::is_known(range) => Visited::Unknown(Why::Forked),
            Ok(()) => Visited::Sampled,
        }
    }

    /// Whether one of `count` pages spread over `range` is cold; `None` where not known.
    ///
    /// # Cost
    ///
    /// Under half a microsecond per page.
    #[must_use]
    pub fn any_cold(&self, range: Range, count: usize) -> Option<bool> {
        let (pages, page) = (range.pages(), page_size());
        let total = pages.len / page;
        let count = count.min(total);
        let mut is_cold = false;
        for sample in 0..count {
            // First and last page included.
            let index = (total - 1) * sample / (count - 1).max(1);
            let address = pages.address + index * page;
            let one = Range::between(address, address.saturating_add(page));
            let mut found = |_piece: Range| is_cold = true;
            match &self.pagemap {
                None => return None,
                Some(file) if HAS_SCAN.load(Ordering::Relaxed) => {
                    scan(file, one, &mut |piece, _fault| found(piece)).ok()?;
                }
                Some(file) => sample_one(file, one, 0, &mut found).ok()?,
            }
            if is_cold {
                return Some(true);
            }
        }
        fork::is_known(range).then_some(false)
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the kernel has `PAGEMAP_SCAN`, as far as has been tried.
#[must_use]
pub fn has_scan() -> bool {
    let local = [0_u8; 1];
    let _tried = cold_bytes(Range::of(&local));
    HAS_SCAN.load(Ordering::Relaxed)
}

fn scan(file: &File, pages: Range, visit: &mut dyn FnMut(Range, Fault)) -> io::Result<()> {
    let mut regions = [PageRegion::default(); REGIONS];
    let mut start = pages.address;
    while start < pages.end() {
        let scanned = pagemap::scan_cold(file.as_fd(), start, pages.end(), &mut regions)?;
        for region in regions.iter().take(scanned.regions) {
            let piece = Range::between(
                usize::try_from(region.start).unwrap_or(usize::MAX),
                usize::try_from(region.end).unwrap_or(usize::MAX),
            );
            let is_zero_page = region.categories & pagemap::PAGE_IS_PFNZERO != 0;
            visit(
                piece,
                if is_zero_page {
                    Fault::Replaced
                } else {
                    Fault::Absent
                },
            );
        }
        if scanned.walk_end <= start {
            // No progress would be a kernel bug; never spin on it.
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        start = scanned.walk_end;
    }
    Ok(())
}

/// As [`visit_cold`] on kernels without `PAGEMAP_SCAN`: looks at 32 pages and visits the stretch that
/// each cold one stands for.
///
/// # Errors
///
/// Those of opening and reading `/proc/self/pagemap`.
pub fn visit_sampled(range: Range, visit: &mut dyn FnMut(Range)) -> io::Result<()> {
    sample(&pagemap::open()?, range.pages(), SAMPLES, visit)
}

fn sample(
    file: &File,
    pages: Range,
    samples: usize,
    visit: &mut dyn FnMut(Range),
) -> io::Result<()> {
    let page = page_size();
    let count = pages.len / page;
    let samples = count.min(samples);
    // Relaxed: any number will do.
    let mut random = SEED.fetch_add(ODD, Ordering::Relaxed) ^ pages.address as u64;
    for sample in 0..samples {
        let first = pages.address + count * sample / samples * page;
        let after = pages.address + count * (sample + 1) / samples * page;
        random = mix(random);
        sample_one(file, Range::between(first, after), random, visit)?;
    }
    Ok(())
}

/// Visits the stretch if one of its pages, chosen by `random`, is absent. Equal distances would meet only
/// one kind of a pattern that repeats (every other page written). Edge pages, often shared with neighbours,
/// do not decide.
fn sample_one(
    file: &File,
    stretch: Range,
    random: u64,
    visit: &mut dyn FnMut(Range),
) -> io::Result<()> {
    let page = page_size();
    let count = stretch.len / page;
    let (first, inner) = if count > 2 {
        (1, count - 2)
    } else {
        (0, count)
    };
    let index = usize::try_from(random >> 32).unwrap_or(0) % inner.max(1) + first;
    if !pagemap::entry(file, stretch.address + index * page, page)?.is_present() {
        visit(stretch);
    }
    Ok(())
}

/// The next number of a sequence without pattern (splitmix64's output step).
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Regions per scan: 3 KiB of the stack of the program's thread, which may have 16 KiB in all.
const REGIONS: usize = 128;
/// Samples on older kernels: a read of 8 bytes each, about 15 microseconds in all.
const SAMPLES: usize = 32;
static HAS_SCAN: AtomicBool = AtomicBool::new(true);
/// Moves on with every sample, so that two looks at one range see other pages.
static SEED: AtomicU64 = AtomicU64::new(0);
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
