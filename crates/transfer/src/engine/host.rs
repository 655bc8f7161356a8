//! The engine for programs that own their memory: slices, rows and buffers in place of addresses.

#![expect(unsafe_code, reason = "vouches for slices that it borrows")]

use towpath_memory::residency::cold_bytes;
use towpath_memory::{Mapping, Range};

use super::{Backend, Bring, Destination, Engine, Error, Moved, Pinned, Result, Source};
use crate::readback::Footprint;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Bytes(pub usize);

/// Rows in host memory; on the device they lie packed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rows {
    /// How many.
    pub count: usize,
    /// Length of a row.
    pub row: Bytes,
    /// From the start of a row to that of the next; at least a row.
    pub pitch: Bytes,
}

impl Rows {
    /// Rows that follow one another without a gap.
    #[must_use]
    pub const fn packed(count: usize, row: Bytes) -> Self {
        Self {
            count,
            row,
            pitch: row,
        }
    }

    fn footprint(&self, address: usize, len: usize) -> Result<Footprint> {
        let refused = Error::Rows {
            rows: self.count,
            row_bytes: self.row.0,
            pitch_bytes: self.pitch.0,
            len,
        };
        let region = [self.row.0, self.count, 1];
        if self.pitch < self.row {
            return Err(refused);
        }
        match Footprint::rect(address, [0; 3], region, self.pitch.0, 0) {
            Ok(footprint) if footprint.envelope().len <= len => Ok(footprint),
            _ => Err(refused),
        }
    }
}

/// Which memory a [`HostBuffer`] has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum HostKind {
    /// The device reaches it at full speed, but the system cannot page it out: keep it small.
    Pinned,
    /// Ordinary memory.
    Pageable,
}

/// Host memory for transfers.
#[derive(Debug)]
pub struct HostBuffer<S> {
    memory: Memory<S>,
    len: usize,
}

#[derive(Debug)]
enum Memory<S> {
    Pinned(S),
    Pageable(Mapping),
}

impl<S: Pinned> HostBuffer<S> {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.memory {
            Memory::Pinned(slot) => slot.bytes(),
            Memory::Pageable(mapping) => mapping.as_slice(),
        };
        all.get(..self.len).unwrap_or_default()
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let all = match &mut self.memory {
            Memory::Pinned(slot) => slot.bytes_mut(),
            Memory::Pageable(mapping) => mapping.as_mut_slice(),
        };
        all.get_mut(..self.len).unwrap_or_default()
    }

    /// Which memory it has.
    #[must_use]
    pub const fn kind(&self) -> HostKind {
        match self.memory {
            Memory::Pinned(_) => HostKind::Pinned,
            Memory::Pageable(_) => HostKind::Pageable,
        }
    }
}

impl<B: Backend> Engine<B> {
    /// Host memory of `len` bytes. Pinned memory of up to a slot's size comes from the engine's pool;
    /// give it back with [`Self::recycle`].
    ///
    /// # Errors
    ///
    /// - [`Error::NoPinnedMemory`], [`Error::NoHostMemory`].
    pub fn host_buffer(&self, len: Bytes, kind: HostKind) -> Result<HostBuffer<B::Slot>> {
        let len = len.0;
        let memory = match kind {
            HostKind::Pageable => {
                let none = |_refused| Error::NoHostMemory { bytes: len };
                Memory::Pageable(Mapping::anonymous(len).map_err(none)?)
            }
            HostKind::Pinned if len <= self.pool().slot_bytes() => {
                let slot = self
                    .pool()
                    .take(self.backend(), 1, self.pool().slot_bytes())?
                    .pop();
                Memory::Pinned(slot.ok_or(Error::NoPinnedMemory { bytes: len })?)
            }
            HostKind::Pinned => Memory::Pinned(self.backend().pin(len)?),
        };
        Ok(HostBuffer { memory, len })
    }

    /// Gives a buffer's pinned memory back to the pool, if it came from there.
    pub fn recycle(&self, buffer: HostBuffer<B::Slot>) {
        if let Memory::Pinned(slot) = buffer.memory
            && slot.bytes().len() == self.pool().slot_bytes()
        {
            self.pool().give([slot]);
        }
    }

    /// Fills `to` from the device, `from` the offset on, and returns when it is there.
    ///
    /// Pages of `to` that are absent are brought in by the workers.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    ///
    /// # Examples
    ///
    /// ```
    /// use towpath_transfer::engine::null::{Null, NullMemory};
    /// use towpath_transfer::engine::{Bytes, Engine, Shape};
    ///
    /// let engine = Engine::new(Null, Shape::new(2, 1 << 20));
    /// let device = NullMemory::new(vec![7; 1000]);
    /// let mut host = vec![0; 900];
    /// engine.read_into(&device, Bytes(100), &mut host)?;
    /// assert!(host.iter().all(|byte| *byte == 7));
    /// # Ok::<(), towpath_transfer::engine::Error>(())
    /// ```
    pub fn read_into(&self, device: &B::Memory, from: Bytes, to: &mut [u8]) -> Result<Moved> {
        let rows = Rows::packed(1, Bytes(to.len()));
        self.read_rows_into(device, from, to, &rows)
    }

    /// As [`Self::read_into`], to rows; bytes between rows stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Self::read`]; [`Error::Rows`] if they do not fit.
    pub fn read_rows_into(
        &self,
        device: &B::Memory,
        from: Bytes,
        to: &mut [u8],
        rows: &Rows,
    ) -> Result<Moved> {
        let range = Range::of(to);
        let footprint = rows.footprint(to.as_mut_ptr().expose_provenance(), range.len)?;
        let is_cold =
            range.len >= COLD_BYTES_MIN && cold_bytes(range).cold().is_none_or(|cold| cold > 0);
        let bring = if is_cold {
            Bring::HugePages
        } else {
            Bring::Nothing
        };
        // SAFETY: the footprint lies in `to`, which is borrowed exclusively until this returns.
        let destination = unsafe { Destination::new(footprint, bring) };
        self.read(device, from.0, &destination)
    }

    /// Copies `from` to the device, from the offset `to` on, and returns when it is there.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn write_from(&self, from: &[u8], device: &B::Memory, to: Bytes) -> Result<Moved> {
        self.write_rows_from(from, &Rows::packed(1, Bytes(from.len())), device, to)
    }

    /// As [`Self::write_from`], from rows.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; [`Error::Rows`] if they do not fit.
    pub fn write_rows_from(
        &self,
        from: &[u8],
        rows: &Rows,
        device: &B::Memory,
        to: Bytes,
    ) -> Result<Moved> {
        let footprint = rows.footprint(from.as_ptr().expose_provenance(), from.len())?;
        // SAFETY: the footprint lies in `from`, which is borrowed until this returns.
        let source = unsafe { Source::new(footprint) };
        self.write(&source, device, to.0)
    }
}

/// 256 KiB: below it the look at the page tables costs as much as the faults.
const COLD_BYTES_MIN: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::super::null::{Null, NullMemory};
    use super::*;

    fn engine() -> Engine<Null> {
        Engine::new(Null, Shape::new(2, 64 << 10))
    }

    #[test]
    fn rows_go_and_come_and_gaps_stay() {
        let engine = engine();
        let device = NullMemory::new(vec![0; 5000]);
        let rows = Rows {
            count: 10,
            row: Bytes(30),
            pitch: Bytes(50),
        };
        let from: Vec<u8> = (0..=255).cycle().take(480).collect();
        engine
            .write_rows_from(&from, &rows, &device, Bytes(100))
            .unwrap();
        let mut to = vec![0xee; 480];
        engine
            .read_rows_into(&device, Bytes(100), &mut to, &rows)
            .unwrap();
        for (index, byte) in to.iter().enumerate() {
            assert_eq!(*byte, if index % 50 < 30 { from[index] } else { 0xee });
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let engine = engine();
        let device = NullMemory::new(vec![0; 5000]);
        let mut host = vec![0; 480];
        for rows in [
            Rows {
                count: 10,
                row: Bytes(30),
                pitch: Bytes(50),
            },
            Rows {
                count: 2,
                row: Bytes(30),
                pitch: Bytes(29),
            },
            Rows {
                count: usize::MAX,
                row: Bytes(2),
                pitch: Bytes(2),
            },
            Rows {
                count: 0,
                row: Bytes(2),
                pitch: Bytes(2),
            },
        ] {
            let answer = engine.read_rows_into(&device, Bytes(0), &mut host, &rows);
            // 10 rows of 30, 50 apart, end at 480.
            let fits = rows.count == 10;
            assert_eq!(answer.is_ok(), fits, "{rows:?}");
            assert!(fits || matches!(answer, Err(Error::Rows { .. })));
        }
        let rows = Rows {
            count: 10,
            row: Bytes(30),
            pitch: Bytes(50),
        };
        assert!(
            engine
                .read_rows_into(&device, Bytes(0), &mut host[..479], &rows)
                .is_err()
        );
    }

    #[test]
    fn pinned_buffers_come_from_the_pool_and_go_back() {
        let engine = engine();
        let mut small = engine.host_buffer(Bytes(1000), HostKind::Pinned).unwrap();
        small.bytes_mut().fill(3);
        assert_eq!(
            (small.kind(), small.bytes().len()),
            (HostKind::Pinned, 1000)
        );
        engine.recycle(small);
        assert_eq!(engine.idle_pinned_bytes(), 64 << 10);
        let large = engine
            .host_buffer(Bytes(1 << 20), HostKind::Pinned)
            .unwrap();
        engine.recycle(large);
        assert_eq!(engine.idle_pinned_bytes(), 64 << 10);
        let mut plain = engine.host_buffer(Bytes(100), HostKind::Pageable).unwrap();
        assert_eq!(plain.bytes_mut().len(), 100);
    }

    /// The layer's staging of a queue serves calls of all classes; it once kept the threads of the first.
    #[test]
    fn a_copy_has_the_threads_it_asks_for_and_makes_few_slots_at_a_time() {
        let slot = 2 << 20;
        let engine = Engine::new(Null, Shape::new(12, slot));
        let bytes = 25 * slot;
        let device = NullMemory::new(vec![5; bytes]);
        let mut host = vec![0_u8; bytes];
        let start = host.as_mut_ptr().expose_provenance();
        let footprint = Footprint::buffer(start, bytes).unwrap();
        // SAFETY: the footprint is the vector's, which nothing else uses until the last read is over.
        let to = unsafe { Destination::new(footprint, Bring::Nothing) };
        // Two threads have six slots; then six new ones at a time up to the sixteen of twelve threads.
        for (asked, threads, slots) in [(2, 2, 6), (12, 12, 12), (12, 12, 16), (2, 2, 16)] {
            let moved = engine
                .read_with(Shape::new(asked, slot), &device, 0, &to)
                .unwrap();
            assert_eq!((moved.threads, moved.bytes), (threads, bytes));
            assert_eq!(engine.idle_pinned_bytes(), slots * slot);
        }
        // Larger chunks need larger slots; what is idle makes room for them.
        for shape in [Shape::new(3, 2 * slot), Shape::new(12, slot)] {
            let moved = engine.read_with(shape, &device, 0, &to).unwrap();
            assert_eq!(moved.bytes, bytes);
            assert!(engine.idle_pinned_bytes() <= 16 * slot);
        }
        // SAFETY: as above; read only.
        let from = unsafe { Source::new(footprint) };
        let moved = engine
            .write_with(Shape::new(3, slot), &from, &device, 0)
            .unwrap();
        assert_eq!(moved.threads, 3);
        assert!(host.iter().all(|byte| *byte == 5));
    }
}
