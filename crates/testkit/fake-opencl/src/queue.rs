//! Command queues: one thread each, in order.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opencl_sys::{
    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_INVALID_COMMAND_QUEUE, CL_OUT_OF_HOST_MEMORY,
    cl_int,
};

use crate::event::EventBody;
use crate::knobs::{Count, Knob};
use crate::memory::ContextBody;
use crate::object::Body;

/// A command as the queue's thread runs it.
pub(crate) struct Command {
    pub(crate) work: Box<dyn FnOnce() -> Result<(), cl_int> + Send>,
    pub(crate) waits: Vec<Arc<EventBody>>,
    pub(crate) event: Arc<EventBody>,
}

pub(crate) struct QueueBody {
    pub(crate) context: Arc<ContextBody>,
    /// Index of the device.
    pub(crate) device: usize,
    pub(crate) properties: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    /// Commands at the front that have been flushed.
    flushed: usize,
    is_busy: bool,
    is_closed: bool,
}

impl Body for QueueBody {
    const TAG: u32 = 0x7071_0003;
    const INVALID: cl_int = CL_INVALID_COMMAND_QUEUE;
    const LIVE: Option<Count> = Some(Count::Queues);
    fn released(&self) {
        let mut state = self.lock();
        state.flushed = state.commands.len();
        state.is_closed = true;
        self.changed.notify_all();
    }
}

impl QueueBody {
    pub(crate) fn start(
        context: Arc<ContextBody>,
        device: usize,
        properties: u64,
    ) -> Result<Arc<Self>, cl_int> {
        let queue = Arc::new(Self {
            context,
            device,
            properties,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let worker = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("fake-opencl".into())
            .spawn(move || worker.run())
            .map_err(|_no_thread| CL_OUT_OF_HOST_MEMORY)?;
        Ok(queue)
    }

    pub(crate) fn push(&self, command: Command) {
        let mut state = self.lock();
        state.commands.push_back(command);
        if Knob::HoldUntilFlush.get() == 0 {
            state.flushed = state.commands.len();
        }
        self.changed.notify_all();
    }

    pub(crate) fn flush(&self) {
        let mut state = self.lock();
        state.flushed = state.commands.len();
        self.changed.notify_all();
    }

    pub(crate) fn finish(&self) {
        self.flush();
        let mut state = self.lock();
        while state.is_busy || !state.commands.is_empty() {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(command) = self.next() {
            execute(command);
            self.lock().is_busy = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Command> {
        let mut state = self.lock();
        loop {
            if state.flushed > 0
                && let Some(command) = state.commands.pop_front()
            {
                state.flushed -= 1;
                state.is_busy = true;
                return Some(command);
            }
            if state.is_closed {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn execute(command: Command) {
    command.event.submitted();
    let failed = command.waits.iter().any(|event| event.wait() < 0);
    if failed {
        command
            .event
            .complete(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        return;
    }
    command.event.running();
    pause(Knob::StartNs.get());
    let status = (command.work)().err().unwrap_or(0);
    command.event.complete(status);
}

/// Sleeps for `nanos`.
pub(crate) fn pause(nanos: u64) {
    if nanos > 0 {
        std::thread::sleep(Duration::from_nanos(nanos));
    }
}
