//! The hand-over between the thread that talks to the device and the helpers that carry bytes.
//!
//! Only the caller's thread makes calls of a GPU API: drivers serialise them anyway, and many threads that
//! ask for their own copies' state burn more processor time than the copies. It hands loads (a slot and
//! its chunk) to helpers, which sleep while there are none, and takes them back. Several helpers may carry
//! one load, a part each: the slot is free again sooner, and the last loads keep all of them busy.

use std::collections::VecDeque;
use std::time::Duration;

use super::prim::{Arc, Condvar, Mutex, MutexGuard};

/// Loads on their way between the caller and its helpers.
#[derive(Debug)]
pub(super) struct Relay<T> {
    state: Mutex<State<T>>,
    /// Helpers sleep here.
    work: Condvar,
    /// The caller sleeps here.
    back: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<Part<T>>,
    carried: Vec<T>,
    /// Helpers asleep and not woken yet: a wake-up without a sleeper would be a system call for nothing.
    idle: usize,
    is_caller_asleep: bool,
    is_closed: bool,
}

/// One of the parts of a load, for one helper.
#[derive(Debug)]
pub(super) struct Part<T> {
    load: Arc<T>,
    number: usize,
}

impl<T> Part<T> {
    pub(super) fn load(&self) -> &T {
        &self.load
    }

    /// `None` for one of several.
    pub(super) fn load_mut(&mut self) -> Option<&mut T> {
        Arc::get_mut(&mut self.load)
    }

    /// From 0.
    pub(super) const fn number(&self) -> usize {
        self.number
    }
}

impl<T> Relay<T> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                carried: Vec::new(),
                idle: 0,
                is_caller_asleep: false,
                is_closed: false,
            }),
            work: Condvar::new(),
            back: Condvar::new(),
        }
    }

    /// Caller: hands a load over, in `parts` parts; at least one.
    pub(super) fn hand(&self, load: T, parts: usize) {
        let load = Arc::new(load);
        let mut state = self.lock();
        for number in 1..parts {
            let load = Arc::clone(&load);
            state.waiting.push_back(Part { load, number });
        }
        state.waiting.push_back(Part { load, number: 0 });
        let woken = state.idle.min(parts.max(1));
        state.idle -= woken;
        drop(state);
        for _sleeper in 0..woken {
            self.work.notify_one();
        }
    }

    /// Caller: carries one part that no helper has taken yet; `false` if there is none.
    pub(super) fn help(&self, carry: &dyn Fn(&mut Part<T>)) -> bool {
        let part = self.lock().waiting.pop_front();
        let is_any = part.is_some();
        if let Some(part) = part {
            self.carry(part, carry);
        }
        is_any
    }

    /// Caller: the loads that were carried since; sleeps until there is one, for at most `patience`.
    pub(super) fn collect(&self, patience: Option<Duration>) -> Vec<T> {
        let mut state = self.lock();
        if state.carried.is_empty() && patience != Some(Duration::ZERO) {
            state.is_caller_asleep = true;
            state = match patience {
                Some(patience) => self.sleep_for(state, patience),
                None => self.sleep_until_carried(state),
            };
            state.is_caller_asleep = false;
        }
        std::mem::take(&mut state.carried)
    }

    /// Caller: nothing more will come; helpers end when all is carried.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }

    /// Helper: carries parts until the relay is closed and empty.
    pub(super) fn serve(&self, carry: &dyn Fn(&mut Part<T>)) {
        while let Some(part) = self.take() {
            self.carry(part, carry);
        }
    }

    fn carry(&self, part: Part<T>, carry: &dyn Fn(&mut Part<T>)) {
        let mut held = Held {
            relay: self,
            part: Some(part),
        };
        if let Some(part) = &mut held.part {
            carry(part);
        }
    }

    fn take(&self) -> Option<Part<T>> {
        let mut state = self.lock();
        loop {
            if let Some(part) = state.waiting.pop_front() {
                return Some(part);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            state = match self.work.wait(state) {
                Ok(state) => state,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }

    /// The last part brings the load back. Parts are dropped under the lock only, so that exactly one of
    /// them is the last.
    fn give_back(&self, part: Part<T>) {
        let mut state = self.lock();
        let Ok(load) = Arc::try_unwrap(part.load) else {
            return;
        };
        state.carried.push(load);
        let is_caller_asleep = std::mem::take(&mut state.is_caller_asleep);
        drop(state);
        if is_caller_asleep {
            self.back.notify_one();
        }
    }

    fn sleep_until_carried<'a>(
        &self,
        mut state: MutexGuard<'a, State<T>>,
    ) -> MutexGuard<'a, State<T>> {
        while state.carried.is_empty() {
            state.is_caller_asleep = true;
            state = match self.back.wait(state) {
                Ok(state) => state,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        state
    }

    fn sleep_for<'a>(
        &self,
        state: MutexGuard<'a, State<T>>,
        patience: Duration,
    ) -> MutexGuard<'a, State<T>> {
        match self.back.wait_timeout(state, patience) {
            Ok((state, _timed_out)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        match self.state.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// A part in somebody's hands: comes back whatever happens, since the caller waits for it.
struct Held<'a, T> {
    relay: &'a Relay<T>,
    part: Option<Part<T>>,
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            self.relay.give_back(part);
        }
    }
}

/// Closes the relay when the caller is done with it, on whatever way.
pub(super) struct Closing<'a, T>(pub(super) &'a Relay<T>);

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    /// A slot that the device, the caller or one helper owns; the cell makes loom see any overlap.
    struct Slot {
        content: loom::cell::UnsafeCell<usize>,
    }

    #[expect(unsafe_code, reason = "the device writes through a checked cell")]
    impl Slot {
        fn fill(&self, chunk: usize) {
            // SAFETY: loom checks that no other access runs at the same time.
            self.content.with_mut(|content| unsafe { *content = chunk });
        }

        fn read(&self) -> usize {
            // SAFETY: loom checks that no write runs at the same time.
            self.content.with(|content| unsafe { *content })
        }
    }

    #[expect(unsafe_code, reason = "the cell is checked by loom")]
    // SAFETY: every access goes through loom's cell, which fails the model where two overlap.
    unsafe impl Sync for Slot {}
    #[expect(unsafe_code, reason = "the cell is checked by loom")]
    // SAFETY: as above.
    unsafe impl Send for Slot {}

    struct Load {
        chunk: usize,
        slot: Arc<Slot>,
        /// What each part found in the slot.
        found: Vec<AtomicUsize>,
    }

    impl Load {
        fn new(chunk: usize, slot: Arc<Slot>, parts: usize) -> Self {
            let found = (0..parts).map(|_| AtomicUsize::new(usize::MAX)).collect();
            Self { chunk, slot, found }
        }

        fn assert_carried(&self) {
            for found in &self.found {
                let found = found.load(Ordering::Relaxed);
                assert_eq!(found, self.chunk, "not carried, or refilled before it was");
            }
        }
    }

    fn carry(part: &mut Part<Load>) {
        let load = part.load();
        load.found[part.number()].store(load.slot.read(), Ordering::Relaxed);
    }

    /// What the caller does besides the device's work.
    #[derive(Clone, Copy, Eq, PartialEq)]
    enum Caller {
        Waits,
        Helps,
    }

    /// A read of `chunks` through `slots`, each in `parts`: the caller fills, helpers empty.
    fn model(chunks: usize, slots: usize, (parts, helpers): (usize, usize), caller: Caller) {
        let mut builder = loom::model::Builder::new();
        // Without a bound three threads and two condition variables take hours.
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let relay = Arc::new(Relay::<Load>::new());
            let threads: Vec<_> = (0..helpers)
                .map(|_| {
                    let relay = Arc::clone(&relay);
                    thread::spawn(move || relay.serve(&carry))
                })
                .collect();
            let mut free: Vec<Arc<Slot>> = (0..slots)
                .map(|_| {
                    Arc::new(Slot {
                        content: loom::cell::UnsafeCell::new(usize::MAX),
                    })
                })
                .collect();
            let (mut next, mut stored) = (0, Vec::new());
            while stored.len() < chunks {
                while let Some(slot) = (next < chunks).then(|| free.pop()).flatten() {
                    slot.fill(next);
                    relay.hand(Load::new(next, slot, parts), parts);
                    next += 1;
                }
                let has_helped = caller == Caller::Helps && relay.help(&carry);
                let patience = has_helped.then_some(Duration::ZERO);
                for load in relay.collect(patience) {
                    load.assert_carried();
                    stored.push(load.chunk);
                    free.push(load.slot);
                }
            }
            drop(Closing(&*relay));
            for thread in threads {
                thread.join().unwrap();
            }
            stored.sort_unstable();
            assert_eq!(stored, (0..chunks).collect::<Vec<_>>());
            assert_eq!(free.len(), slots, "a slot was lost");
        });
    }

    #[test]
    fn every_chunk_is_carried_once_and_no_slot_is_refilled_early() {
        model(3, 2, (1, 1), Caller::Waits);
        model(2, 2, (1, 2), Caller::Waits);
        model(2, 1, (1, 2), Caller::Waits);
    }

    #[test]
    fn a_slot_comes_back_when_its_last_part_was_carried() {
        model(1, 1, (2, 2), Caller::Waits);
        model(2, 1, (2, 1), Caller::Helps);
    }

    #[test]
    fn helpers_without_work_end() {
        model(0, 1, (1, 2), Caller::Waits);
        model(1, 1, (1, 2), Caller::Waits);
    }
}
