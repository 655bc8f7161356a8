//! The requests by name, as the rules use them.
#![expect(unsafe_code, reason = "requests carry addresses of slices made here")]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use towpath_sys::drm::{
    self, SyncobjCreate, SyncobjDestroy, SyncobjEventfd, SyncobjFdToHandle, SyncobjHandleToFd,
    SyncobjQuery, SyncobjReset, SyncobjSignal, SyncobjTimelineSignal, SyncobjTimelineWait,
    SyncobjTransfer, SyncobjWait,
};

use crate::target::{Client, request};

/// A time that has passed: look once.
pub const POLL: i64 = 0;
/// What `first_signaled` holds before each wait.
pub(crate) const UNTOUCHED: u32 = 0xabcd;

/// A request's answer: what it gives or the kernel's code.
pub type Answer<T> = Result<T, i32>;

/// The absolute time so many milliseconds from now.
#[must_use]
pub fn in_ms(milliseconds: i64) -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec + milliseconds * 1_000_000
}

/// Requests on one opened device.
#[derive(Clone, Copy)]
pub struct Ops<'a>(pub &'a dyn Client);

impl std::fmt::Debug for Ops<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Ops")
    }
}

macro_rules! plain {
    ($($name:ident($layout:ident);)*) => {
        $(pub(crate) fn $name(self, mut argument: $layout) -> Answer<$layout> {
            // SAFETY: no address in it.
            unsafe { request(self.0, &mut argument) }.map(|()| argument)
        })*
    };
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr().expose_provenance() as u64
}

fn count<T>(slice: &[T]) -> u32 {
    u32::try_from(slice.len()).unwrap_or(u32::MAX)
}

impl Ops<'_> {
    plain! {
        raw_create(SyncobjCreate);
        raw_destroy(SyncobjDestroy);
        raw_handle_to_fd(SyncobjHandleToFd);
        raw_fd_to_handle(SyncobjFdToHandle);
        raw_transfer(SyncobjTransfer);
        raw_eventfd(SyncobjEventfd);
    }

    /// CREATE.
    pub fn create(self, flags: u32) -> Answer<u32> {
        self.raw_create(SyncobjCreate { handle: 0, flags })
            .map(|argument| argument.handle)
    }

    /// DESTROY.
    pub fn destroy(self, handle: u32) -> Answer<()> {
        self.raw_destroy(SyncobjDestroy { handle, pad: 0 })
            .map(|_| ())
    }

    /// HANDLE_TO_FD.
    pub fn export(self, handle: u32, flags: u32, point: u64) -> Answer<OwnedFd> {
        let argument = SyncobjHandleToFd {
            handle,
            flags,
            fd: -1,
            pad: 0,
            point,
        };
        let fd = self.raw_handle_to_fd(argument)?.fd;
        // SAFETY: made for us just now.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// FD_TO_HANDLE of an object.
    pub fn import(self, fd: BorrowedFd<'_>) -> Answer<u32> {
        let argument = SyncobjFdToHandle {
            handle: 0,
            flags: 0,
            fd: fd.as_raw_fd(),
            pad: 0,
            point: 0,
        };
        self.raw_fd_to_handle(argument)
            .map(|argument| argument.handle)
    }

    /// FD_TO_HANDLE of a sync file.
    pub fn import_sync_file(self, handle: u32, fd: BorrowedFd<'_>) -> Answer<()> {
        let flags = drm::FD_SYNC_FILE;
        let argument = SyncobjFdToHandle {
            handle,
            flags,
            fd: fd.as_raw_fd(),
            pad: 0,
            point: 0,
        };
        self.raw_fd_to_handle(argument).map(|_| ())
    }

    /// WAIT; the second value is `first_signaled` after the call.
    pub fn wait(self, handles: &[u32], timeout: i64, flags: u32) -> (Answer<()>, u32) {
        let mut argument = SyncobjWait {
            handles: address(handles),
            timeout_nsec: timeout,
            count_handles: count(handles),
            flags,
            first_signaled: UNTOUCHED,
            pad: 0,
            deadline_nsec: 0,
        };
        // SAFETY: the array has that many elements.
        let answer = unsafe { request(self.0, &mut argument) };
        (answer, argument.first_signaled)
    }

    /// TIMELINE_WAIT; the second value is `first_signaled` after the call.
    pub fn timeline_wait(
        self,
        handles: &[u32],
        points: Option<&[u64]>,
        timeout: i64,
        flags: u32,
    ) -> (Answer<()>, u32) {
        let mut argument = SyncobjTimelineWait {
            handles: address(handles),
            points: points.map_or(0, address),
            timeout_nsec: timeout,
            count_handles: count(handles),
            flags,
            first_signaled: UNTOUCHED,
            pad: 0,
            deadline_nsec: 0,
        };
        // SAFETY: rules pass arrays of equal length.
        let answer = unsafe { request(self.0, &mut argument) };
        (answer, argument.first_signaled)
    }

    /// A TIMELINE_WAIT as it stands.
    pub(crate) fn raw_timeline_wait(self, argument: &mut SyncobjTimelineWait) -> Answer<()> {
        // SAFETY: a wait only reads, and the kernel checks what it reads.
        unsafe { request(self.0, argument) }
    }

    /// RESET.
    pub fn reset(self, handles: &[u32], pad: u32) -> Answer<()> {
        self.raw_reset(SyncobjReset {
            handles: address(handles),
            count_handles: count(handles),
            pad,
        })
    }

    /// A RESET as it stands.
    pub(crate) fn raw_reset(self, mut argument: SyncobjReset) -> Answer<()> {
        // SAFETY: the array is only read, and the kernel checks what it reads.
        unsafe { request(self.0, &mut argument) }
    }

    /// SIGNAL.
    pub fn signal(self, handles: &[u32], pad: u32) -> Answer<()> {
        let mut argument = SyncobjSignal {
            handles: address(handles),
            count_handles: count(handles),
            pad,
        };
        // SAFETY: the array has that many elements.
        unsafe { request(self.0, &mut argument) }
    }

    /// TIMELINE_SIGNAL.
    pub fn timeline_signal(self, handles: &[u32], points: &[u64], flags: u32) -> Answer<()> {
        self.raw_timeline_signal(SyncobjTimelineSignal {
            handles: address(handles),
            points: address(points),
            count_handles: count(handles),
            flags,
        })
    }

    /// A TIMELINE_SIGNAL as it stands.
    pub(crate) fn raw_timeline_signal(self, mut argument: SyncobjTimelineSignal) -> Answer<()> {
        // SAFETY: the arrays are only read, and the kernel checks what it reads.
        unsafe { request(self.0, &mut argument) }
    }

    /// QUERY into `points`, which keep what was written even if it fails.
    pub fn query_into(self, handles: &[u32], points: &mut [u64], flags: u32) -> Answer<()> {
        let mut argument = SyncobjQuery {
            handles: address(handles),
            points: points.as_mut_ptr().expose_provenance() as u64,
            count_handles: count(handles),
            flags,
        };
        // SAFETY: rules pass arrays of equal length.
        unsafe { request(self.0, &mut argument) }
    }

    /// QUERY with any address for the points.
    ///
    /// # Safety
    ///
    /// `points` is unmapped, or valid for as many writes as its mapped part takes.
    pub(crate) unsafe fn query_at(self, handles: &[u32], points: u64) -> Answer<()> {
        let mut argument = SyncobjQuery {
            handles: address(handles),
            points,
            count_handles: count(handles),
            flags: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { request(self.0, &mut argument) }
    }

    /// QUERY of one object.
    pub fn query(self, handle: u32) -> Answer<u64> {
        let mut points = [u64::MAX];
        self.query_into(&[handle], &mut points, 0)
            .map(|()| points[0])
    }

    /// QUERY of one object with LAST_SUBMITTED.
    pub fn last_submitted(self, handle: u32) -> Answer<u64> {
        let mut points = [u64::MAX];
        self.query_into(&[handle], &mut points, drm::QUERY_LAST_SUBMITTED)
            .map(|()| points[0])
    }

    /// TRANSFER.
    pub fn transfer(self, to: (u32, u64), from: (u32, u64), flags: u32) -> Answer<()> {
        let argument = SyncobjTransfer {
            src_handle: from.0,
            dst_handle: to.0,
            src_point: from.1,
            dst_point: to.1,
            flags,
            pad: 0,
        };
        self.raw_transfer(argument).map(|_| ())
    }

    /// EVENTFD.
    pub fn eventfd(self, handle: u32, point: u64, flags: u32, fd: i32) -> Answer<()> {
        self.raw_eventfd(SyncobjEventfd {
            handle,
            flags,
            point,
            fd,
            pad: 0,
        })
        .map(|_| ())
    }

    /// Puts the fence of a sync file at a point, through an object of its own.
    pub fn attach(self, handle: u32, point: u64, fd: BorrowedFd<'_>) -> Answer<()> {
        if point == 0 {
            return self.import_sync_file(handle, fd);
        }
        let between = self.create(0)?;
        self.import_sync_file(between, fd)?;
        self.transfer((handle, point), (between, 0), 0)?;
        self.destroy(between)
    }
}
