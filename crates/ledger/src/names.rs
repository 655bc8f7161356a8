//! Numbers of the ledger and their names. A number is never used again for another meaning.

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident, $count:expr, $text:ident, $what:literal;
     $($(#[doc = $doc:literal])+ $variant:ident = $number:literal, $string:literal;)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant = $number,)+
        }

        impl $name {
            /// Every one of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
            /// Room in the ledger: numbers lie below this.
            pub(crate) const ROOM: usize = $count;

            #[doc = $what]
            #[must_use]
            pub const fn $text(self) -> &'static str {
                match self {
                    $(Self::$variant => $string,)+
                }
            }

            /// The one with that number; `None` for a number of another version.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Its number in the ledger.
            #[must_use]
            pub const fn number(self) -> u16 {
                self as u16
            }
        }

        const _: () = {
            $(assert!($number < $name::ROOM, "no room in the ledger for this number");)+
        };
    };
}

numbered! {
    /// A path on which a program loses host time.
    HostPath, 16, name, "The name used in reports.";
    /// Driver caches on disk.
    Cache = 0, "cache";
    /// Host to device copies.
    Upload = 1, "upload";
    /// Device to host copies.
    Readback = 2, "readback";
    /// Waits on fences, events and timelines.
    Waits = 3, "waits";
}

numbered! {
    /// What happened to one call: a fix was active, or why not.
    Outcome, 48, text, "What it means, in words for a report.";
    /// Only looked at; no fix was considered.
    Observed = 0, "observed";
    /// The fix brought the destination's pages in before the call.
    Prefaulted = 1, "prefaulted";
    /// The copy went through towpath's own staging memory.
    Staged = 2, "staged";
    /// Served from the store.
    CacheHit = 3, "served from the store";
    /// The wait was answered without entering the kernel.
    WaitSkipped = 4, "wait answered without the kernel";
    /// A contiguous view of the pieces was used; nothing was copied together.
    ViewUsed = 5, "view used";
    /// A write that would have changed nothing was left out.
    WriteSkipped = 6, "unchanged write left out";
    /// Pages were brought in as huge pages.
    PrefaultedHuge = 7, "prefaulted in huge pages";
    /// Copied with streaming stores.
    Streamed = 8, "streamed";
    /// The fix is switched off.
    Off = 16, "fix is off";
    /// Too few bytes for the fix to pay.
    TooSmall = 17, "too small to pay";
    /// The destination's pages were present already.
    AlreadyWarm = 18, "already warm";
    /// The destination cannot be written.
    ReadOnly = 19, "destination is read-only";
    /// The destination is a shared file mapping.
    FileBacked = 20, "destination is a shared file";
    /// The destination belongs to a driver.
    DriverMapping = 21, "destination is a driver's mapping";
    /// Memory is short; prefaulting could push the program over its limit.
    LowMemory = 22, "memory is short";
    /// After a fork the state of pages is unknown.
    Forked = 23, "state unknown after fork";
    /// The calibration says that the fix does not pay here.
    NoGain = 24, "calibration sees no gain";
    /// The fix was tried and failed; the call went through untouched.
    Failed = 25, "fix failed, call passed on";
    /// Nothing is known about this device yet.
    NotCalibrated = 26, "not calibrated";
    /// Pages come slowly on this machine; the fix stopped early.
    SlowPages = 27, "pages come slowly";
    /// The kernel cannot tell which pages are present.
    Unsupported = 28, "not supported by this kernel or driver";
    /// The fix lost time here and switched itself off.
    SwitchedOff = 29, "fix lost time and was switched off";
    /// The call itself failed.
    CallFailed = 30, "call failed";
    /// Not in the store.
    CacheMiss = 31, "not in the store";
    /// Stored for later.
    CacheStored = 32, "stored";
    /// A part of the destination is not mapped.
    NotMapped = 33, "destination is not mapped";
    /// Too many separate rows to handle one by one.
    TooScattered = 34, "too many separate rows";
    /// The call's form or its queue forbids staging.
    NotStageable = 35, "may not be staged";
}

impl Outcome {
    /// Whether a fix did its work in this call.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Prefaulted
                | Self::PrefaultedHuge
                | Self::Staged
                | Self::CacheHit
                | Self::WaitSkipped
                | Self::ViewUsed
                | Self::WriteSkipped
                | Self::Streamed
        )
    }
}

numbered! {
    /// A named total.
    Counter, 128, name, "The name used in reports.";
    /// Calls that found no room in the table of sites.
    SitesOverflowed = 0, "sites overflowed";
    /// Panics of ours that were caught.
    PanicsCaught = 1, "panics caught";
    /// Waits that asked again for what was known.
    WaitsRepeated = 2, "waits repeated";
    /// Waits that entered the kernel.
    WaitsEntered = 3, "waits entered";
    /// Bytes read from driver caches.
    CacheBytesRead = 4, "cache bytes read";
    /// Bytes written to driver caches.
    CacheBytesWritten = 5, "cache bytes written";
    /// Times a driver cache was written.
    CacheWrites = 6, "cache writes";
    /// Pipelines compiled by the driver.
    PipelinesCompiled = 7, "pipelines compiled";
    /// Frames presented.
    Frames = 8, "frames";
    /// Fixes that failed.
    FixesFailed = 9, "fixes failed";
    /// Bytes that a fix kept from being copied.
    BytesNotCopied = 10, "bytes not copied";
    /// Heap allocations made by the driver inside observed calls.
    Allocations = 11, "allocations";
    /// Pages brought in by a fix.
    PagesPrefaulted = 12, "pages prefaulted";
    /// CPU time of towpath's helper threads, in nanoseconds.
    HelperNanos = 13, "helper threads' ns";
    /// OpenCL contexts made.
    Contexts = 14, "contexts";
    /// Objects emulated instead of passed to the kernel.
    Emulated = 15, "emulated";
    /// Bytes that a program fetched from a pipeline cache, most often to write them to a file.
    CacheBytesFetched = 24, "cache bytes fetched";
    /// Of those, bytes of caches that had not changed since they were read or fetched last.
    CacheBytesUnchanged = 25, "unchanged cache bytes fetched";
    /// Waits that only looked: their time had passed when they began.
    WaitsPolled = 64, "waits that only looked";
    /// Waits that ended at their deadline.
    WaitsTimedOut = 65, "waits that ran out of time";
    /// Eventfds made by the program.
    EventfdsMade = 66, "eventfds made";
    /// Eventfds registered with sync objects.
    EventfdsRegistered = 67, "eventfds registered with sync objects";
    /// Time in waits that did not only look, in nanoseconds.
    WaitNanosAsleep = 68, "ns asleep in waits";
    /// How long after their deadlines waits returned, in nanoseconds.
    WaitNanosLate = 69, "ns late after deadlines";
}

numbered! {
    /// A named histogram of powers of two.
    Histogram, 16, name, "The name used in reports.";
    /// Time of one wait, in nanoseconds.
    WaitNanos = 0, "wait time, ns";
    /// Time from one presented frame to the next, in nanoseconds.
    FrameNanos = 1, "frame time, ns";
    /// Time to bring 2 MiB in, in nanoseconds.
    PrefaultNanos = 2, "prefault of 2 MiB, ns";
    /// Objects in one wait, of ledgers before [`Self::WaitMoreObjects`].
    WaitObjects = 3, "objects per wait";
    /// Pieces behind one transfer.
    BackingPieces = 4, "pieces per backing";
    /// Time to make one pipeline, in nanoseconds.
    PipelineNanos = 5, "pipeline creation, ns";
    /// Bytes of one transfer.
    TransferBytes = 6, "bytes per transfer";
    /// How long after its deadline a wait returned, in nanoseconds.
    WaitLateNanos = 7, "late after the deadline, ns";
    /// Objects in one wait beyond its first. Its buckets are waits on 1, 2, 3 to 4, 5 to 8 objects and
    /// so on: the kernel's proposed fast path ends at 4.
    WaitMoreObjects = 8, "objects per wait beyond the first";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_and_names_are_used_once_and_lead_back() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_number(outcome.number()), Some(*outcome));
        }
        let texts: BTreeSet<_> = Outcome::ALL.iter().map(|o| o.text()).collect();
        assert_eq!(texts.len(), Outcome::ALL.len());
        let names: BTreeSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        assert_eq!(Outcome::from_number(u16::MAX), None);
    }
}
