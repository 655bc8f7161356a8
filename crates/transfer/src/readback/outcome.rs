//! What was done about a read, or why nothing was.

/// What was done about a read, or why nothing was. Counted, and shown by `towpath run`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The destination's pages were brought in first.
    Prefaulted,
    /// The fix is off.
    Off,
    /// Below the size at which a fix pays.
    TooSmall,
    /// The pages are present, or were so often enough not to look.
    AlreadyWarm,
    /// The destination is read-only or not accessible; the driver answers for that.
    ReadOnly,
    /// A part of the destination is not mapped.
    NotMapped,
    /// A file mapped shared: its pages would be written back.
    FileBacked,
    /// Memory of a device driver.
    DriverMapping,
    /// Too close to the memory limit.
    LowMemory,
    /// Too many separate rows to handle one by one.
    TooScattered,
    /// The calibration says that forwarding is as fast, or the fix has lost in this program.
    NoGain,
    /// The kernel refused, or time ran out.
    Failed,
}

impl Outcome {
    /// A few words for a report.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Prefaulted => "active: prefault",
            Self::Off => "off",
            Self::TooSmall => "small",
            Self::AlreadyWarm => "already warm",
            Self::ReadOnly => "read-only destination",
            Self::NotMapped => "destination not mapped",
            Self::FileBacked => "file mapped shared",
            Self::DriverMapping => "driver's memory",
            Self::LowMemory => "memory is short",
            Self::TooScattered => "too many separate rows",
            Self::NoGain => "no gain",
            Self::Failed => "prefault refused",
        }
    }
}
