//! Mappings: the pointer is the storage itself.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use opencl_sys::{
    CL_COMMAND_MAP_BUFFER, CL_COMMAND_MAP_IMAGE, CL_COMMAND_UNMAP_MEM_OBJECT, CL_INVALID_VALUE,
    CL_SUCCESS, cl_bool, cl_command_queue, cl_event, cl_int, cl_map_flags, cl_mem, cl_uint,
};

use crate::boundary::{put, triple};
use crate::enqueue::{Common, enqueue, memory};
use crate::knobs::Count;
use crate::memory::MemBody;

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
