//! DRM sync objects, sync files and the two software sources of fences, as the kernel lays them out.
//!
//! Layouts and numbers are those of `include/uapi/drm/drm.h`, `linux/sync_file.h`, `drm/vgem_drm.h`
//! and `drivers/dma-buf/sw_sync.c`. Each struct is held to its size by an assertion, each request
//! number is made from that size. [`calls`] issues the requests.
//!
//! The kernel copies as many bytes as the request number says: a shorter struct of an older program
//! is filled with zeros, a longer one is cut. [`Layout::SHORTEST`] is the shortest form in the field.

use std::mem::{offset_of, size_of};

pub mod calls;

/// Makes a request number as `_IOC` does.
const fn request(direction: u32, kind: u8, number: u8, bytes: usize) -> u32 {
    // The size field has 14 bits; every layout here is far smaller.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "layouts are under 2^14 bytes"
    )]
    let bytes = bytes as u32;
    (direction << 30) | (bytes << 16) | ((kind as u32) << 8) | number as u32
}

const WRITE: u32 = 1;
const READ_WRITE: u32 = 3;

/// A struct that one request carries.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding, every bit pattern is a value, and `REQUEST` names the
/// request that reads and writes exactly this struct.
#[expect(
    unsafe_code,
    reason = "the trait's promise is what makes the calls sound"
)]
pub unsafe trait Layout: Copy {
    /// The request number.
    const REQUEST: u32;
    /// Bytes of the shortest form that callers in the field pass.
    const SHORTEST: usize;
}

macro_rules! layouts {
    ($($(#[$meta:meta])* $name:ident = $direction:ident $kind:literal $number:literal, $bytes:literal, shortest $shortest:literal {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Eq, PartialEq)]
            pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($field: <$type as Zero>::ZERO,)* }
                }
            }

            // SAFETY: `repr(C)`, integers and arrays of bytes only, and the assertions below hold
            // the size to the sum of the fields, so there is no padding.
            #[expect(unsafe_code, reason = "see the safety comment")]
            unsafe impl Layout for $name {
                const REQUEST: u32 = request($direction, $kind, $number, $bytes);
                const SHORTEST: usize = $shortest;
            }

            const _: () = assert!(size_of::<$name>() == $bytes);
            const _: () = assert!(0 $(+ size_of::<$type>())* == $bytes, "no padding");
        )*
    };
}

/// A type's zero, for defaults of long arrays.
trait Zero {
    /// The value whose bytes are all zero.
    const ZERO: Self;
}
impl Zero for u32 {
    const ZERO: Self = 0;
}
impl Zero for i32 {
    const ZERO: Self = 0;
}
impl Zero for u64 {
    const ZERO: Self = 0;
}
impl Zero for i64 {
    const ZERO: Self = 0;
}
impl Zero for [u8; 32] {
    const ZERO: Self = [0; 32];
}

/// `DRM_CAP_SYNCOBJ`.
pub const CAP_SYNCOBJ: u64 = 0x13;
/// `DRM_CAP_SYNCOBJ_TIMELINE`.
pub const CAP_SYNCOBJ_TIMELINE: u64 = 0x14;

/// `DRM_SYNCOBJ_CREATE_SIGNALED`.
pub const CREATE_SIGNALED: u32 = 1 << 0;
/// `DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE` and
/// `DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE`: the descriptor is a sync file.
pub const FD_SYNC_FILE: u32 = 1 << 0;
/// `DRM_SYNCOBJ_*_FLAGS_TIMELINE`: the `point` field counts (Linux 6.16).
pub const FD_TIMELINE: u32 = 1 << 1;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL`.
pub const WAIT_ALL: u32 = 1 << 0;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT`.
pub const WAIT_FOR_SUBMIT: u32 = 1 << 1;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE`.
pub const WAIT_AVAILABLE: u32 = 1 << 2;
/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE`.
pub const WAIT_DEADLINE: u32 = 1 << 3;
/// `DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED`.
pub const QUERY_LAST_SUBMITTED: u32 = 1 << 0;
/// Where the kernel's own software timelines are opened, if it has them.
pub const SW_SYNC_PATH: &str = "/sys/kernel/debug/sync/sw_sync";

layouts! {
    /// `struct drm_version`.
    DrmVersion = READ_WRITE b'd' 0x00, 64, shortest 64 {
        /// Major.
        major: i32,
        /// Minor.
        minor: i32,
        /// Patch level.
        patchlevel: i32,
        /// Padding of 64-bit machines.
        pad: u32,
        /// Room at `name`, then the name's length, in bytes.
        name_len: u64,
        /// Address for the driver's name.
        name: u64,
        /// As `name_len`.
        date_len: u64,
        /// Address for the driver's date.
        date: u64,
        /// As `name_len`.
        desc_len: u64,
        /// Address for the driver's description.
        desc: u64,
    }
    /// `struct drm_get_cap`.
    GetCap = READ_WRITE b'd' 0x0c, 16, shortest 16 {
        /// Which capability.
        capability: u64,
        /// The answer.
        value: u64,
    }
    /// `struct drm_gem_close`.
    GemClose = WRITE b'd' 0x09, 8, shortest 8 {
        /// Buffer handle.
        handle: u32,
        /// Zero.
        pad: u32,
    }
    /// `struct drm_prime_handle`, for `DRM_IOCTL_PRIME_HANDLE_TO_FD`.
    PrimeHandleToFd = READ_WRITE b'd' 0x2d, 12, shortest 12 {
        /// Buffer handle.
        handle: u32,
        /// `DRM_CLOEXEC`, `DRM_RDWR`.
        flags: u32,
        /// The dma-buf.
        fd: i32,
    }
    /// `struct drm_mode_create_dumb`.
    CreateDumb = READ_WRITE b'd' 0xb2, 32, shortest 32 {
        /// Rows.
        height: u32,
        /// Pixels in a row.
        width: u32,
        /// Bits in a pixel.
        bpp: u32,
        /// Zero.
        flags: u32,
        /// The new buffer.
        handle: u32,
        /// Bytes in a row.
        pitch: u32,
        /// Bytes of the buffer.
        size: u64,
    }
    /// `struct drm_syncobj_create`.
    SyncobjCreate = READ_WRITE b'd' 0xbf, 8, shortest 8 {
        /// The new handle.
        handle: u32,
        /// [`CREATE_SIGNALED`] or zero.
        flags: u32,
    }
    /// `struct drm_syncobj_destroy`.
    SyncobjDestroy = READ_WRITE b'd' 0xc0, 8, shortest 8 {
        /// Which object.
        handle: u32,
        /// Zero.
        pad: u32,
    }
    /// `struct drm_syncobj_handle`, for `DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD`.
    SyncobjHandleToFd = READ_WRITE b'd' 0xc1, 24, shortest 16 {
        /// Which object.
        handle: u32,
        /// [`FD_SYNC_FILE`], [`FD_TIMELINE`].
        flags: u32,
        /// The new descriptor.
        fd: i32,
        /// Zero.
        pad: u32,
        /// The point exported, with [`FD_TIMELINE`].
        point: u64,
    }
    /// `struct drm_syncobj_handle`, for `DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE`.
    SyncobjFdToHandle = READ_WRITE b'd' 0xc2, 24, shortest 16 {
        /// The new handle, or with [`FD_SYNC_FILE`] the one that takes the fence.
        handle: u32,
        /// [`FD_SYNC_FILE`], [`FD_TIMELINE`].
        flags: u32,
        /// The descriptor.
        fd: i32,
        /// Zero.
        pad: u32,
        /// The point imported at, with [`FD_TIMELINE`].
        point: u64,
    }
    /// `struct drm_syncobj_wait`.
    SyncobjWait = READ_WRITE b'd' 0xc3, 40, shortest 32 {
        /// Address of `count_handles` handles.
        handles: u64,
        /// Absolute `CLOCK_MONOTONIC` time in nanoseconds; zero, past or negative polls.
        timeout_nsec: i64,
        /// Number of handles.
        count_handles: u32,
        /// `WAIT_*`.
        flags: u32,
        /// Index of an object that was done; written on success only.
        first_signaled: u32,
        /// Zero.
        pad: u32,
        /// Hint for fences, with [`WAIT_DEADLINE`]; absolute `CLOCK_MONOTONIC` nanoseconds.
        deadline_nsec: u64,
    }
    /// `struct drm_syncobj_timeline_wait`.
    SyncobjTimelineWait = READ_WRITE b'd' 0xca, 48, shortest 40 {
        /// Address of `count_handles` handles.
        handles: u64,
        /// Address of as many points, or zero for points of zero.
        points: u64,
        /// Absolute `CLOCK_MONOTONIC` time in nanoseconds; zero, past or negative polls.
        timeout_nsec: i64,
        /// Number of handles.
        count_handles: u32,
        /// `WAIT_*`.
        flags: u32,
        /// Index of an object that was done; written on success only.
        first_signaled: u32,
        /// Zero.
        pad: u32,
        /// Hint for fences, with [`WAIT_DEADLINE`]; absolute `CLOCK_MONOTONIC` nanoseconds.
        deadline_nsec: u64,
    }
    /// `struct drm_syncobj_array`, for `DRM_IOCTL_SYNCOBJ_RESET`.
    SyncobjReset = READ_WRITE b'd' 0xc4, 16, shortest 16 {
        /// Address of `count_handles` handles.
        handles: u64,
        /// Number of handles.
        count_handles: u32,
        /// Zero.
        pad: u32,
    }
    /// `struct drm_syncobj_array`, for `DRM_IOCTL_SYNCOBJ_SIGNAL`.
    SyncobjSignal = READ_WRITE b'd' 0xc5, 16, shortest 16 {
        /// Address of `count_handles` handles.
        handles: u64,
        /// Number of handles.
        count_handles: u32,
        /// Zero.
        pad: u32,
    }
    /// `struct drm_syncobj_timeline_array`, for `DRM_IOCTL_SYNCOBJ_QUERY`.
    SyncobjQuery = READ_WRITE b'd' 0xcb, 24, shortest 24 {
        /// Address of `count_handles` handles.
        handles: u64,
        /// Address of as many points, written.
        points: u64,
        /// Number of handles.
        count_handles: u32,
        /// [`QUERY_LAST_SUBMITTED`].
        flags: u32,
    }
    /// `struct drm_syncobj_transfer`.
    SyncobjTransfer = READ_WRITE b'd' 0xcc, 32, shortest 32 {
        /// Object that has the fence.
        src_handle: u32,
        /// Object that gets it.
        dst_handle: u32,
        /// Where the fence is; zero for the current one.
        src_point: u64,
        /// Where it goes; zero replaces the current one.
        dst_point: u64,
        /// [`WAIT_FOR_SUBMIT`].
        flags: u32,
        /// Zero.
        pad: u32,
    }
    /// `struct drm_syncobj_timeline_array`, for `DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL`.
    SyncobjTimelineSignal = READ_WRITE b'd' 0xcd, 24, shortest 24 {
        /// Address of `count_handles` handles.
        handles: u64,
        /// Address of as many points, or zero for points of zero.
        points: u64,
        /// Number of handles.
        count_handles: u32,
        /// Zero.
        flags: u32,
    }
    /// `struct drm_syncobj_eventfd`.
    SyncobjEventfd = READ_WRITE b'd' 0xcf, 24, shortest 24 {
        /// Which object.
        handle: u32,
        /// [`WAIT_AVAILABLE`] or zero.
        flags: u32,
        /// Which point; zero for the current fence.
        point: u64,
        /// The eventfd that gets one added.
        fd: i32,
        /// Zero.
        pad: u32,
    }
    /// `struct drm_vgem_fence_attach`.
    VgemFenceAttach = READ_WRITE b'd' 0x41, 16, shortest 16 {
        /// Buffer handle.
        handle: u32,
        /// 1: the fence is a writer's.
        flags: u32,
        /// The new fence.
        out_fence: u32,
        /// Zero.
        pad: u32,
    }
    /// `struct drm_vgem_fence_signal`.
    VgemFenceSignal = WRITE b'd' 0x42, 8, shortest 8 {
        /// Which fence.
        fence: u32,
        /// Zero.
        flags: u32,
    }
    /// `struct dma_buf_export_sync_file`.
    DmaBufExportSyncFile = READ_WRITE b'b' 0x02, 8, shortest 8 {
        /// 1: fences that a reader waits for; 2: that a writer waits for.
        flags: u32,
        /// The new sync file.
        fd: i32,
    }
    /// `struct sync_merge_data`.
    SyncMerge = READ_WRITE b'>' 3, 48, shortest 48 {
        /// Name of the new sync file.
        name: [u8; 32],
        /// The second sync file.
        fd2: i32,
        /// The new sync file.
        fence: i32,
        /// Zero.
        flags: u32,
        /// Zero.
        pad: u32,
    }
    /// `struct sync_file_info`.
    SyncFileInfo = READ_WRITE b'>' 4, 56, shortest 56 {
        /// Name of the sync file.
        name: [u8; 32],
        /// 1 done, 0 pending, negative error.
        status: i32,
        /// Zero.
        flags: u32,
        /// Room at `sync_fence_info` in elements; becomes the number of fences.
        num_fences: u32,
        /// Zero.
        pad: u32,
        /// Address of [`SyncFenceInfo`]s.
        sync_fence_info: u64,
    }
    /// `struct sync_set_deadline` (Linux 6.6).
    SyncSetDeadline = WRITE b'>' 5, 16, shortest 16 {
        /// When whoever sets it needs the fences done, `CLOCK_MONOTONIC` nanoseconds.
        deadline_ns: u64,
        /// Zero.
        pad: u64,
    }
    /// `struct sw_sync_create_fence_data`.
    SwSyncCreateFence = READ_WRITE b'W' 0, 40, shortest 40 {
        /// The timeline value at which the fence is done.
        value: u32,
        /// Name of the fence.
        name: [u8; 32],
        /// The new sync file.
        fence: i32,
    }
    /// The operand of `SW_SYNC_IOC_INC`.
    SwSyncInc = WRITE b'W' 1, 4, shortest 4 {
        /// By how much the timeline grows.
        by: u32,
    }
    /// `struct sw_sync_get_deadline` (Linux 6.6).
    SwSyncGetDeadline = READ_WRITE b'W' 2, 16, shortest 16 {
        /// Zero; becomes the earliest deadline that was set.
        deadline_ns: u64,
        /// Zero.
        pad: u32,
        /// A sync file of one fence of a software timeline.
        fence_fd: i32,
    }
}

/// The bytes of a struct, to copy from and to a caller.
pub fn bytes_mut<T: Layout>(value: &mut T) -> &mut [u8] {
    let length = size_of::<T>();
    // SAFETY: `Layout` promises no padding and that any bytes are a value; the borrow is passed on.
    #[expect(unsafe_code, reason = "see the safety comment")]
    unsafe {
        std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), length)
    }
}

impl SyncFenceInfo {
    /// The bytes as the kernel writes them.
    #[must_use]
    #[expect(
        clippy::host_endian_bytes,
        reason = "integers of this machine's memory"
    )]
    pub fn to_bytes(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        let (names, numbers) = bytes.split_at_mut(64);
        let (obj_name, driver_name) = names.split_at_mut(32);
        obj_name.copy_from_slice(&self.obj_name);
        driver_name.copy_from_slice(&self.driver_name);
        let (status, rest) = numbers.split_at_mut(4);
        let (flags, timestamp) = rest.split_at_mut(4);
        status.copy_from_slice(&self.status.to_ne_bytes());
        flags.copy_from_slice(&self.flags.to_ne_bytes());
        timestamp.copy_from_slice(&self.timestamp_ns.to_ne_bytes());
        bytes
    }
}

/// `struct sync_fence_info`: one element of the array at [`SyncFileInfo::sync_fence_info`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SyncFenceInfo {
    /// Name of the timeline.
    pub obj_name: [u8; 32],
    /// Name of the driver.
    pub driver_name: [u8; 32],
    /// 1 done, 0 pending, negative error.
    pub status: i32,
    /// Zero.
    pub flags: u32,
    /// When it was done, `CLOCK_MONOTONIC` nanoseconds.
    pub timestamp_ns: u64,
}

const _: () = assert!(size_of::<SyncFenceInfo>() == 80);
const _: () = assert!(offset_of!(SyncobjWait, deadline_nsec) == 32);
const _: () = assert!(offset_of!(SyncobjTimelineWait, timeout_nsec) == 16);
const _: () = assert!(offset_of!(SyncobjTimelineWait, deadline_nsec) == 40);
const _: () = assert!(offset_of!(SyncobjHandleToFd, point) == 16);
const _: () = assert!(offset_of!(SyncobjEventfd, fd) == 16);
const _: () = assert!(offset_of!(SyncobjTransfer, dst_point) == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_numbers_are_the_kernels() {
        // As `strace` and the headers of Linux 6.12 print them.
        assert_eq!(SyncobjCreate::REQUEST, 0xc008_64bf);
        assert_eq!(SyncobjHandleToFd::REQUEST, 0xc018_64c1);
        assert_eq!(SyncobjWait::REQUEST, 0xc028_64c3);
        assert_eq!(SyncobjTimelineWait::REQUEST, 0xc030_64ca);
        assert_eq!(SyncobjEventfd::REQUEST, 0xc018_64cf);
        assert_eq!(SyncFileInfo::REQUEST, 0xc038_3e04);
        assert_eq!(SyncMerge::REQUEST, 0xc030_3e03);
        assert_eq!(SwSyncCreateFence::REQUEST, 0xc028_5700);
        assert_eq!(SwSyncInc::REQUEST, 0x4004_5701);
        assert_eq!(SyncSetDeadline::REQUEST, 0x4010_3e05);
        assert_eq!(SwSyncGetDeadline::REQUEST, 0xc010_5702);
    }
}
