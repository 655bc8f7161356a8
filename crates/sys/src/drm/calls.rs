//! The requests of [`super`], issued through libc's `ioctl`, so that a preloaded library sees them.
//!
//! Every function repeats a call that a signal cut short: waits carry absolute times, so a repeat
//! is the same wait. Slices carry their lengths into the request; lengths that differ are refused
//! here with `EINVAL`, never passed on (safe code of other bindings lets the kernel write past them).
#![expect(
    unsafe_code,
    reason = "ioctl numbers and layouts are a contract with the kernel"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{
    Layout, SyncobjCreate, SyncobjDestroy, SyncobjEventfd, SyncobjFdToHandle, SyncobjHandleToFd,
    SyncobjQuery, SyncobjReset, SyncobjSignal, SyncobjTimelineSignal, SyncobjTimelineWait,
    SyncobjTransfer, SyncobjWait,
};

/// Issues the request of `T` on `fd`, again after each interruption.
///
/// # Errors
///
/// The kernel's code.
///
/// # Safety
///
/// Addresses inside `argument` are zero, or valid for what the request reads and writes there.
pub unsafe fn issue<T: Layout>(fd: BorrowedFd<'_>, argument: &mut T) -> io::Result<()> {
    loop {
        // SAFETY: `Layout` promises that the request reads and writes exactly one `T` here, and the
        // caller that the addresses in it are valid.
        let answer = unsafe {
            libc::ioctl(
                fd.as_raw_fd(),
                libc::Ioctl::from(T::REQUEST),
                std::ptr::from_mut(argument),
            )
        };
        if answer >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

macro_rules! plain {
    ($($(#[$meta:meta])* $name:ident($type:ident);)*) => {
        $(
            $(#[$meta])*
            ///
            /// # Errors
            ///
            /// The kernel's code.
            pub fn $name(fd: BorrowedFd<'_>, argument: &mut $type) -> io::Result<()> {
                // SAFETY: this struct carries no address.
                unsafe { issue(fd, argument) }
            }
        )*
    };
}

plain! {
    /// Creates an object.
    create(SyncobjCreate);
    /// Gives a handle back.
    destroy(SyncobjDestroy);
    /// Registers an eventfd for a point.
    eventfd(SyncobjEventfd);
    /// Copies a fence from one object to another.
    transfer(SyncobjTransfer);
    /// Exports an object or its fence as a number in `fd`; [`export`] owns the descriptor.
    handle_to_fd(SyncobjHandleToFd);
    /// Imports an object or a fence from the number in `fd`.
    fd_to_handle(SyncobjFdToHandle);
}

/// Exports an object or its fence; as [`handle_to_fd`], owning the descriptor.
///
/// # Errors
///
/// The kernel's code.
pub fn export(fd: BorrowedFd<'_>, argument: &mut SyncobjHandleToFd) -> io::Result<OwnedFd> {
    handle_to_fd(fd, argument)?;
    if argument.fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(argument.fd) })
}

/// What a wait asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The objects.
    pub handles: &'a [u32],
    /// Their points, as many; `None` is zero for each.
    pub points: Option<&'a [u64]>,
    /// Absolute `CLOCK_MONOTONIC` nanoseconds; zero, past or negative polls.
    pub timeout_nsec: i64,
    /// `WAIT_*` flags.
    pub flags: u32,
    /// The hint of `WAIT_DEADLINE`, absolute `CLOCK_MONOTONIC` nanoseconds.
    pub deadline_nsec: u64,
    /// The value that `first_signaled` has before the call.
    pub first_before: u32,
}

impl Wait<'_> {
    fn count(&self) -> io::Result<u32> {
        if self
            .points
            .is_some_and(|points| points.len() != self.handles.len())
        {
            return Err(invalid());
        }
        length(self.handles.len())
    }
}

/// Waits on binary objects. Returns the answer and the `first_signaled` field after the call.
pub fn wait(fd: BorrowedFd<'_>, wait: &Wait<'_>) -> (io::Result<()>, u32) {
    let count = match wait.count() {
        Ok(count) => count,
        Err(error) => return (Err(error), wait.first_before),
    };
    let mut argument = SyncobjWait {
        handles: address(wait.handles),
        timeout_nsec: wait.timeout_nsec,
        count_handles: count,
        flags: wait.flags,
        first_signaled: wait.first_before,
        pad: 0,
        deadline_nsec: wait.deadline_nsec,
    };
    // SAFETY: `handles` is the address of `count_handles` handles, which are only read.
    let answer = unsafe { issue(fd, &mut argument) };
    (answer, argument.first_signaled)
}

/// Waits on points. Returns the answer and the `first_signaled` field after the call.
pub fn timeline_wait(fd: BorrowedFd<'_>, wait: &Wait<'_>) -> (io::Result<()>, u32) {
    let count = match wait.count() {
        Ok(count) => count,
        Err(error) => return (Err(error), wait.first_before),
    };
    let mut argument = SyncobjTimelineWait {
        handles: address(wait.handles),
        points: wait.points.map_or(0, address),
        timeout_nsec: wait.timeout_nsec,
        count_handles: count,
        flags: wait.flags,
        first_signaled: wait.first_before,
        pad: 0,
        deadline_nsec: wait.deadline_nsec,
    };
    // SAFETY: both arrays have `count_handles` elements (`Wait::count`) and are only read.
    let answer = unsafe { issue(fd, &mut argument) };
    (answer, argument.first_signaled)
}

/// Takes the fences of objects away.
///
/// # Errors
///
/// The kernel's code.
pub fn reset(fd: BorrowedFd<'_>, handles: &[u32], pad: u32) -> io::Result<()> {
    let count_handles = length(handles.len())?;
    let mut argument = SyncobjReset {
        handles: address(handles),
        count_handles,
        pad,
    };
    // SAFETY: `handles` is the address of `count_handles` handles, which are only read.
    unsafe { issue(fd, &mut argument) }
}

/// Gives objects a fence that is done.
///
/// # Errors
///
/// The kernel's code.
pub fn signal(fd: BorrowedFd<'_>, handles: &[u32], pad: u32) -> io::Result<()> {
    let count_handles = length(handles.len())?;
    let mut argument = SyncobjSignal {
        handles: address(handles),
        count_handles,
        pad,
    };
    // SAFETY: `handles` is the address of `count_handles` handles, which are only read.
    unsafe { issue(fd, &mut argument) }
}

/// Adds points that are done.
///
/// # Errors
///
/// `EINVAL` for slices of different lengths; else the kernel's code.
pub fn timeline_signal(
    fd: BorrowedFd<'_>,
    handles: &[u32],
    points: Option<&[u64]>,
    flags: u32,
) -> io::Result<()> {
    if points.is_some_and(|points| points.len() != handles.len()) {
        return Err(invalid());
    }
    let mut argument = SyncobjTimelineSignal {
        handles: address(handles),
        points: points.map_or(0, address),
        count_handles: length(handles.len())?,
        flags,
    };
    // SAFETY: both arrays have `count_handles` elements and are only read.
    unsafe { issue(fd, &mut argument) }
}

/// Reads how far objects are.
///
/// # Errors
///
/// `EINVAL` for slices of different lengths; else the kernel's code.
pub fn query(
    fd: BorrowedFd<'_>,
    handles: &[u32],
    points: &mut [u64],
    flags: u32,
) -> io::Result<()> {
    if points.len() != handles.len() {
        return Err(invalid());
    }
    let mut argument = SyncobjQuery {
        handles: address(handles),
        points: points.as_mut_ptr().expose_provenance() as u64,
        count_handles: length(handles.len())?,
        flags,
    };
    // SAFETY: `points` has `count_handles` elements and is borrowed mutably for the call.
    unsafe { issue(fd, &mut argument) }
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr().expose_provenance() as u64
}

fn length(elements: usize) -> io::Result<u32> {
    u32::try_from(elements).or(Err(invalid()))
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn slices_of_different_lengths_never_reach_the_kernel() {
        // Safe code of another binding let the kernel write three points past this array.
        let file = std::fs::File::open("/dev/null").unwrap();
        let mut points = [0; 1];
        let answer = query(file.as_fd(), &[1, 2, 3, 4], &mut points, 0);
        assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let answer = timeline_signal(file.as_fd(), &[1, 2], Some(&[1]), 0);
        assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let long = Wait {
            handles: &[1, 2],
            points: Some(&[1]),
            timeout_nsec: 0,
            flags: 0,
            deadline_nsec: 0,
            first_before: 7,
        };
        let (answer, first) = timeline_wait(file.as_fd(), &long);
        assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(first, 7);
    }

    #[test]
    fn a_file_that_is_no_device_answers_enotty() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let answer = create(file.as_fd(), &mut SyncobjCreate::default());
        assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
