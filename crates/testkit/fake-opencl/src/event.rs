//! Events: status, times, callbacks.
#![expect(unsafe_code, reason = "calls the program's callbacks")]

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use opencl_sys::{
    CL_COMPLETE, CL_INVALID_EVENT, CL_INVALID_EVENT_WAIT_LIST, CL_INVALID_OPERATION,
    CL_INVALID_VALUE, CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_QUEUED,
    CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_INFO_NOT_AVAILABLE,
    CL_QUEUE_PROFILING_ENABLE, CL_QUEUED, CL_RUNNING, CL_SUBMITTED, CL_SUCCESS, cl_context,
    cl_event, cl_int, cl_uint,
};

use crate::boundary;
use crate::knobs::{Count, Knob};
use crate::memory::ContextBody;
use crate::object::{self, Body};
use crate::queue::QueueBody;

pub(crate) struct EventBody {
    /// The queue; `None` for a user event.
    pub(crate) queue: Option<Arc<QueueBody>>,
    pub(crate) command: cl_uint,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    status: cl_int,
    /// Queued, submitted, started, ended; ns.
    times: [u64; 4],
    callbacks: Vec<Callback>,
}

type Notify = unsafe extern "C" fn(cl_event, cl_int, *mut c_void);

struct Callback {
    at: cl_int,
    notify: Notify,
    event: usize,
    data: usize,
}

impl Body for EventBody {
    const TAG: u32 = 0x7071_0005;
    const INVALID: cl_int = CL_INVALID_EVENT;
    const LIVE: Option<Count> = Some(Count::Events);
}

impl EventBody {
    pub(crate) fn new(queue: Option<Arc<QueueBody>>, command: cl_uint) -> Arc<Self> {
        let status = if queue.is_some() {
            CL_QUEUED
        } else {
            CL_SUBMITTED
        };
        Arc::new(Self {
            queue,
            command,
            state: Mutex::new(State {
                status,
                times: [now(), 0, 0, 0],
                callbacks: Vec::new(),
            }),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn status(&self) -> cl_int {
        self.lock().status
    }

    pub(crate) fn submitted(&self) {
        self.step(CL_SUBMITTED, 1);
    }

    pub(crate) fn running(&self) {
        self.step(CL_RUNNING, 2);
    }

    /// Ends the command: 0, or an error.
    pub(crate) fn complete(&self, status: cl_int) {
        self.step(status, 3);
    }

    /// Waits for the end and answers the status. Does not flush.
    pub(crate) fn wait(&self) -> cl_int {
        let mut state = self.lock();
        while state.status > CL_COMPLETE {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.status
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, status: cl_int, time: usize) {
        let mut state = self.lock();
        state.status = status;
        if let Some(slot) = state.times.get_mut(time) {
            *slot = now();
        }
        let (due, rest) = std::mem::take(&mut state.callbacks)
            .into_iter()
            .partition(|callback: &Callback| status <= callback.at);
        state.callbacks = rest;
        self.changed.notify_all();
        drop(state);
        call(due, status);
    }
}

fn call(due: Vec<Callback>, status: cl_int) {
    for callback in due {
        let event = std::ptr::with_exposed_provenance_mut(callback.event);
        let data = std::ptr::with_exposed_provenance_mut(callback.data);
        // SAFETY: the program's function with the program's data, as it asked.
        unsafe { (callback.notify)(event, status, data) };
    }
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The events of a wait list.
pub(crate) fn wait_list(
    count: cl_uint,
    list: *const cl_event,
) -> Result<Vec<Arc<EventBody>>, cl_int> {
    if (count == 0) != list.is_null() {
        return Err(CL_INVALID_EVENT_WAIT_LIST);
    }
    boundary::list(list, count as usize)
        .into_iter()
        .map(|event| object::get(event).map_err(|_bad| CL_INVALID_EVENT_WAIT_LIST))
        .collect()
}

pub(crate) extern "C" fn wait_for_events(count: cl_uint, list: *const cl_event) -> cl_int {
    Count::Wait.add(1);
    if count == 0 || list.is_null() {
        return CL_INVALID_VALUE;
    }
    if Knob::Lost.get() != 0 {
        return -5;
    }
    let events = match wait_list(count, list) {
        Ok(events) => events,
        Err(_bad) => return CL_INVALID_EVENT,
    };
    for event in &events {
        if let Some(queue) = &event.queue {
            queue.flush();
        }
    }
    let failed = events.iter().filter(|event| event.wait() < 0).count();
    if failed > 0 { -14 } else { CL_SUCCESS }
}

pub(crate) extern "C" fn create_user_event(context: cl_context, error: *mut cl_int) -> cl_event {
    match object::get::<ContextBody>(context) {
        Ok(_context) => {
            boundary::put(error, CL_SUCCESS);
            object::new(EventBody::new(None, opencl_sys::CL_COMMAND_USER))
        }
        Err(code) => {
            boundary::put(error, code);
            std::ptr::null_mut()
        }
    }
}

pub(crate) extern "C" fn set_user_event_status(event: cl_event, status: cl_int) -> cl_int {
    match object::get::<EventBody>(event) {
        Ok(body) if body.queue.is_none() && body.status() > 0 => {
            body.complete(status);
            CL_SUCCESS
        }
        Ok(_done) => CL_INVALID_OPERATION,
        Err(code) => code,
    }
}

pub(crate) extern "C" fn set_event_callback(
    event: cl_event,
    at: cl_int,
    notify: Option<Notify>,
    data: *mut c_void,
) -> cl_int {
    let body = match object::get::<EventBody>(event) {
        Ok(body) => body,
        Err(code) => return code,
    };
    let Some(notify) = notify.filter(|_| (0..=2).contains(&at)) else {
        return CL_INVALID_VALUE;
    };
    let callback = Callback {
        at,
        notify,
        event: event.expose_provenance(),
        data: data.expose_provenance(),
    };
    let mut state = body.lock();
    let status = state.status;
    if status > at {
        state.callbacks.push(callback);
    } else {
        drop(state);
        call(vec![callback], status);
    }
    CL_SUCCESS
}

pub(crate) extern "C" fn profiling_info(
    event: cl_event,
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    Count::Info.add(1);
    let body = match object::get::<EventBody>(event) {
        Ok(body) => body,
        Err(code) => return code,
    };
    let has_times = body
        .queue
        .as_ref()
        .is_some_and(|queue| queue.properties & CL_QUEUE_PROFILING_ENABLE != 0);
    let state = body.lock();
    if !has_times || state.status != CL_COMPLETE {
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    }
    let index = match name {
        CL_PROFILING_COMMAND_QUEUED => 0,
        CL_PROFILING_COMMAND_SUBMIT => 1,
        CL_PROFILING_COMMAND_START => 2,
        CL_PROFILING_COMMAND_END => 3,
        _ => return CL_INVALID_VALUE,
    };
    let time = state.times.get(index).copied().unwrap_or(0);
    boundary::answer(boundary::bytes_of(&time), size, value, size_ret)
}
