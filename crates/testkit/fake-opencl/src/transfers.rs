//! Commands that move bytes.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use opencl_sys::{
    CL_COMMAND_BARRIER, CL_COMMAND_COPY_BUFFER, CL_COMMAND_COPY_BUFFER_RECT,
    CL_COMMAND_COPY_BUFFER_TO_IMAGE, CL_COMMAND_COPY_IMAGE_TO_BUFFER, CL_COMMAND_FILL_BUFFER,
    CL_COMMAND_MAP_BUFFER, CL_COMMAND_MAP_IMAGE, CL_COMMAND_MARKER, CL_COMMAND_READ_BUFFER,
    CL_COMMAND_READ_BUFFER_RECT, CL_COMMAND_READ_IMAGE, CL_COMMAND_SVM_MEMCPY,
    CL_COMMAND_UNMAP_MEM_OBJECT, CL_COMMAND_WRITE_BUFFER, CL_COMMAND_WRITE_BUFFER_RECT,
    CL_COMMAND_WRITE_IMAGE, CL_INVALID_CONTEXT, CL_INVALID_OPERATION, CL_INVALID_VALUE,
    CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY, CL_SUCCESS, cl_bool,
    cl_command_queue, cl_event, cl_int, cl_map_flags, cl_mem, cl_uint,
};
use towpath_cold::{Rows, pages, thread_faults};

use crate::boundary::{self, copy_rows, put, triple};
use crate::event::{EventBody, wait_list};
use crate::knobs::{Count, Knob, Script, enter};
use crate::memory::{MemBody, checked_rect};
use crate::object;
use crate::queue::{Command, QueueBody, pause};

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

fn memory(queue: &QueueBody, handle: cl_mem) -> Result<Arc<MemBody>, cl_int> {
    let memory = object::get::<MemBody>(handle)?;
    if Arc::ptr_eq(&memory.context, &queue.context) {
        Ok(memory)
    } else {
        Err(CL_INVALID_CONTEXT)
    }
}

fn host_may(memory: &MemBody, reads: bool) -> Result<(), cl_int> {
    let other = if reads {
        CL_MEM_HOST_WRITE_ONLY
    } else {
        CL_MEM_HOST_READ_ONLY
    };
    if memory.flags & (other | CL_MEM_HOST_NO_ACCESS) == 0 {
        Ok(())
    } else {
        Err(CL_INVALID_OPERATION)
    }
}

fn host(pointer: *const c_void) -> Result<usize, cl_int> {
    if pointer.is_null() {
        Err(CL_INVALID_VALUE)
    } else {
        Ok(pointer.expose_provenance())
    }
}

/// The work of a read: what was cold when it arrived is paid for when it runs.
fn to_host<K: Send + 'static>(
    from: Rows,
    to: Rows,
    keep: K,
) -> impl FnOnce() -> Result<(), cl_int> + Send {
    let found = pages(&to).unwrap_or_default();
    Count::ColdPages.add(found.cold);
    Count::ReadPages.add(found.total);
    move || {
        pause(found.cold.saturating_mul(Knob::PenaltyNs.get()));
        pause(copy_time(&to));
        let before = thread_faults();
        copy_rows(&from, &to);
        Count::CopyFaults.add(thread_faults() - before);
        Count::BytesRead.add(to.bytes() as u64);
        drop(keep);
        Ok(())
    }
}

fn from_host<K: Send + 'static>(
    from: Rows,
    to: Rows,
    keep: K,
) -> impl FnOnce() -> Result<(), cl_int> + Send {
    move || {
        pause(copy_time(&to));
        copy_rows(&from, &to);
        Count::BytesWritten.add(to.bytes() as u64);
        drop(keep);
        Ok(())
    }
}

fn on_device<K: Send + 'static>(
    from: Rows,
    to: Rows,
    keep: K,
) -> impl FnOnce() -> Result<(), cl_int> + Send {
    move || {
        copy_rows(&from, &to);
        drop(keep);
        Ok(())
    }
}

fn copy_time(rows: &Rows) -> u64 {
    (rows.bytes() as u64 / 1024).saturating_mul(Knob::CopyNsPerKib.get())
}

pub(crate) extern "C" fn read_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    pointer: *mut c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, blocking, waits, list, event);
    enqueue(
        &common,
        Count::ReadBuffer,
        CL_COMMAND_READ_BUFFER,
        |queue, _| {
            let memory = memory(queue, buffer)?;
            host_may(&memory, true)?;
            let to = Rows::flat(host(pointer)?, size);
            Ok(to_host(memory.range(offset, size)?, to, memory))
        },
    )
}

pub(crate) extern "C" fn write_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    pointer: *const c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, blocking, waits, list, event);
    enqueue(
        &common,
        Count::WriteBuffer,
        CL_COMMAND_WRITE_BUFFER,
        |queue, _| {
            let memory = memory(queue, buffer)?;
            host_may(&memory, false)?;
            let from = Rows::flat(host(pointer)?, size);
            Ok(from_host(from, memory.range(offset, size)?, memory))
        },
    )
}

pub(crate) extern "C" fn read_buffer_rect(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row: usize,
    buffer_slice: usize,
    host_row: usize,
    host_slice: usize,
    pointer: *mut c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, blocking, waits, list, event);
    let command = CL_COMMAND_READ_BUFFER_RECT;
    enqueue(&common, Count::ReadBufferRect, command, |queue, _| {
        let memory = memory(queue, buffer)?;
        host_may(&memory, true)?;
        let region = triple(region)?;
        let base = host(pointer)?;
        let to = checked_rect(base, triple(host_origin)?, region, host_row, host_slice)?;
        let from = memory.rect(triple(buffer_origin)?, region, buffer_row, buffer_slice)?;
        Ok(to_host(from, to, memory))
    })
}

pub(crate) extern "C" fn write_buffer_rect(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row: usize,
    buffer_slice: usize,
    host_row: usize,
    host_slice: usize,
    pointer: *const c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, blocking, waits, list, event);
    let command = CL_COMMAND_WRITE_BUFFER_RECT;
    enqueue(&common, Count::WriteBufferRect, command, |queue, _| {
        let memory = memory(queue, buffer)?;
        host_may(&memory, false)?;
        let region = triple(region)?;
        let base = host(pointer)?;
        let from = checked_rect(base, triple(host_origin)?, region, host_row, host_slice)?;
        let to = memory.rect(triple(buffer_origin)?, region, buffer_row, buffer_slice)?;
        Ok(from_host(from, to, memory))
    })
}

/// The host side of an image transfer.
fn image_host(
    memory: &MemBody,
    pointer: *const c_void,
    region: [usize; 3],
    row: usize,
    slice: usize,
) -> Result<Rows, cl_int> {
    let image = memory.image.ok_or(opencl_sys::CL_INVALID_MEM_OBJECT)?;
    let [width, height, depth] = region;
    let width = width.checked_mul(image.element).ok_or(CL_INVALID_VALUE)?;
    checked_rect(host(pointer)?, [0; 3], [width, height, depth], row, slice)
}

pub(crate) extern "C" fn read_image(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row: usize,
    slice: usize,
    pointer: *mut c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, blocking, waits, list, event);
    enqueue(
        &common,
        Count::ReadImage,
        CL_COMMAND_READ_IMAGE,
        |queue, _| {
            let memory = memory(queue, image)?;
            host_may(&memory, true)?;
            let region = triple(region)?;
            let to = image_host(&memory, pointer, region, row, slice)?;
            Ok(to_host(memory.region(triple(origin)?, region)?, to, memory))
        },
    )
}

pub(crate) extern "C" fn write_image(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row: usize,
    slice: usize,
    pointer: *const c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, blocking, waits, list, event);
    enqueue(
        &common,
        Count::WriteImage,
        CL_COMMAND_WRITE_IMAGE,
        |queue, _| {
            let memory = memory(queue, image)?;
            host_may(&memory, false)?;
            let region = triple(region)?;
            let from = image_host(&memory, pointer, region, row, slice)?;
            Ok(from_host(
                from,
                memory.region(triple(origin)?, region)?,
                memory,
            ))
        },
    )
}

pub(crate) extern "C" fn copy_buffer(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    from: usize,
    to: usize,
    size: usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    enqueue(
        &common,
        Count::CopyBuffer,
        CL_COMMAND_COPY_BUFFER,
        |queue, _| {
            let source = memory(queue, source)?;
            let target = memory(queue, target)?;
            let from = source.range(from, size)?;
            Ok(on_device(from, target.range(to, size)?, (source, target)))
        },
    )
}

pub(crate) extern "C" fn copy_buffer_rect(
    queue: cl_command_queue,
    source: cl_mem,
    target: cl_mem,
    source_origin: *const usize,
    target_origin: *const usize,
    region: *const usize,
    source_row: usize,
    source_slice: usize,
    target_row: usize,
    target_slice: usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    let command = CL_COMMAND_COPY_BUFFER_RECT;
    enqueue(&common, Count::CopyBufferRect, command, |queue, _| {
        let source = memory(queue, source)?;
        let target = memory(queue, target)?;
        let region = triple(region)?;
        let from = source.rect(triple(source_origin)?, region, source_row, source_slice)?;
        let to = target.rect(triple(target_origin)?, region, target_row, target_slice)?;
        Ok(on_device(from, to, (source, target)))
    })
}

pub(crate) extern "C" fn copy_image_to_buffer(
    queue: cl_command_queue,
    image: cl_mem,
    buffer: cl_mem,
    origin: *const usize,
    region: *const usize,
    offset: usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    let command = CL_COMMAND_COPY_IMAGE_TO_BUFFER;
    enqueue(&common, Count::CopyImageToBuffer, command, |queue, _| {
        let image = memory(queue, image)?;
        let buffer = memory(queue, buffer)?;
        let from = image.region(triple(origin)?, triple(region)?)?;
        let to = packed(&from, buffer.range(offset, from.bytes())?.base);
        Ok(on_device(from, to, (image, buffer)))
    })
}

pub(crate) extern "C" fn copy_buffer_to_image(
    queue: cl_command_queue,
    buffer: cl_mem,
    image: cl_mem,
    offset: usize,
    origin: *const usize,
    region: *const usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    let command = CL_COMMAND_COPY_BUFFER_TO_IMAGE;
    enqueue(&common, Count::CopyBufferToImage, command, |queue, _| {
        let image = memory(queue, image)?;
        let buffer = memory(queue, buffer)?;
        let to = image.region(triple(origin)?, triple(region)?)?;
        let from = packed(&to, buffer.range(offset, to.bytes())?.base);
        Ok(on_device(from, to, (image, buffer)))
    })
}

/// Rows of the same shape, packed at `base`.
fn packed(rows: &Rows, base: usize) -> Rows {
    let region = [rows.row_bytes, rows.rows, rows.slices];
    Rows::rect(base, [0; 3], region, 0, 0)
}

pub(crate) extern "C" fn fill_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    pattern: *const c_void,
    pattern_bytes: usize,
    offset: usize,
    size: usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    enqueue(
        &common,
        Count::FillBuffer,
        CL_COMMAND_FILL_BUFFER,
        |queue, _| {
            let memory = memory(queue, buffer)?;
            let rows = memory.range(offset, size)?;
            let pattern = boundary::list(pattern.cast::<u8>(), pattern_bytes);
            Ok(move || {
                pause(Knob::FillNs.get());
                boundary::fill(rows.base, rows.row_bytes, &pattern);
                drop(memory);
                Ok(())
            })
        },
    )
}

pub(crate) extern "C" fn svm_memcpy(
    queue: cl_command_queue,
    blocking: cl_bool,
    target: *mut c_void,
    source: *const c_void,
    size: usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, blocking, waits, list, event);
    enqueue(&common, Count::SvmMemcpy, CL_COMMAND_SVM_MEMCPY, |_, _| {
        let from = Rows::flat(host(source)?, size);
        Ok(to_host(from, Rows::flat(host(target)?, size), ()))
    })
}

pub(crate) extern "C" fn marker(
    queue: cl_command_queue,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    enqueue(&common, Count::Marker, CL_COMMAND_MARKER, |_, _| {
        Ok(|| Ok(()))
    })
}

pub(crate) extern "C" fn barrier(
    queue: cl_command_queue,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    enqueue(&common, Count::Marker, CL_COMMAND_BARRIER, |_, _| {
        Ok(|| Ok(()))
    })
}

/// Hands a mapping out once it was enqueued.
fn map(
    common: &Common,
    handle: cl_mem,
    command: cl_uint,
    error: *mut cl_int,
    locate: impl FnOnce(&MemBody) -> Result<usize, cl_int>,
) -> *mut c_void {
    let mut address = 0;
    let code = enqueue(common, Count::Map, command, |queue, _| {
        let memory = memory(queue, handle)?;
        address = locate(&memory)?;
        memory.maps.fetch_add(1, Ordering::Relaxed);
        Count::Maps.add(1);
        Ok(|| Ok(()))
    });
    put(error, code);
    if code == CL_SUCCESS {
        std::ptr::with_exposed_provenance_mut(address)
    } else {
        std::ptr::null_mut()
    }
}

pub(crate) extern "C" fn map_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    _flags: cl_map_flags,
    offset: usize,
    size: usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
    error: *mut cl_int,
) -> *mut c_void {
    let common = Common::new(queue, blocking, waits, list, event);
    map(&common, buffer, CL_COMMAND_MAP_BUFFER, error, |memory| {
        memory.range(offset, size).map(|rows| rows.base)
    })
}

pub(crate) extern "C" fn map_image(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    _flags: cl_map_flags,
    origin: *const usize,
    region: *const usize,
    row_pitch: *mut usize,
    slice_pitch: *mut usize,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
    error: *mut cl_int,
) -> *mut c_void {
    let common = Common::new(queue, blocking, waits, list, event);
    map(&common, image, CL_COMMAND_MAP_IMAGE, error, |memory| {
        let rows = memory.region(triple(origin)?, triple(region)?)?;
        put(row_pitch, rows.row_pitch);
        put(slice_pitch, rows.slice_pitch);
        Ok(rows.base)
    })
}

pub(crate) extern "C" fn unmap(
    queue: cl_command_queue,
    handle: cl_mem,
    pointer: *mut c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let common = Common::new(queue, 0, waits, list, event);
    let command = CL_COMMAND_UNMAP_MEM_OBJECT;
    enqueue(&common, Count::Unmap, command, |queue, _| {
        let memory = memory(queue, handle)?;
        if pointer.is_null() || memory.mapped() == 0 {
            return Err(CL_INVALID_VALUE);
        }
        memory.maps.fetch_sub(1, Ordering::Relaxed);
        Count::Maps.sub(1);
        Ok(|| Ok(()))
    })
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
