//! Lines for the program's log: the library itself writes nowhere.

use std::ffi::{CString, c_char, c_void};

use crate::boundary::{Answer, one};

/// How much a line matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub enum tp_log_level {
    /// What was decided or done.
    TP_LOG_NOTE = 0,
    /// Something of ours did not work; the program goes on without it.
    TP_LOG_WARNING = 1,
}

/// Takes one line, without a line break; the text lives until it returns. In English, but for what the system says of
/// its errors, which is in the program's language.
///
/// Called on the thread that called the library, inside that call, never while the library holds a lock: it may
/// call the library, also with the same handle, but must not free that handle. It must return: no longjmp
/// (undefined). A C++ exception that leaves it ends the process.
pub type tp_log_write = Option<
    unsafe extern "C-unwind" fn(user: *mut c_void, level: tp_log_level, text: *const c_char),
>;

/// Where lines go. Copied by the functions that take one; what `user` points to must live as long as the handle.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tp_log {
    /// Called for each line; NULL: none.
    pub write: tp_log_write,
    /// Passed on to it; the library never looks at it.
    pub user: *mut c_void,
}

/// A log that may be none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log(tp_log);

impl Log {
    /// A log that takes nothing.
    pub(crate) const fn none() -> Self {
        Self(tp_log {
            write: None,
            user: std::ptr::null_mut(),
        })
    }

    /// # Safety
    ///
    /// `log` is null or valid for a read, and its function keeps the promises of [`tp_log_write`] for as long as
    /// the answer is used.
    pub(crate) unsafe fn take(log: *const tp_log) -> Answer<Self> {
        if log.is_null() {
            return Ok(Self::none());
        }
        // SAFETY: the caller's promise.
        unsafe { one(log) }.map(Self)
    }

    /// Whether anybody takes lines: those of frequent calls are not made for nobody.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.0.write.is_some()
    }

    /// Hands a line over. Not to be called under a lock. Allocates the line.
    pub(crate) fn say(&self, level: tp_log_level, text: &str) {
        let Some(write) = self.0.write else {
            return;
        };
        let line = text.replace(['\0', '\n', '\r'], " ");
        if let Ok(line) = CString::new(line) {
            // SAFETY: promised to `take`; the text lives over the call.
            unsafe { write(self.0.user, level, line.as_ptr()) };
        }
    }

    pub(crate) fn note(&self, text: &str) {
        self.say(tp_log_level::TP_LOG_NOTE, text);
    }

    pub(crate) fn warn(&self, text: &str) {
        self.say(tp_log_level::TP_LOG_WARNING, text);
    }
}
