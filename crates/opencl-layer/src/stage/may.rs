//! The rows of the table in the parent's header, but for those that [`super::entries`] holds.
#![expect(
    unsafe_code,
    reason = "asks the driver about the program's memory object"
)]

use std::ffi::c_void;

use opencl_sys::{
    CL_MEM_ALLOC_HOST_PTR, CL_MEM_ASSOCIATED_MEMOBJECT, CL_MEM_FLAGS, CL_MEM_HOST_NO_ACCESS,
    CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY, CL_MEM_OBJECT_BUFFER, CL_MEM_OBJECT_IMAGE2D,
    CL_MEM_OBJECT_IMAGE3D, CL_MEM_TYPE, CL_MEM_USE_HOST_PTR, CL_SUCCESS, cl_mem, cl_mem_flags,
    cl_mem_info, cl_mem_object_type,
};
use towpath_ledger::HostPath;
use towpath_memory::vma::{self, Kind};
use towpath_transfer::opencl::{Region, Transfer as Arguments};
use towpath_transfer::readback::Footprint;

use crate::handles::Handles;
use crate::observe::Transfer;
use crate::{devices, inside, next};

/// Whether the call may be staged.
pub(super) fn check(transfer: &Transfer, call: &Arguments, footprint: &Footprint) -> bool {
    let is_read = transfer.path == HostPath::Readback;
    transfer.events.is_blocking
        && !inside::is_callback()
        && devices::is_plain(transfer.events.queue)
        && memory_of(call).is_some_and(|memory| may_use(memory, is_read))
        && is_own(footprint)
}

/// Whether the host range is anonymous memory, writable, so that threads of ours can use it. A source
/// that is read-only may be a file, and its kind does not say.
fn is_own(footprint: &Footprint) -> bool {
    matches!(
        vma::kind(footprint.envelope()),
        Kind::Anonymous | Kind::HugeTlb
    )
}

fn memory_of(call: &Arguments) -> Option<cl_mem> {
    match call.region {
        Region::Buffer { memory, .. }
        | Region::Rect { memory, .. }
        | Region::Image { memory, .. } => Some(memory),
        _ => None,
    }
}

const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// What was found about memory objects: whether reads and writes of them may be staged.
static OBJECTS: Handles<4096> = Handles::new();

/// Forgets an object that the program releases.
pub(crate) fn forget(memory: cl_mem) {
    OBJECTS.remove(memory.addr());
}

fn may_use(memory: cl_mem, is_read: bool) -> bool {
    let word = OBJECTS.get(memory.addr()).unwrap_or_else(|| {
        let word = ask_rights(memory).unwrap_or(0);
        OBJECTS.put(memory.addr(), word);
        word
    });
    word & if is_read { READABLE } else { WRITABLE } != 0
}

fn ask_rights(memory: cl_mem) -> Option<u64> {
    let kind: cl_mem_object_type = ask(memory, CL_MEM_TYPE)?;
    let is_known = [
        CL_MEM_OBJECT_BUFFER,
        CL_MEM_OBJECT_IMAGE2D,
        CL_MEM_OBJECT_IMAGE3D,
    ]
    .contains(&kind);
    let parent: usize = ask(memory, CL_MEM_ASSOCIATED_MEMOBJECT)?;
    let flags: cl_mem_flags = ask(memory, CL_MEM_FLAGS)?;
    if !is_known || parent != 0 || flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR) != 0 {
        return None;
    }
    let mut rights = READABLE | WRITABLE;
    if flags & (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS) != 0 {
        rights &= !READABLE;
    }
    if flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS) != 0 {
        rights &= !WRITABLE;
    }
    Some(rights)
}

/// One integer that the driver knows of a memory object.
fn ask<T: Default>(memory: cl_mem, name: cl_mem_info) -> Option<T> {
    let call = next::table()?.clGetMemObjectInfo?;
    let mut answer = T::default();
    let value: *mut c_void = (&raw mut answer).cast();
    // SAFETY: `value` has the size given; a bad object is the driver's to refuse.
    let code = unsafe { call(memory, name, size_of::<T>(), value, std::ptr::null_mut()) };
    (code == CL_SUCCESS).then_some(answer)
}
