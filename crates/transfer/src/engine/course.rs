//! The caller's side of one copy: which chunk goes next, what is under way, what came back.
//!
//! Two stages in two orders. A read: the device fills a slot, then its bytes are carried to the host's
//! rows. A write: bytes are carried into a slot, then the device takes them.

use std::collections::VecDeque;
use std::time::Duration;

use towpath_measure::{Clock, MonotonicClock, Nanos};

use super::relay::Relay;
use super::{Backend, Chunks, Error, Result};

/// A slot and the chunk that it holds or is to hold.
#[derive(Debug)]
pub(super) struct Load<S> {
    pub(super) slot: S,
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// Which stage comes first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    /// Device to host: the device first.
    Read,
    /// Host to device: the host first.
    Write,
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
    way: Way,
    next: usize,
    done: usize,
    free: Vec<B::Slot>,
    flying: VecDeque<Flying<B::Flight>>,
    failure: Option<Error>,
    arrived: Option<Nanos>,
    pause: Duration,
}

impl<'a, B: Backend> Course<'a, B> {
    pub(super) const fn new(
        backend: &'a B,
        (memory, base): (&'a B::Memory, usize),
        chunks: Chunks,
        way: Way,
        slots: Vec<B::Slot>,
    ) -> Self {
        Self {
            backend,
            memory,
            base,
            chunks,
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
        if self.way == Way::Read {
            self.start_reads();
        }
    }

    /// To the end, by this thread alone.
    pub(super) fn alone(&mut self, carry: &dyn Fn(&mut Load<B::Slot>)) {
        loop {
            match self.way {
                Way::Read => {
                    self.start_reads();
                    let Some(mut load) = self.land_oldest() else {
                        break;
                    };
                    if self.failure.is_none() {
                        carry(&mut load);
                        self.done += 1;
                    }
                    self.free.push(load.slot);
                }
                Way::Write => {
                    let Some(mut load) = self.next_load() else {
                        let Some(load) = self.land_oldest() else {
                            break;
                        };
                        self.done += 1;
                        self.free.push(load.slot);
                        continue;
                    };
                    carry(&mut load);
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
                Way::Read => {
                    self.start_reads();
                    while let Some(load) = self.land_if_over() {
                        if self.failure.is_some() {
                            self.free.push(load.slot);
                            continue;
                        }
                        relay.hand(load);
                        carried_by_others += 1;
                    }
                }
                Way::Write => {
                    while let Some(load) = self.land_if_over() {
                        self.done += 1;
                        self.free.push(load.slot);
                    }
                    while let Some(load) = self.next_load() {
                        relay.hand(load);
                        carried_by_others += 1;
                    }
                }
            }
            if carried_by_others == 0 && self.flying.is_empty() {
                break;
            }
            let after = (carried_by_others, self.next, self.done, self.flying.len());
            let patience = self.patience(before != after, carried_by_others);
            let loads = relay.collect(patience);
            carried_by_others -= loads.len();
            self.take_carried(loads);
        }
    }

    pub(super) const fn chunks(&self) -> Chunks {
        self.chunks
    }

    pub(super) const fn way(&self) -> Way {
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
                Way::Read => {
                    self.done += 1;
                    self.free.push(load.slot);
                }
                Way::Write if self.failure.is_some() => self.free.push(load.slot),
                Way::Write => self.start_write(load),
            }
        }
        if is_any && self.way == Way::Write {
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
