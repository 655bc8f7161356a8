//! What a sync request cost, into the ledger.
#![expect(unsafe_code, reason = "reads the struct that the kernel just read")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use towpath_ledger::{Call, Counter, Histogram, HostPath, Outcome, SiteKey, Stack, Writer};
use towpath_measure::{Clock as _, MonotonicClock, Nanos, SignedNanos};
use towpath_sys::drm::{
    Layout, SyncobjDestroy, SyncobjEventfd, SyncobjHandleToFd, SyncobjQuery, SyncobjReset,
    SyncobjSignal, SyncobjTimelineSignal, SyncobjTimelineWait, SyncobjTransfer, SyncobjWait,
};

/// The requests that are recorded and the names of their sites.
const REQUESTS: [(u32, &str); 10] = [
    (SyncobjWait::REQUEST, "DRM_IOCTL_SYNCOBJ_WAIT"),
    (
        SyncobjTimelineWait::REQUEST,
        "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT",
    ),
    (SyncobjQuery::REQUEST, "DRM_IOCTL_SYNCOBJ_QUERY"),
    (SyncobjReset::REQUEST, "DRM_IOCTL_SYNCOBJ_RESET"),
    (SyncobjSignal::REQUEST, "DRM_IOCTL_SYNCOBJ_SIGNAL"),
    (
        SyncobjTimelineSignal::REQUEST,
        "DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL",
    ),
    (SyncobjTransfer::REQUEST, "DRM_IOCTL_SYNCOBJ_TRANSFER"),
    (SyncobjEventfd::REQUEST, "DRM_IOCTL_SYNCOBJ_EVENTFD"),
    (SyncobjHandleToFd::REQUEST, "DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD"),
    (SyncobjDestroy::REQUEST, "DRM_IOCTL_SYNCOBJ_DESTROY"),
];

/// The site's name for a request that is recorded. Sizes differ between kernels' headers, so the
/// type and number decide.
pub(crate) fn name(request: u32) -> Option<&'static str> {
    let number = request & 0xffff;
    REQUESTS
        .iter()
        .find(|(known, _)| known & 0xffff == number)
        .map(|(_, name)| *name)
}

/// `DRM_IOCTL_MODE_PAGE_FLIP` and `DRM_IOCTL_MODE_ATOMIC`, type and number.
const PAGE_FLIP: u32 = 0x64b0;
const ATOMIC: u32 = 0x64bc;
/// A commit that is only tried.
const ATOMIC_TEST_ONLY: u32 = 0x0100;

/// Whether a request that succeeded showed a frame: a page flip, or an atomic commit that was not only
/// tried.
///
/// # Safety
///
/// `argument` is what the program passed with the request, which has succeeded.
pub(crate) unsafe fn is_frame(request: u32, argument: *const c_void) -> bool {
    match request & 0xffff {
        PAGE_FLIP => true,
        ATOMIC => {
            // SAFETY: the kernel read the struct, which begins with its flags.
            let flags = unsafe { argument.cast::<u32>().read_unaligned() };
            flags & ATOMIC_TEST_ONLY == 0
        }
        _ => false,
    }
}

/// The time, for a call that is recorded.
pub(crate) fn now() -> Nanos {
    MonotonicClock.now()
}

/// One call that returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) fd: i32,
    pub(crate) request: u32,
    pub(crate) name: &'static str,
    pub(crate) argument: *const c_void,
    pub(crate) start: Nanos,
    /// Zero, or the error code.
    pub(crate) code: i32,
}

/// Records a call.
///
/// # Safety
///
/// `argument` is what the program passed with the request, which has returned.
pub(crate) unsafe fn record(ledger: &Writer, seen: &Seen) {
    let end = now();
    let wall = Nanos(end.0.saturating_sub(seen.start.0));
    let site = ledger.site(&SiteKey {
        path: HostPath::Waits,
        call: seen.name,
        device: "drm",
        stack: Stack::NONE,
    });
    let outcome = if seen.code == 0 || seen.code == libc::ETIME {
        Outcome::Observed
    } else {
        Outcome::CallFailed
    };
    ledger.record(
        site,
        &Call {
            start: seen.start,
            bytes: 0,
            wall,
            faults: 0,
            cold_bytes: 0,
            saved: SignedNanos(0),
            outcome,
        },
    );
    // Answered EFAULT, the struct may not be there.
    if seen.code != libc::EFAULT {
        // SAFETY: the kernel read the struct, so it is there.
        unsafe { record_details(ledger, seen, wall) };
    }
}

/// Records what the struct says.
///
/// # Safety
///
/// The request read the struct and has returned.
unsafe fn record_details(ledger: &Writer, seen: &Seen, wall: Nanos) {
    match seen.request & 0xffff {
        number if number == SyncobjWait::REQUEST & 0xffff => {
            // SAFETY: the kernel read the struct (it did not answer EFAULT), so it is there.
            let wait = unsafe { seen.argument.cast::<SyncobjWaitHead>().read_unaligned() };
            record_wait(
                ledger,
                seen,
                wall,
                wait.count_handles,
                wait.timeout_nsec,
                None,
            );
        }
        number if number == SyncobjTimelineWait::REQUEST & 0xffff => {
            // SAFETY: as above.
            let wait = unsafe { seen.argument.cast::<TimelineWaitHead>().read_unaligned() };
            // SAFETY: as above, and the arrays were read by a wait that succeeded.
            let point = unsafe { last_point(seen, &wait) };
            record_wait(
                ledger,
                seen,
                wall,
                wait.count_handles,
                wait.timeout_nsec,
                point,
            );
        }
        number if number == SyncobjEventfd::REQUEST & 0xffff => {
            ledger.count(Counter::EventfdsRegistered, 1);
        }
        // What was seen done may be undone by these, so it is forgotten.
        number
            if [
                SyncobjReset::REQUEST,
                SyncobjSignal::REQUEST,
                SyncobjDestroy::REQUEST,
            ]
            .iter()
            .any(|request| request & 0xffff == number) =>
        {
            EPOCH.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
}

/// What all versions of the struct begin with.
#[repr(C)]
#[derive(Clone, Copy)]
struct SyncobjWaitHead {
    _handles: u64,
    timeout_nsec: i64,
    count_handles: u32,
    _flags: u32,
}

/// What all versions of the struct begin with.
#[repr(C)]
#[derive(Clone, Copy)]
struct TimelineWaitHead {
    handles: u64,
    points: u64,
    timeout_nsec: i64,
    count_handles: u32,
    _flags: u32,
}

/// The handle and point of a successful wait on one point.
///
/// # Safety
///
/// The wait returned, with these arrays.
unsafe fn last_point(seen: &Seen, wait: &TimelineWaitHead) -> Option<(u32, u64)> {
    if seen.code != 0 || wait.count_handles != 1 || wait.points == 0 {
        return None;
    }
    let address = |address: u64| usize::try_from(address).unwrap_or(0);
    let handle = std::ptr::with_exposed_provenance::<u32>(address(wait.handles));
    let point = std::ptr::with_exposed_provenance::<u64>(address(wait.points));
    // SAFETY: the kernel read this element in the call that succeeded.
    let handle = unsafe { handle.read_unaligned() };
    // SAFETY: as above.
    let point = unsafe { point.read_unaligned() };
    (point != 0).then_some((handle, point))
}

fn record_wait(
    ledger: &Writer,
    seen: &Seen,
    wall: Nanos,
    objects: u32,
    timeout: i64,
    point: Option<(u32, u64)>,
) {
    ledger.count(Counter::WaitsEntered, 1);
    let more = u64::from(objects.saturating_sub(1));
    ledger.histogram(Histogram::WaitMoreObjects, more);
    ledger.histogram(Histogram::WaitNanos, wall.0);
    let deadline = u64::try_from(timeout).unwrap_or(0);
    if deadline <= seen.start.0 {
        ledger.count(Counter::WaitsPolled, 1);
    } else {
        ledger.count(Counter::WaitNanosAsleep, wall.0);
        if seen.code == libc::ETIME {
            ledger.count(Counter::WaitsTimedOut, 1);
            let end = seen.start.0.saturating_add(wall.0);
            let late = end.saturating_sub(deadline);
            ledger.histogram(Histogram::WaitLateNanos, late);
            ledger.count(Counter::WaitNanosLate, late);
        }
    }
    if let Some((handle, point)) = point
        && is_repeat(seen.fd, handle, point)
    {
        ledger.count(Counter::WaitsRepeated, 1);
    }
}

/// Counts resets, replacements and destructions.
static EPOCH: AtomicU64 = AtomicU64::new(1);
/// Points seen done: handle and epoch in one word, the highest point in the other. Two waits that
/// meet in one place lose a count, no more.
static REACHED: [(AtomicU64, AtomicU64); 256] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 256];

/// Whether a wait that succeeded asked for a point that had been seen done.
fn is_repeat(fd: i32, handle: u32, point: u64) -> bool {
    let epoch = EPOCH.load(Ordering::Relaxed);
    let fd = u64::from(fd.unsigned_abs());
    let key = (epoch << 44) ^ (fd << 32) ^ u64::from(handle) | 1 << 63;
    let place = usize::try_from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).unwrap_or(0);
    let Some((owner, reached)) = REACHED.get(place) else {
        return false;
    };
    // Relaxed: statistics.
    if owner.load(Ordering::Relaxed) == key {
        return reached.fetch_max(point, Ordering::Relaxed) >= point;
    }
    owner.store(key, Ordering::Relaxed);
    reached.store(point, Ordering::Relaxed);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_asked_for_again_is_a_repeat_until_a_reset() {
        assert!(!is_repeat(3, 7, 10));
        assert!(is_repeat(3, 7, 10));
        assert!(is_repeat(3, 7, 9));
        assert!(!is_repeat(3, 7, 11));
        EPOCH.fetch_add(1, Ordering::Relaxed);
        assert!(!is_repeat(3, 7, 10));
    }

    #[test]
    fn commits_that_are_only_tried_are_no_frames() {
        let frame = |request, flags: u32| {
            let words = [flags, 0, 0, 0];
            // SAFETY: longer than what is read.
            unsafe { is_frame(request, words.as_ptr().cast()) }
        };
        assert!(frame(0xc038_64bc, 0));
        assert!(frame(0xc038_64bc, 0x201));
        assert!(!frame(0xc038_64bc, ATOMIC_TEST_ONLY));
        assert!(frame(0xc018_64b0, 1));
        assert!(!frame(SyncobjWait::REQUEST, 0));
    }

    #[test]
    fn requests_are_known_by_number_whatever_their_size() {
        // The wait of kernels before 6.6 is eight bytes shorter.
        assert_eq!(name(0xc020_64c3), Some("DRM_IOCTL_SYNCOBJ_WAIT"));
        assert_eq!(name(0xc028_64c3), Some("DRM_IOCTL_SYNCOBJ_WAIT"));
        assert_eq!(name(0xc010_6400), None);
    }
}
