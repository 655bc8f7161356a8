//! Reads and writes: bytes between the program and the device.

use std::ffi::c_void;

use opencl_sys::{
    CL_COMMAND_READ_BUFFER, CL_COMMAND_READ_BUFFER_RECT, CL_COMMAND_READ_IMAGE,
    CL_COMMAND_SVM_MEMCPY, CL_COMMAND_WRITE_BUFFER, CL_COMMAND_WRITE_BUFFER_RECT,
    CL_COMMAND_WRITE_IMAGE, CL_INVALID_OPERATION, CL_INVALID_VALUE, CL_MEM_HOST_NO_ACCESS,
    CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY, cl_bool, cl_command_queue, cl_event, cl_int,
    cl_mem, cl_uint,
};
use towpath_cold::{Rows, pages, thread_faults};

use crate::boundary::{copy_rows, triple};
use crate::enqueue::{Common, enqueue, memory};
use crate::knobs::{Count, Knob};
use crate::memory::{MemBody, checked_rect};
use crate::queue::pause;

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
