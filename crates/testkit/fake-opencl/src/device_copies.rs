//! Copies on the device, fills, markers.

use std::ffi::c_void;

use opencl_sys::{
    CL_COMMAND_BARRIER, CL_COMMAND_COPY_BUFFER, CL_COMMAND_COPY_BUFFER_RECT,
    CL_COMMAND_COPY_BUFFER_TO_IMAGE, CL_COMMAND_COPY_IMAGE_TO_BUFFER, CL_COMMAND_FILL_BUFFER,
    CL_COMMAND_MARKER, cl_command_queue, cl_event, cl_int, cl_mem, cl_uint,
};
use towpath_cold::Rows;

use crate::boundary::{self, copy_rows, triple};
use crate::enqueue::{Common, enqueue, memory};
use crate::knobs::{Count, Knob};
use crate::queue::pause;

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
