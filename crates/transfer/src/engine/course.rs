//! The caller's side of one copy: which chunk goes next, what is under way, what came back.
//!
//! Two stages in two orders. A read: the device fills a slot, then its bytes are carried to the host's
//! rows. A write: bytes are carried into a slot, then the device takes them.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_measure::{Clock, MonotonicClock, Nanos};

use super::relay::{Part, Relay};
use super::{Backend, Chunks, Error, Pinned, Result};

/// A slot and the chunk that it holds or is to hold.
#[derive(Debug)]
pub(super) struct Load<S> {
    pub(super) slot: S,
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// Which stage comes first, and what it does with a slot's bytes and the offset of their chunk.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// Device to host: the device first. Several threads may carry parts of one slot out at once.
    Read(&'a (dyn Fn(&[u8], usize) + Sync)),
    /// Host to device: the host first.
    Write(&'a (dyn Fn(&mut [u8], usize) + Sync)),
}

impl Way<'_> {
    pub(super) const fn is_read(self) -> bool {
        matches!(self, Self::Read(_))
    }

    /// Carries a whole load.
    fn carry<S: Pinned>(self, load: &mut Load<S>) {
        let (len, offset) = (load.len, load.offset);
        match self {
            Self::Read(out) => out(load.slot.bytes().get(..len).unwrap_or_default(), offset),
            Self::Write(into) => {
                into(
                    load.slot.bytes_mut().get_mut(..len).unwrap_or_default(),
                    offset,
                );
            }
        }
    }

    /// Carries a part of a load, as [`Course::cut`] cuts it; whole loads of a write.
    pub(super) fn carry_part<S: Pinned>(self, part: &mut Part<Load<S>>, cut: Cut) {
        match self {
            Self::Read(out) => {
                let load = part.load();
                let Some((from, len)) = cut.of(load).at(part.number()) else {
                    return;
                };
                let bytes = load.slot.bytes().get(from..from + len);
                out(bytes.unwrap_or_default(), load.offset + from);
            }
            Self::Write(_) => {
                if let Some(load) = part.load_mut() {
                    self.carry(load);
                }
            }
        }
    }
}

/// How a load is cut in parts for several threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Bytes of a part; its inner boundaries are multiples of it in the host's memory.
    pub(super) bytes: usize,
    /// Where packed byte 0 lies in it.
    pub(super) start: usize,
}

impl Cut {
    pub(super) const fn of<S>(self, load: &Load<S>) -> Chunks {
        Chunks::new(load.len, self.bytes, self.start + load.offset, self.bytes)
    }
}

/// A copy with its slots under way in the device.
struct Flying<F> {
    flight: F,
    offset: usize,
    len: usize,
}

/// One copy.
pub(super) struct Course<'a, B: Backend> {
    backend: &'a B,
    memory: &'a B::Memory,
    /// The device's offset of the first byte.
    base: usize,
    chunks: Chunks,
    cut: Cut,
    way: Way<'a>,
    next: usize,
    done: usize,
    free: Vec<B::Slot>,
    flying: VecDeque<Flying<B::Flight>>,
    failure: Option<Error>,
    arrived: Option<Nanos>,
    pause: Duration,
}

impl<'a, B: Backend> Course<'a, B> {
    pub(super) fn new(
        backend: &'a B,
        (memory, base): (&'a B::Memory, usize),
        (chunks, cut): (Chunks, Cut),
        way: Way<'a>,
        slots: Vec<B::Slot>,
    ) -> Self {
        Self {
            backend,
            memory,
            base,
            chunks,
            cut,
            way,
            next: 0,
            done: 0,
            free: slots,
            flying: VecDeque::new(),
            failure: None,
            arrived: None,
            pause: PAUSE_MIN,
        }
    }

    /// Starts what can be started before any thread carries anything: a read's first chunks.
    pub(super) fn begin(&mut self) {
        if self.way.is_read() {
            self.start_reads();
        }
    }

    /// To the end, by this thread alone.
    pub(super) fn alone(&mut self) {
        loop {
            match self.way {
                Way::Read(_) => {
                    self.start_reads();
                    let Some(mut load) = self.land_oldest() else {
                        break;
                    };
                    if self.failure.is_none() {
                        self.way.carry(&mut load);
                        self.done += 1;
                    }
                    self.free.push(load.slot);
                }
                Way::Write(_) => {
                    let Some(mut load) = self.next_load() else {
                        let Some(load) = self.land_oldest() else {
                            break;
                        };
                        self.done += 1;
                        self.free.push(load.slot);
                        continue;
                    };
                    self.way.carry(&mut load);
                    self.start_write(load);
                    self.flush();
                }
            }
        }
    }

    /// To the end, by helpers that serve the relay.
    pub(super) fn direct(&mut self, relay: &Relay<Load<B::Slot>>) {
        let mut carried_by_others = 0_usize;
        loop {
            let before = (carried_by_others, self.next, self.done, self.flying.len());
            match self.way {
                Way::Read(_) => {
                    self.start_reads();
                    while let Some(load) = self.land_if_over() {
                        if self.failure.is_some() {
                            self.free.push(load.slot);
                            continue;
                        }
                        let parts = self.cut.of(&load).count();
                        relay.hand(load, parts);
                        carried_by_others += 1;
                    }
                }
                Way::Write(_) => {
                    while let Some(load) = self.land_if_over() {
                        self.done += 1;
                        self.free.push(load.slot);
                    }
                    while let Some(load) = self.next_load() {
                        relay.hand(load, 1);
                        carried_by_others += 1;
                    }
                }
            }
            if carried_by_others == 0 && self.flying.is_empty() {
                break;
            }
            let after = (carried_by_others, self.next, self.done, self.flying.len());
            let patience = if self.is_device_done() && self.help(relay) {
                Some(Duration::ZERO)
            } else {
                self.patience(before != after, carried_by_others)
            };
            let loads = relay.collect(patience);
            carried_by_others -= loads.len();
            self.take_carried(loads);
        }
    }

    /// Whether this thread has nothing left to ask of the device: all of a read has arrived.
    fn is_device_done(&self) -> bool {
        self.way.is_read() && self.next == self.chunks.count() && self.flying.is_empty()
    }

    /// Carries one part, with the helpers.
    fn help(&self, relay: &Relay<Load<B::Slot>>) -> bool {
        relay.help(&|part| self.way.carry_part(part, self.cut))
    }

    pub(super) const fn chunks(&self) -> Chunks {
        self.chunks
    }

    pub(super) const fn cut(&self) -> Cut {
        self.cut
    }

    pub(super) const fn way(&self) -> Way<'a> {
        self.way
    }

    /// What was copied, or why not all; and the slots.
    pub(super) fn end(self) -> (Result<Copied>, Vec<B::Slot>) {
        let answer = match self.failure {
            Some(error) => Err(error),
            None => Ok(Copied {
                chunks: self.done,
                arrived: self.arrived,
            }),
        };
        (answer, self.free)
    }

    /// How long to sleep for helpers before the device is looked at again; for ever if it has nothing.
    fn patience(&mut self, has_advanced: bool, carried_by_others: usize) -> Option<Duration> {
        if self.flying.is_empty() {
            return None;
        }
        if has_advanced {
            self.pause = PAUSE_MIN;
        } else {
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        if carried_by_others == 0 {
            // Nobody would wake this thread.
            std::thread::sleep(self.pause);
            return Some(Duration::ZERO);
        }
        Some(self.pause)
    }

    fn take_carried(&mut self, loads: Vec<Load<B::Slot>>) {
        let is_any = !loads.is_empty();
        for load in loads {
            match self.way {
                Way::Read(_) => {
                    self.done += 1;
                    self.free.push(load.slot);
                }
                Way::Write(_) if self.failure.is_some() => self.free.push(load.slot),
                Way::Write(_) => self.start_write(load),
            }
        }
        if is_any && !self.way.is_read() {
            self.flush();
        }
    }

    /// The next chunk in a free slot.
    fn next_load(&mut self) -> Option<Load<B::Slot>> {
        if self.failure.is_some() {
            return None;
        }
        let (offset, len) = self.chunks.at(self.next)?;
        let slot = self.free.pop()?;
        self.next += 1;
        Some(Load { slot, offset, len })
    }

    fn start_reads(&mut self) {
        let first = self.next;
        while let Some(Load { slot, offset, len }) = self.next_load() {
            let started = self
                .backend
                .start_read(self.memory, self.base + offset, len, slot);
            self.note_started(started, offset, len);
            if self.next == 1 {
                // The device begins while the others are being named.
                self.flush();
            }
        }
        if self.next > first {
            self.flush();
        }
    }

    fn start_write(&mut self, load: Load<B::Slot>) {
        let Load { slot, offset, len } = load;
        let started = self
            .backend
            .start_write(self.memory, self.base + offset, len, slot);
        self.note_started(started, offset, len);
    }

    fn note_started(&mut self, started: Result<B::Flight>, offset: usize, len: usize) {
        match started {
            Ok(flight) => self.flying.push_back(Flying {
                flight,
                offset,
                len,
            }),
            Err(error) => self.fail(error),
        }
    }

    fn land_if_over(&mut self) -> Option<Load<B::Slot>> {
        while self.backend.is_over(&self.flying.front()?.flight) {
            if let Some(load) = self.land() {
                return Some(load);
            }
        }
        None
    }

    fn land_oldest(&mut self) -> Option<Load<B::Slot>> {
        while !self.flying.is_empty() {
            if let Some(load) = self.land() {
                return Some(load);
            }
        }
        None
    }

    /// Waits for the oldest; `None` if it failed.
    fn land(&mut self) -> Option<Load<B::Slot>> {
        let Flying {
            flight,
            offset,
            len,
        } = self.flying.pop_front()?;
        let landed = self.backend.wait(flight);
        let _first = self.arrived.get_or_insert_with(|| MonotonicClock.now());
        match landed {
            Ok(slot) => Some(Load { slot, offset, len }),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.backend.flush() {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: Error) {
        let _first = self.failure.get_or_insert(error);
    }
}

/// A copy that came to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub(super) chunks: usize,
    /// When the first flight was seen to be over.
    pub(super) arrived: Option<Nanos>,
}

/// First sleep before the device is looked at again; the system adds some 50 microseconds of its own.
const PAUSE_MIN: Duration = Duration::from_micros(10);
/// Longest sleep, behind work of the program's that takes long: what a copy may be late at most.
const PAUSE_MAX: Duration = Duration::from_micros(100);
