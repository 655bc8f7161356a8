//! What every enqueue has in common, and the calls that push a queue on.

use std::sync::Arc;

use opencl_sys::{
    CL_INVALID_CONTEXT, CL_SUCCESS, cl_bool, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};

use crate::boundary::put;
use crate::event::{EventBody, wait_list};
use crate::knobs::{Count, Script, enter};
use crate::memory::MemBody;
use crate::object;
use crate::queue::{Command, QueueBody};

/// The arguments that every enqueue has.
pub(crate) struct Common {
    queue: cl_command_queue,
    blocking: bool,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
}

impl Common {
    pub(crate) fn new(
        queue: cl_command_queue,
        blocking: cl_bool,
        waits: cl_uint,
        list: *const cl_event,
        event: *mut cl_event,
    ) -> Self {
        Self {
            queue,
            blocking: blocking != 0,
            waits,
            list,
            event,
        }
    }
}

/// Runs the common part of an enqueue: `plan` checks the arguments and answers the work.
pub(crate) fn enqueue<W>(
    common: &Common,
    kind: Count,
    command: cl_uint,
    plan: impl FnOnce(&QueueBody, Script) -> Result<W, cl_int>,
) -> cl_int
where
    W: FnOnce() -> Result<(), cl_int> + Send + 'static,
{
    try_enqueue(common, kind, command, plan)
        .err()
        .unwrap_or(CL_SUCCESS)
}

fn try_enqueue<W>(
    common: &Common,
    kind: Count,
    command: cl_uint,
    plan: impl FnOnce(&QueueBody, Script) -> Result<W, cl_int>,
) -> Result<(), cl_int>
where
    W: FnOnce() -> Result<(), cl_int> + Send + 'static,
{
    let script = enter(kind)?;
    let queue = object::get::<QueueBody>(common.queue)?;
    let waits = wait_list(common.waits, common.list)?;
    let work = plan(&queue, script)?;
    let event = EventBody::new(Some(Arc::clone(&queue)), command);
    if !common.event.is_null() {
        put(common.event, object::new(Arc::clone(&event)));
    }
    queue.push(Command {
        work: Box::new(move || script.late.map_or_else(work, Err)),
        waits,
        event: Arc::clone(&event),
    });
    if common.blocking {
        queue.flush();
        let status = event.wait();
        if status < 0 {
            return Err(status);
        }
    }
    Ok(())
}

pub(crate) fn memory(queue: &QueueBody, handle: cl_mem) -> Result<Arc<MemBody>, cl_int> {
    let memory = object::get::<MemBody>(handle)?;
    if Arc::ptr_eq(&memory.context, &queue.context) {
        Ok(memory)
    } else {
        Err(CL_INVALID_CONTEXT)
    }
}

pub(crate) extern "C" fn flush(queue: cl_command_queue) -> cl_int {
    with_queue(Count::Flush, queue, QueueBody::flush)
}

pub(crate) extern "C" fn finish(queue: cl_command_queue) -> cl_int {
    with_queue(Count::Finish, queue, QueueBody::finish)
}

fn with_queue(kind: Count, queue: cl_command_queue, call: impl Fn(&QueueBody)) -> cl_int {
    let found = enter(kind).and_then(|_script| object::get::<QueueBody>(queue));
    match found {
        Ok(queue) => {
            call(&queue);
            CL_SUCCESS
        }
        Err(code) => code,
    }
}
