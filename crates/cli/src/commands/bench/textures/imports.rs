//! Which memory a Vulkan driver imports, and what that costs.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;
use towpath_measure::{Clock as _, MonotonicClock};
use towpath_memory::Mapping;
use towpath_memory::memfd::{HUGE, Memfd, PAGE};
use towpath_memory::view::{FilePiece, View};
use towpath_memory::volatile::VolatileBytes;
use towpath_transfer::textures::views::Views;
use towpath_transfer::textures::vulkan::{Device, Handle, Import, Vulkan};

/// One try.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Try {
    /// What was imported.
    pub(super) memory: &'static str,
    /// How much.
    pub(super) bytes: u64,
    /// `imported`, or who refused what.
    pub(super) outcome: String,
    /// Whether the device saw the right bytes.
    pub(super) is_right: Option<bool>,
    /// Whether it sees what the processor writes later, without a new import.
    pub(super) is_live: Option<bool>,
    /// Nanoseconds of making each of five imports.
    pub(super) nanos: Vec<u64>,
}

/// Tries every kind of memory.
pub(super) fn all(vulkan: &mut Vulkan, is_quick: bool) -> Vec<Try> {
    let sizes: &[u64] = if is_quick {
        &[1 << 20]
    } else {
        &[1 << 20, 16 << 20]
    };
    let mut tries = Vec::new();
    for &bytes in sizes {
        for memory in KINDS {
            tries.push(attempt(vulkan, memory, bytes));
        }
    }
    tries
}

const KINDS: [&str; 6] = [
    "anonymous",
    "memfd",
    "memfd, stitched in 4 KiB pieces",
    "hugetlb memfd",
    "udmabuf, host pointer",
    "udmabuf, dma-buf",
];

fn attempt(vulkan: &mut Vulkan, memory: &'static str, bytes: u64) -> Try {
    let mut result = Try {
        memory,
        bytes,
        outcome: String::new(),
        is_right: None,
        is_live: None,
        nanos: Vec::new(),
    };
    let holder = match Holder::new(memory, bytes) {
        Ok(holder) => holder,
        Err(error) => {
            result.outcome = format!("no such memory here: {error:#}");
            return result;
        }
    };
    match holder.import(vulkan, &mut result) {
        Ok(()) => "imported".clone_into(&mut result.outcome),
        Err(error) => result.outcome = format!("refused: {error:#}"),
    }
    result
}

enum Holder {
    Anonymous(Mapping),
    View(View, bool),
}

impl Holder {
    fn new(memory: &str, bytes: u64) -> Result<Self> {
        let plain = || Memfd::new("towpath-import", 2 * bytes);
        let whole = |file: &Memfd| {
            View::stitch(&[FilePiece {
                file: file.as_fd(),
                offset: 0,
                len: bytes,
            }])
        };
        Ok(match memory {
            "anonymous" => Self::Anonymous(Mapping::anonymous(usize::try_from(bytes)?)?),
            "memfd" => Self::View(whole(&plain()?)?, false),
            "hugetlb memfd" => {
                let file = Memfd::huge("towpath-import", bytes.next_multiple_of(HUGE))?;
                let piece = FilePiece {
                    file: file.as_fd(),
                    offset: 0,
                    len: file.len(),
                };
                Self::View(View::stitch(&[piece])?, false)
            }
            other => {
                let file = plain()?;
                let pieces: Vec<_> = (0..bytes / PAGE)
                    .map(|index| FilePiece {
                        file: file.as_fd(),
                        // Every second page, from the end on.
                        offset: 2 * bytes - (2 * index + 1) * PAGE,
                        len: PAGE,
                    })
                    .collect();
                if other.starts_with("udmabuf") {
                    let device =
                        Views::open_device().ok_or_else(|| anyhow::anyhow!("no /dev/udmabuf"))?;
                    let is_buffer = other.ends_with("dma-buf");
                    Self::View(View::udmabuf(device.as_fd(), &pieces)?, is_buffer)
                } else {
                    Self::View(View::stitch(&pieces)?, false)
                }
            }
        })
    }

    fn import(&self, vulkan: &mut Vulkan, result: &mut Try) -> Result<()> {
        let bytes = self.bytes();
        let mut pattern: Vec<u8> = (0..bytes.len())
            .map(|at| (at.wrapping_mul(167) >> 3).to_le_bytes()[0])
            .collect();
        bytes.copy_from(&pattern);
        for round in 0..5 {
            let device = Arc::clone(vulkan.device());
            let clock = MonotonicClock;
            let start = clock.now();
            let import = self.make(&device)?;
            result.nanos.push(clock.now().saturating_sub(start).0);
            if round == 0 {
                let mut seen = vec![0; bytes.len()];
                vulkan.read_import(&import, &mut seen)?;
                result.is_right = Some(seen == pattern);
                pattern.reverse();
                bytes.copy_from(&pattern);
                vulkan.read_import(&import, &mut seen)?;
                result.is_live = Some(seen == pattern);
            }
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "the memory outlives the import")]
    fn make(&self, device: &Arc<Device>) -> Result<Import> {
        let handle = match self {
            Self::View(view, true) => match view.dma_buf() {
                Some(fd) => Handle::DmaBuf(fd, view.pages().len() as u64),
                None => Handle::Host(view.pages()),
            },
            Self::View(..) | Self::Anonymous(_) => Handle::Host(self.bytes()),
        };
        // SAFETY: `self` keeps the memory mapped, and the import is dropped in `import` before it.
        Ok(unsafe { Import::new(device, handle) }?)
    }

    #[expect(unsafe_code, reason = "a mapping as volatile bytes")]
    fn bytes(&self) -> VolatileBytes<'_> {
        match self {
            Self::View(view, _) => view.pages(),
            Self::Anonymous(mapping) => {
                let range = mapping.range();
                let start =
                    std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(range.address));
                match start {
                    // SAFETY: the mapping is ours, writable, and lives as long as `self`.
                    Some(start) => unsafe { VolatileBytes::new(start, range.len) },
                    None => VolatileBytes::empty(),
                }
            }
        }
    }
}
