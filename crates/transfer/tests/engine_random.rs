//! The engine on a device that is late, short of memory and fails at random: all bytes or an error, no byte
//! beside them, no slot lost.

#![expect(unsafe_code, reason = "tests vouch for their own memory")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use towpath_memory::Mapping;
use towpath_transfer::engine::null::{Null, NullMemory, NullSlot};
use towpath_transfer::engine::{
    Backend, Bring, Destination, Engine, Error, Pinned, Result, Shape, Source,
};
use towpath_transfer::readback::Footprint;

/// A slot that is counted while it lives.
struct Slot {
    inner: NullSlot,
    _counted: Arc<()>,
}

impl Pinned for Slot {
    fn bytes(&self) -> &[u8] {
        self.inner.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.inner.bytes_mut()
    }
}

/// A copy that happens only when it is waited for, and seems over after some looks.
struct Flight {
    slot: Slot,
    at: usize,
    len: usize,
    is_read: bool,
    looks: AtomicUsize,
}

struct Fickle<'a> {
    device: &'a NullMemory,
    random: Mutex<Rng>,
    slots: Arc<()>,
    pins_left: AtomicUsize,
    /// Calls that go well before one fails.
    calls_left: AtomicUsize,
}

impl Fickle<'_> {
    fn call(&self) -> Result<()> {
        let count_down = |left: usize| Some(left.wrapping_sub(1));
        let left = self
            .calls_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down);
        match left {
            Ok(0) => Err(Error::Driver {
                call: "any",
                code: -5,
            }),
            _ => Ok(()),
        }
    }

    fn start(&self, is_read: bool, (at, len): (usize, usize), mut slot: Slot) -> Result<Flight> {
        self.call()?;
        if is_read {
            // What is carried before the wait is wrong.
            slot.bytes_mut().fill(0xcc);
        }
        let looks = AtomicUsize::new(self.random.lock().unwrap().usize(..4));
        Ok(Flight {
            slot,
            at,
            len,
            is_read,
            looks,
        })
    }
}

impl Backend for Fickle<'_> {
    type Memory = ();
    type Slot = Slot;
    type Flight = Flight;

    fn pin(&self, bytes: usize) -> Result<Slot> {
        let left = self.pins_left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(Error::NoPinnedMemory { bytes });
        }
        self.pins_left.store(left - 1, Ordering::Relaxed);
        let inner = Null.pin(bytes)?;
        Ok(Slot {
            inner,
            _counted: Arc::clone(&self.slots),
        })
    }

    fn start_read(&self, _device: &(), at: usize, len: usize, slot: Slot) -> Result<Flight> {
        self.start(true, (at, len), slot)
    }

    fn start_write(&self, _device: &(), at: usize, len: usize, slot: Slot) -> Result<Flight> {
        self.start(false, (at, len), slot)
    }

    fn flush(&self) -> Result<()> {
        self.call()
    }

    fn is_over(&self, flight: &Flight) -> bool {
        let looks = flight.looks.load(Ordering::Relaxed);
        flight
            .looks
            .store(looks.saturating_sub(1), Ordering::Relaxed);
        looks == 0
    }

    fn wait(&self, flight: Flight) -> Result<Slot> {
        self.call()?;
        let Flight {
            mut slot,
            at,
            len,
            is_read,
            looks: _,
        } = flight;
        let inner = if is_read {
            Null.start_read(self.device, at, len, slot.inner)?
        } else {
            Null.start_write(self.device, at, len, slot.inner)?
        };
        slot.inner = inner;
        Ok(slot)
    }
}

/// One copy: its rows in the host's memory, and where they begin on the device.
struct Copy {
    footprint: Footprint,
    bring: Bring,
    offset: usize,
}

const HOST_BYTES: usize = 9 << 20;

fn random_copy(random: &mut Rng, host: usize) -> Copy {
    // Near the boundaries of parts, chunks, pages and huge pages.
    let near = |random: &mut Rng, unit: usize, most: usize| {
        let around = unit * random.usize(..=most / unit);
        (around + random.usize(..3)).saturating_sub(1).max(1)
    };
    let unit = random.choice([4096, 512 << 10, 1 << 20, 2 << 20]).unwrap();
    let start = host + near(random, unit, 2 << 20);
    let footprint = if random.bool() {
        Footprint::buffer(start, near(random, unit, 6 << 20)).unwrap()
    } else {
        let row = random.usize(1..5000);
        let pitch = row + random.choice([0, 1, 60, 5000]).unwrap();
        let fewer = random.choice([1, 1, 100]).unwrap();
        let rows = random.usize(1..=(6 << 20) / pitch / fewer + 1);
        Footprint::rect(start, [0; 3], [row, rows, 1], pitch, 0).unwrap()
    };
    let bring = random.choice([Bring::Nothing, Bring::Pages, Bring::HugePages]);
    Copy {
        footprint,
        bring: bring.unwrap(),
        offset: random.usize(..5000),
    }
}

fn random_shape(random: &mut Rng) -> Shape {
    Shape {
        chunk_bytes: random.choice([5000, 600 << 10, 2 << 20, 4 << 20]).unwrap(),
        slots: random.usize(1..6),
        threads: random.usize(1..5),
    }
}

/// Packed device bytes are in the rows, and nothing elsewhere.
fn hold_read(host: &[u8], start: usize, copy: &Copy, device: &[u8], seed: u64) {
    let mut expected = vec![0_u8; host.len()];
    let mut packed = copy.offset;
    for row in copy.footprint.rows() {
        expected[row.address - start..][..row.len].copy_from_slice(&device[packed..][..row.len]);
        packed += row.len;
    }
    assert!(host == expected, "seed {seed}: {:?}", copy.footprint);
}

fn one(seed: u64, data: &[u8]) {
    let mut random = Rng::with_seed(seed);
    let mut host = Mapping::anonymous(HOST_BYTES).unwrap();
    let start = host.range().address;
    let copy = random_copy(&mut random, start);
    let is_read = random.bool();
    let device = if is_read {
        NullMemory::new(data.to_vec())
    } else {
        host.as_mut_slice().copy_from_slice(&data[..HOST_BYTES]);
        NullMemory::new(vec![0; data.len()])
    };
    let slots = Arc::new(());
    let engine = Engine::new(
        Fickle {
            device: &device,
            random: Mutex::new(random.fork()),
            slots: Arc::clone(&slots),
            pins_left: AtomicUsize::new(random.usize(1..8)),
            calls_left: AtomicUsize::new(random.choice([0, 3, 9, 20, usize::MAX]).unwrap()),
        },
        random_shape(&mut random),
    );
    let answer = if is_read {
        // SAFETY: the rows lie in the mapping, which only the engine uses meanwhile.
        let to = unsafe { Destination::new(copy.footprint, copy.bring) };
        engine.read(&(), copy.offset, &to)
    } else {
        // SAFETY: the rows lie in the mapping, which nobody writes.
        let from = unsafe { Source::new(copy.footprint) };
        engine.write(&from, &(), copy.offset)
    };
    engine.trim();
    drop(engine);
    assert_eq!(Arc::strong_count(&slots), 1, "seed {seed}: a slot was lost");
    let Ok(moved) = answer else { return };
    assert_eq!(moved.bytes, copy.footprint.bytes(), "seed {seed}");
    if is_read {
        hold_read(host.as_slice(), start, &copy, data, seed);
        return;
    }
    let found = device.into_bytes();
    let packed: Vec<u8> = copy
        .footprint
        .rows()
        .flat_map(|row| host.as_slice()[row.address - start..][..row.len].to_vec())
        .collect();
    let mut expected = vec![0_u8; found.len()];
    expected[copy.offset..][..packed.len()].copy_from_slice(&packed);
    assert!(found == expected, "seed {seed}: {:?}", copy.footprint);
}

#[test]
fn every_copy_moves_all_its_bytes_or_fails_and_loses_no_slot() {
    let data: Vec<u8> = (0_u32..10 << 20)
        .map(|n| (n.wrapping_mul(0x9e37_79b1) >> 13).to_le_bytes()[0])
        .collect();
    for seed in 0..CASES {
        one(seed, &data);
    }
}

/// Some seconds unoptimised.
const CASES: u64 = 150;
