//! What every backend must do, run on the null backend and on PoCL; and what the engine does when a
//! backend fails in the middle.

#![expect(unsafe_code, reason = "tests vouch for their own memory")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::type_complexity,
    reason = "tests"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use towpath_memory::Mapping;
use towpath_transfer::engine::null::{Null, NullMemory, NullSlot};
use towpath_transfer::engine::{
    Backend, Bring, Destination, Engine, Error, Pinned, Result, Shape, Source,
};
use towpath_transfer::readback::Footprint;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|n| (n * 31 + n / 257 + 1).to_le_bytes()[0])
        .collect()
}

/// Reads and writes of many sizes, shapes and offsets give the right bytes and no others.
fn conforms<B: Backend>(
    make: &dyn Fn() -> B,
    device: &dyn Fn(&B, Vec<u8>) -> Box<B::Memory>,
    content: &dyn Fn(&B, Box<B::Memory>) -> Vec<u8>,
) {
    for (threads, slots, chunk) in [
        (1, 1, 4096),
        (2, 4, 1 << 16),
        (3, 2, 1 << 20),
        (4, 8, 10_000),
    ] {
        let shape = Shape {
            chunk_bytes: chunk,
            slots,
            threads,
        };
        let engine = Engine::new(make(), shape);
        let data = pattern(1_300_000);
        let memory = device(engine.backend(), data.clone());
        for (offset, bytes) in [
            (0, 1),
            (7, 4096),
            (100, 1_299_900),
            (0, 1_300_000),
            (1, 70_001),
        ] {
            for bring in [Bring::Nothing, Bring::Pages, Bring::HugePages] {
                let mut host = Mapping::anonymous(bytes + 200).unwrap();
                let start = host.range().address + 64;
                let footprint = Footprint::buffer(start, bytes).unwrap();
                // SAFETY: the bytes lie in the mapping, which only the engine uses meanwhile.
                let to = unsafe { Destination::new(footprint, bring) };
                let moved = engine.read(&memory, offset, &to).unwrap();
                assert_eq!(moved.bytes, bytes);
                let host = host.as_mut_slice();
                assert_eq!(&host[64..64 + bytes], &data[offset..offset + bytes]);
                assert!(host[..64].iter().all(|byte| *byte == 0));
                assert!(host[64 + bytes..].iter().all(|byte| *byte == 0));
            }
        }
        rows_conform(&engine, &memory, &data);
        writes_conform(&engine, device, content);
        engine.trim();
        assert_eq!(engine.idle_pinned_bytes(), 0);
    }
}

fn rows_conform<B: Backend>(engine: &Engine<B>, memory: &B::Memory, data: &[u8]) {
    let mut host = vec![0_u8; 3_000_000];
    let start = host.as_mut_ptr().expose_provenance();
    let rect = Footprint::rect(start, [10, 2, 0], [1000, 300, 3], 2500, 800_000).unwrap();
    // SAFETY: the rows lie in the vector, which only the engine uses meanwhile.
    let to = unsafe { Destination::new(rect, Bring::Pages) };
    engine.read(memory, 5, &to).unwrap();
    let mut expected = vec![0_u8; host.len()];
    for (row, bytes) in rect.rows().zip(data[5..].chunks(1000)) {
        expected[row.address - start..][..1000].copy_from_slice(bytes);
    }
    assert!(host == expected);
}

fn writes_conform<B: Backend>(
    engine: &Engine<B>,
    device: &dyn Fn(&B, Vec<u8>) -> Box<B::Memory>,
    content: &dyn Fn(&B, Box<B::Memory>) -> Vec<u8>,
) {
    let data = pattern(1_100_000);
    for (at, bytes) in [(0, 1_100_000), (33, 1), (4096, 900_001)] {
        let memory = device(engine.backend(), vec![0; 1_200_000]);
        let footprint = Footprint::buffer(data.as_ptr().expose_provenance(), bytes).unwrap();
        // SAFETY: the bytes lie in the vector, which nobody writes.
        let from = unsafe { Source::new(footprint) };
        let moved = engine.write(&from, &memory, at).unwrap();
        assert_eq!(moved.bytes, bytes);
        let found = content(engine.backend(), memory);
        let mut expected = vec![0_u8; 1_200_000];
        expected[at..at + bytes].copy_from_slice(&data[..bytes]);
        assert!(found == expected);
    }
}

#[test]
fn the_null_backend_conforms() {
    conforms(
        &|| Null,
        &|_, bytes| Box::new(NullMemory::new(bytes)),
        &|_, memory| memory.into_bytes(),
    );
}

#[cfg(feature = "opencl")]
#[test]
fn the_opencl_backend_conforms() {
    use towpath_transfer::opencl::{Cl, Functions, devices};
    if !towpath_needs::can_run(&[towpath_needs::Need::Pocl]) {
        return;
    }
    let functions = Functions::load("libOpenCL.so.1").unwrap();
    let all = devices(&functions).unwrap();
    let device = all
        .iter()
        .find(|device| device.matches("portable"))
        .unwrap();
    let cl = Cl::open(&functions, device).unwrap();
    let whole = |bytes: &mut [u8]| {
        Footprint::buffer(bytes.as_mut_ptr().expose_provenance(), bytes.len()).unwrap()
    };
    let plain = Engine::new(cl.clone(), Shape::new(1, 1 << 20));
    conforms(
        &|| cl.clone(),
        &|cl, mut bytes| {
            let memory = cl.buffer(bytes.len()).unwrap();
            // SAFETY: the bytes lie in the vector, which nobody writes.
            let from = unsafe { Source::new(whole(&mut bytes)) };
            plain.write(&from, &memory, 0).unwrap();
            Box::new(memory)
        },
        &|_, memory| {
            let mut bytes = vec![0_u8; memory.bytes()];
            // SAFETY: the bytes lie in the vector, which only the engine uses meanwhile.
            let to = unsafe { Destination::new(whole(&mut bytes), Bring::Nothing) };
            plain.read(&memory, 0, &to).unwrap();
            bytes
        },
    );
}

/// A backend whose device copies on a thread of its own, as a GPU does, and which fails on demand.
struct Scripted {
    starts: AtomicUsize,
    fail_start: usize,
    fail_wait: usize,
    alive: std::sync::Arc<AtomicUsize>,
    delay: Duration,
}

/// Counts the slots that exist.
struct Counted {
    inner: NullSlot,
    alive: std::sync::Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pinned for Counted {
    fn bytes(&self) -> &[u8] {
        self.inner.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.inner.bytes_mut()
    }
}

struct Landing {
    number: usize,
    copy: std::thread::JoinHandle<Counted>,
}

impl Scripted {
    fn new(fail_start: usize, fail_wait: usize) -> Self {
        let alive = std::sync::Arc::new(AtomicUsize::new(0));
        Self {
            starts: AtomicUsize::new(0),
            fail_start,
            fail_wait,
            alive,
            delay: Duration::ZERO,
        }
    }

    fn number(&self) -> Result<usize> {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        if number == self.fail_start {
            return Err(Error::Driver {
                call: "start",
                code: -5,
            });
        }
        Ok(number)
    }
}

impl Backend for Scripted {
    type Memory = [u8];
    type Slot = Counted;
    type Flight = Landing;

    fn pin(&self, bytes: usize) -> Result<Counted> {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Ok(Counted {
            inner: Null.pin(bytes)?,
            alive: std::sync::Arc::clone(&self.alive),
        })
    }

    fn start_read(&self, from: &[u8], at: usize, len: usize, mut slot: Counted) -> Result<Landing> {
        let number = self.number()?;
        let bytes = from.get(at..at + len).ok_or(Error::OutOfBounds {
            offset: at,
            bytes: len,
            capacity: from.len(),
        })?;
        let bytes = bytes.to_vec();
        let delay = self.delay;
        let copy = std::thread::spawn(move || {
            std::thread::sleep(delay);
            slot.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
            slot
        });
        Ok(Landing { number, copy })
    }

    fn start_write(&self, _to: &[u8], _at: usize, _len: usize, slot: Counted) -> Result<Landing> {
        let number = self.number()?;
        Ok(Landing {
            number,
            copy: std::thread::spawn(move || slot),
        })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn is_over(&self, flight: &Landing) -> bool {
        flight.copy.is_finished()
    }

    fn wait(&self, flight: Landing) -> Result<Counted> {
        let slot = flight.copy.join().unwrap();
        if flight.number == self.fail_wait {
            return Err(Error::Driver {
                call: "wait",
                code: -14,
            });
        }
        Ok(slot)
    }
}

const NEVER: usize = usize::MAX;

#[test]
fn a_device_that_copies_later_gives_the_same_bytes() {
    let engine = Engine::new(Scripted::new(NEVER, NEVER), Shape::new(3, 8192));
    let data = pattern(200_000);
    let mut host = vec![0_u8; data.len()];
    let start = host.as_mut_ptr().expose_provenance();
    let footprint = Footprint::buffer(start, host.len()).unwrap();
    // SAFETY: the bytes lie in the vector, which only the engine uses meanwhile.
    let to = unsafe { Destination::new(footprint, Bring::Nothing) };
    engine.read(&data, 0, &to).unwrap();
    assert!(host == data);
}

#[test]
fn chunks_carried_in_parts_give_the_same_bytes() {
    let bytes = 16 << 20;
    let data = pattern(bytes + 7);
    for (bring, over) in [
        (Bring::Nothing, 0),
        (Bring::Nothing, 5),
        (Bring::Pages, 5),
        (Bring::HugePages, 0),
        (Bring::HugePages, 4096 + 5),
    ] {
        let engine = Engine::new(Scripted::new(NEVER, NEVER), Shape::new(2, 4 << 20));
        let mut host = Mapping::anonymous(bytes + (8 << 20)).unwrap();
        let first = host.range().address;
        let start = first.next_multiple_of(2 << 20) + (1 << 20) + over;
        let footprint = Footprint::buffer(start, bytes).unwrap();
        // SAFETY: the bytes lie in the mapping, which only the engine uses meanwhile.
        let to = unsafe { Destination::new(footprint, bring) };
        let moved = engine.read(&data, 7, &to).unwrap();
        assert_eq!((moved.bytes, moved.chunks), (bytes, 5), "{bring:?} {over}");
        let (host, from) = (host.as_mut_slice(), start - first);
        assert!(host[from..from + bytes] == data[7..]);
        assert!(host[..from].iter().all(|byte| *byte == 0));
        assert!(host[from + bytes..].iter().all(|byte| *byte == 0));
    }
}

/// The guard of a program compares this time with the driver's; it was once always next to nothing.
#[test]
fn the_time_of_a_copy_counts_from_its_first_chunk_to_its_last() {
    for threads in [1, 2] {
        let mut backend = Scripted::new(NEVER, NEVER);
        backend.delay = Duration::from_millis(5);
        let engine = Engine::new(backend, Shape::new(threads, 512 << 10));
        // More chunks than slots: the last begins after the first has arrived.
        let data = pattern(12 << 20);
        let mut host = vec![0_u8; data.len()];
        let start = host.as_mut_ptr().expose_provenance();
        let footprint = Footprint::buffer(start, host.len()).unwrap();
        // SAFETY: the bytes lie in the vector, which only the engine uses meanwhile.
        let to = unsafe { Destination::new(footprint, Bring::Nothing) };
        let began = std::time::Instant::now();
        let moved = engine.read(&data, 0, &to).unwrap();
        let before = began.elapsed().as_nanos() - u128::from(moved.copying.0);
        assert!(moved.copying.0 >= 5_000_000, "{moved:?}");
        assert!(before >= 5_000_000, "the device's own work was counted");
        assert!(host == data);
    }
}

#[test]
fn a_failure_anywhere_ends_the_copy_and_loses_no_slot() {
    // Chunks of 2 MiB, which several threads carry.
    let data = pattern(12 << 20);
    for writes in [false, true] {
        for fail in 0..6 {
            for at_wait in [false, true] {
                let (start, wait) = if at_wait {
                    (NEVER, fail)
                } else {
                    (fail, NEVER)
                };
                let backend = Scripted::new(start, wait);
                let alive = std::sync::Arc::clone(&backend.alive);
                let engine = Engine::new(backend, Shape::new(2, 2 << 20));
                let mut host = vec![0_u8; data.len()];
                let footprint =
                    Footprint::buffer(host.as_mut_ptr().expose_provenance(), host.len()).unwrap();
                let answer = if writes {
                    // SAFETY: the bytes lie in the vector, which nobody writes.
                    let from = unsafe { Source::new(footprint) };
                    engine.write(&from, &data, 0)
                } else {
                    // SAFETY: the bytes lie in the vector, which only the engine uses meanwhile.
                    let to = unsafe { Destination::new(footprint, Bring::Nothing) };
                    engine.read(&data, 0, &to)
                };
                assert!(
                    matches!(answer, Err(Error::Driver { .. })),
                    "{fail} {at_wait} {writes}"
                );
                // What is kept is in the pool; what failed is freed; nothing is left in flight.
                engine.trim();
                assert_eq!(alive.load(Ordering::Relaxed), 0);
            }
        }
    }
}

#[test]
fn a_read_past_the_end_of_the_device_memory_is_an_error() {
    let engine = Engine::new(Null, Shape::new(2, 4096));
    let memory = NullMemory::new(pattern(100_000));
    let mut host = vec![0_u8; 100_000];
    let start = host.as_mut_ptr().expose_provenance();
    let footprint = Footprint::buffer(start, host.len()).unwrap();
    // SAFETY: the bytes lie in the vector, which only the engine uses meanwhile.
    let to = unsafe { Destination::new(footprint, Bring::Nothing) };
    assert!(matches!(
        engine.read(&memory, 1, &to),
        Err(Error::OutOfBounds { .. })
    ));
    assert!(matches!(
        engine.read(&memory, usize::MAX, &to),
        Err(Error::OutOfBounds { .. })
    ));
}

#[test]
fn no_pinned_memory_is_an_error_and_less_than_wanted_is_not() {
    /// Gives one slot only.
    struct Poor(AtomicUsize, usize);
    impl Backend for Poor {
        type Memory = NullMemory;
        type Slot = NullSlot;
        type Flight = NullSlot;
        fn pin(&self, bytes: usize) -> Result<NullSlot> {
            if self.0.fetch_add(1, Ordering::Relaxed) >= self.1 {
                return Err(Error::NoPinnedMemory { bytes });
            }
            Null.pin(bytes)
        }
        fn start_read(&self, m: &NullMemory, at: usize, n: usize, s: NullSlot) -> Result<NullSlot> {
            Null.start_read(m, at, n, s)
        }
        fn start_write(
            &self,
            m: &NullMemory,
            at: usize,
            n: usize,
            s: NullSlot,
        ) -> Result<NullSlot> {
            Null.start_write(m, at, n, s)
        }
        fn flush(&self) -> Result<()> {
            Ok(())
        }
        fn is_over(&self, _flight: &NullSlot) -> bool {
            true
        }
        fn wait(&self, flight: NullSlot) -> Result<NullSlot> {
            Ok(flight)
        }
    }
    let memory = NullMemory::new(pattern(2 << 20));
    let mut host = vec![0_u8; 2 << 20];
    let footprint = Footprint::buffer(host.as_mut_ptr().expose_provenance(), host.len()).unwrap();
    // SAFETY: the bytes lie in the vector, which only the engine uses meanwhile.
    let to = unsafe { Destination::new(footprint, Bring::Nothing) };
    let shape = Shape::new(4, 512 << 10);
    let none = Engine::new(Poor(AtomicUsize::new(0), 0), shape).read(&memory, 0, &to);
    assert!(matches!(none, Err(Error::NoPinnedMemory { .. })));
    let one = Engine::new(Poor(AtomicUsize::new(0), 1), shape)
        .read(&memory, 0, &to)
        .unwrap();
    assert_eq!(one.bytes, 2 << 20);
}
