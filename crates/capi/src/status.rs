//! Status numbers: fixed for ever, never used again for another meaning.

/// What a function of this library answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(C)]
pub enum tp_status {
    /// Done.
    TP_OK = 0,
    /// A pointer that must not be NULL is NULL.
    TP_ERROR_NULL = 1,
    /// An argument is out of its range.
    TP_ERROR_INVALID = 2,
    /// The handle was freed, or never was one of this kind.
    TP_ERROR_HANDLE = 3,
    /// There is not so much memory.
    TP_ERROR_MEMORY = 4,
    /// The system refused a file operation.
    TP_ERROR_IO = 5,
    /// The deadline passed first.
    TP_ERROR_TIMEOUT = 6,
    /// This kernel or driver cannot do it.
    TP_ERROR_UNSUPPORTED = 7,
    /// The room that the caller gave is too small; the needed size was stored.
    TP_ERROR_ROOM = 8,
    /// What was read is damaged and was left out.
    TP_ERROR_DAMAGED = 9,
    /// There is no such thing.
    TP_ERROR_NOT_FOUND = 10,
    /// The signaller is gone: the wait can never end.
    TP_ERROR_GONE = 11,
    /// The driver refused a call; its code is in the report or the log.
    TP_ERROR_DRIVER = 12,
    /// The handle is in use: a function that the program gave is called with it right now.
    TP_ERROR_BUSY = 13,
    /// A defect of this library, caught at its border. Nothing of the caller's was changed after it.
    TP_ERROR_DEFECT = 100,
}

use tp_status as Status;

impl Status {
    /// All of them with their text.
    pub(crate) const TEXTS: &[(Self, &std::ffi::CStr)] = &[
        (Self::TP_OK, c"done"),
        (
            Self::TP_ERROR_NULL,
            c"a pointer that must not be NULL is NULL",
        ),
        (Self::TP_ERROR_INVALID, c"an argument is out of its range"),
        (
            Self::TP_ERROR_HANDLE,
            c"the handle was freed or is of another kind",
        ),
        (Self::TP_ERROR_MEMORY, c"there is not so much memory"),
        (Self::TP_ERROR_IO, c"the system refused a file operation"),
        (Self::TP_ERROR_TIMEOUT, c"the deadline passed first"),
        (
            Self::TP_ERROR_UNSUPPORTED,
            c"this kernel or driver cannot do it",
        ),
        (Self::TP_ERROR_ROOM, c"the room given is too small"),
        (Self::TP_ERROR_DAMAGED, c"what was read is damaged"),
        (Self::TP_ERROR_NOT_FOUND, c"there is no such thing"),
        (Self::TP_ERROR_GONE, c"the signaller is gone"),
        (Self::TP_ERROR_DRIVER, c"the driver refused a call"),
        (Self::TP_ERROR_BUSY, c"the handle is in use"),
        (Self::TP_ERROR_DEFECT, c"a defect of libtowpath"),
    ];
}

/// The text of a status in English, also for a number that is none. Never NULL; lives as long as the library.
///
/// May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn tp_strerror(status: i32) -> *const std::ffi::c_char {
    Status::TEXTS
        .iter()
        .find(|(known, _)| *known as i32 == status)
        .map_or(c"an unknown status", |(_, text)| *text)
        .as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_and_text_is_used_once() {
        let numbers: BTreeSet<i32> = Status::TEXTS.iter().map(|(s, _)| *s as i32).collect();
        let texts: BTreeSet<_> = Status::TEXTS.iter().map(|(_, text)| text).collect();
        assert_eq!(
            (numbers.len(), texts.len()),
            (Status::TEXTS.len(), Status::TEXTS.len())
        );
    }

    #[test]
    fn numbers_that_were_given_away_stay() {
        // A program compiled against an older header compares with these numbers.
        let kept = [
            (Status::TP_OK, 0),
            (Status::TP_ERROR_NULL, 1),
            (Status::TP_ERROR_INVALID, 2),
            (Status::TP_ERROR_HANDLE, 3),
            (Status::TP_ERROR_MEMORY, 4),
            (Status::TP_ERROR_IO, 5),
            (Status::TP_ERROR_TIMEOUT, 6),
            (Status::TP_ERROR_UNSUPPORTED, 7),
            (Status::TP_ERROR_ROOM, 8),
            (Status::TP_ERROR_DAMAGED, 9),
            (Status::TP_ERROR_NOT_FOUND, 10),
            (Status::TP_ERROR_GONE, 11),
            (Status::TP_ERROR_DRIVER, 12),
            (Status::TP_ERROR_BUSY, 13),
            (Status::TP_ERROR_DEFECT, 100),
        ];
        assert_eq!(kept.len(), Status::TEXTS.len());
        for (status, number) in kept {
            assert_eq!(status as i32, number);
        }
    }
}
