//! Guest memory: one memory file of our own, or the regions of `vm-memory`.

#![expect(unsafe_code, reason = "the promise of `Memory`")]

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::NonNull;

use towpath_memory::memfd::Memfd;
use towpath_memory::view::{FilePiece, View};
use towpath_memory::volatile::VolatileBytes;
use vm_memory::{
    Address as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _,
};

use super::backing::{Entry, FileAt, Memory, Run};
use super::error::{Error, Result};

/// A memory file, mapped whole: the memory of a guest from address 0 on.
#[derive(Debug)]
pub struct Ram {
    file: Memfd,
    map: View,
}

impl Ram {
    /// `len` bytes in pages of 4 KiB, all present.
    ///
    /// # Errors
    ///
    /// [`Error::System`] without memory, addresses or descriptors.
    pub fn new(len: u64) -> Result<Self> {
        Self::over(Memfd::new("towpath-ram", len))
    }

    /// As [`new`](Self::new), in huge pages.
    ///
    /// # Errors
    ///
    /// Also where too few huge pages are reserved.
    pub fn huge(len: u64) -> Result<Self> {
        Self::over(Memfd::huge("towpath-ram", len))
    }

    fn over(file: std::io::Result<Memfd>) -> Result<Self> {
        let file = file.map_err(|source| Error::System {
            operation: "make a memory file",
            source,
        })?;
        let whole = FilePiece {
            file: file.as_fd(),
            offset: 0,
            len: file.len(),
        };
        let map = View::stitch(&[whole]).map_err(|error| Error::System {
            operation: "map a memory file",
            source: std::io::Error::other(error),
        })?;
        Ok(Self { file, map })
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> VolatileBytes<'_> {
        self.map.bytes()
    }

    /// The memory file.
    #[must_use]
    pub const fn file(&self) -> &Memfd {
        &self.file
    }
}

// SAFETY: `map` and `file` live as long as `self`, and `bytes` hands out no references.
unsafe impl Memory for Ram {
    fn resolve(&self, entry: Entry, add: &mut dyn FnMut(Run)) -> Result<()> {
        let outside = Error::NotGuestMemory {
            address: entry.address,
            len: entry.len,
        };
        let range = usize::try_from(entry.address)
            .ok()
            .zip(usize::try_from(entry.len).ok());
        let part = range.and_then(|(at, len)| self.bytes().get(at, len));
        let start = part.and_then(|part| NonNull::new(part.as_ptr()).zip(Some(part.len())));
        let Some((start, len)) = start else {
            return Err(outside);
        };
        let file = FileAt {
            fd: self.file.as_fd().as_raw_fd(),
            offset: entry.address,
        };
        add(Run::new(start, len, Some(file)));
        Ok(())
    }

    fn mapping(&self, _run: &Run) -> Option<VolatileBytes<'_>> {
        Some(self.map.pages())
    }
}

// SAFETY: the regions are reference-counted inside and stay mapped as long as `self` lives; rust-vmm
// reaches them through volatile slices only.
unsafe impl Memory for GuestMemoryMmap<()> {
    fn resolve(&self, entry: Entry, add: &mut dyn FnMut(Run)) -> Result<()> {
        let outside = || Error::NotGuestMemory {
            address: entry.address,
            len: entry.len,
        };
        let mut address = GuestAddress(entry.address);
        let mut rest = entry.len;
        while rest > 0 {
            let region = self.find_region(address).ok_or_else(outside)?;
            let inside = region.to_region_addr(address).ok_or_else(outside)?;
            let len = rest.min(region.len() - inside.raw_value());
            let host = region.get_host_address(inside).ok();
            let start = host.and_then(NonNull::new).ok_or_else(outside)?;
            let file = region.file_offset().map(|file| FileAt {
                fd: file.file().as_raw_fd(),
                offset: file.start().saturating_add(inside.raw_value()),
            });
            add(Run::new(start, usize::try_from(len).unwrap_or(0), file));
            rest -= len;
            if rest > 0 {
                address = address.checked_add(len).ok_or_else(outside)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::backing::Backing;
    use super::*;

    #[test]
    fn an_entry_across_two_regions_is_split() {
        let ranges = [(GuestAddress(0), 0x2000), (GuestAddress(0x2000), 0x2000)];
        let memory: Arc<dyn Memory> =
            Arc::new(GuestMemoryMmap::<()>::from_ranges(&ranges).unwrap());
        let entry = Entry {
            address: 0x1000,
            len: 0x2000,
        };
        let backing = Backing::attach(&memory, &[entry]).unwrap();
        assert_eq!(backing.len(), 0x2000);
        assert_eq!(backing.entries(), 1);
        assert!(
            matches!(backing.runs().len(), 1 | 2),
            "two unless the maps happen to touch"
        );
        let past = Entry {
            address: 0x3000,
            len: 0x1001,
        };
        assert!(Backing::attach(&memory, &[past]).is_err());
    }
}
