//! Contexts, buffers and images: storage and bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opencl_sys::{
    CL_INVALID_CONTEXT, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE, CL_MEM_ALLOC_HOST_PTR,
    CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_MEM_OBJECT_BUFFER, CL_MEM_USE_HOST_PTR,
    CL_OUT_OF_HOST_MEMORY, cl_channel_order, cl_channel_type, cl_int, cl_mem_flags,
    cl_mem_object_type,
};
use towpath_cold::Rows;

use crate::boundary;
use crate::knobs::{Count, Knob};
use crate::object::Body;

pub(crate) struct ContextBody {
    /// Indices of its devices.
    pub(crate) devices: Vec<usize>,
}

impl Body for ContextBody {
    const TAG: u32 = 0x7071_0002;
    const INVALID: cl_int = CL_INVALID_CONTEXT;
    const LIVE: Option<Count> = Some(Count::Contexts);
}

pub(crate) struct MemBody {
    pub(crate) context: Arc<ContextBody>,
    pub(crate) flags: cl_mem_flags,
    pub(crate) bytes: usize,
    pub(crate) host_pointer: usize,
    pub(crate) image: Option<Image>,
    /// The parent and the offset in it, for a sub-buffer.
    pub(crate) parent: Option<(Arc<Self>, usize)>,
    pub(crate) maps: AtomicU64,
    storage: Storage,
}

/// What an image is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) kind: cl_mem_object_type,
    pub(crate) order: cl_channel_order,
    pub(crate) data: cl_channel_type,
    pub(crate) element: usize,
    /// Width, height, depth; layers of an array take the place of what it has not.
    pub(crate) extent: [usize; 3],
}

/// Memory; owned unless the program's or a parent's.
struct Storage {
    address: usize,
    owned: usize,
    count: Count,
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.owned > 0 {
            boundary::unmap(self.address, self.owned);
            self.count.sub(self.owned as u64);
        }
    }
}

impl Body for MemBody {
    const TAG: u32 = 0x7071_0004;
    const INVALID: cl_int = CL_INVALID_MEM_OBJECT;
    const LIVE: Option<Count> = Some(Count::Mems);
}

impl MemBody {
    pub(crate) fn new(
        context: Arc<ContextBody>,
        flags: cl_mem_flags,
        bytes: usize,
        host_pointer: usize,
        image: Option<Image>,
    ) -> Result<Self, cl_int> {
        let storage = if flags & CL_MEM_USE_HOST_PTR != 0 {
            Storage {
                address: host_pointer,
                owned: 0,
                count: Count::DeviceBytes,
            }
        } else {
            allocate(flags, bytes)?
        };
        Ok(Self {
            context,
            flags,
            bytes,
            host_pointer,
            image,
            parent: None,
            maps: AtomicU64::new(0),
            storage,
        })
    }

    pub(crate) fn sub(
        parent: &Arc<Self>,
        flags: cl_mem_flags,
        origin: usize,
        bytes: usize,
    ) -> Self {
        Self {
            context: Arc::clone(&parent.context),
            flags: if flags == 0 { parent.flags } else { flags },
            bytes,
            host_pointer: 0,
            image: None,
            parent: Some((Arc::clone(parent), origin)),
            maps: AtomicU64::new(0),
            storage: Storage {
                address: parent.address() + origin,
                owned: 0,
                count: Count::DeviceBytes,
            },
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.storage.address
    }

    pub(crate) fn kind(&self) -> cl_mem_object_type {
        self.image.map_or(CL_MEM_OBJECT_BUFFER, |image| image.kind)
    }

    /// `bytes` at `offset`, if they lie inside a buffer.
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Result<Rows, cl_int> {
        let end = offset.checked_add(bytes).ok_or(CL_INVALID_VALUE)?;
        if bytes == 0 || end > self.bytes || self.image.is_some() {
            return Err(CL_INVALID_VALUE);
        }
        Ok(Rows::flat(self.address() + offset, bytes))
    }

    /// A rectangle of a buffer, if it lies inside.
    pub(crate) fn rect(
        &self,
        origin: [usize; 3],
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Result<Rows, cl_int> {
        let rows = checked_rect(self.address(), origin, region, row_pitch, slice_pitch)?;
        let end = last_byte(&rows).ok_or(CL_INVALID_VALUE)?;
        if self.image.is_some() || end > self.address() + self.bytes {
            return Err(CL_INVALID_VALUE);
        }
        Ok(rows)
    }

    /// A region of an image, if it lies inside.
    pub(crate) fn region(&self, origin: [usize; 3], region: [usize; 3]) -> Result<Rows, cl_int> {
        let image = self.image.ok_or(CL_INVALID_MEM_OBJECT)?;
        for axis in 0..3 {
            let end = boundary_at(&origin, axis)
                .checked_add(boundary_at(&region, axis))
                .ok_or(CL_INVALID_VALUE)?;
            if boundary_at(&region, axis) == 0 || end > boundary_at(&image.extent, axis) {
                return Err(CL_INVALID_VALUE);
            }
        }
        let [width, height, _] = image.extent;
        let [x, y, z] = origin;
        let [columns, rows, slices] = region;
        let row = width * image.element;
        Ok(Rows::rect(
            self.address(),
            [x * image.element, y, z],
            [columns * image.element, rows, slices],
            row,
            row * height,
        ))
    }

    pub(crate) fn mapped(&self) -> u64 {
        self.maps.load(Ordering::Relaxed)
    }
}

/// A rectangle whose pitches are as OpenCL wants them.
pub(crate) fn checked_rect(
    base: usize,
    origin: [usize; 3],
    region: [usize; 3],
    row_pitch: usize,
    slice_pitch: usize,
) -> Result<Rows, cl_int> {
    let [width, rows, slices] = region;
    let packed = rows.checked_mul(width.max(row_pitch));
    let is_bad = width == 0
        || rows == 0
        || slices == 0
        || (row_pitch != 0 && row_pitch < width)
        || packed.is_none_or(|packed| slice_pitch != 0 && slice_pitch < packed);
    if is_bad {
        return Err(CL_INVALID_VALUE);
    }
    let rows = Rows::rect(base, origin, region, row_pitch, slice_pitch);
    last_byte(&rows).map(|_end| rows).ok_or(CL_INVALID_VALUE)
}

/// The address after the last row.
fn last_byte(rows: &Rows) -> Option<usize> {
    let slices = rows.slices.checked_sub(1)?.checked_mul(rows.slice_pitch)?;
    let lines = rows.rows.checked_sub(1)?.checked_mul(rows.row_pitch)?;
    rows.base
        .checked_add(slices)?
        .checked_add(lines)?
        .checked_add(rows.row_bytes)
}

fn boundary_at(of: &[usize; 3], axis: usize) -> usize {
    of.get(axis).copied().unwrap_or(0)
}

fn allocate(flags: cl_mem_flags, bytes: usize) -> Result<Storage, cl_int> {
    let pinned = flags & CL_MEM_ALLOC_HOST_PTR != 0;
    let (count, limit, error) = if pinned {
        (
            Count::PinnedBytes,
            Knob::PinnedLimit.get(),
            CL_OUT_OF_HOST_MEMORY,
        )
    } else {
        (
            Count::DeviceBytes,
            Knob::DeviceLimit.get(),
            CL_MEM_OBJECT_ALLOCATION_FAILURE,
        )
    };
    if limit != 0 && count.get() + bytes as u64 > limit {
        return Err(error);
    }
    let address = boundary::map(bytes);
    if address == 0 {
        return Err(error);
    }
    count.add(bytes as u64);
    Ok(Storage {
        address,
        owned: bytes,
        count,
    })
}
