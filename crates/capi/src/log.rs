//! Lines for the program's log: the library itself writes nowhere.

use std::ffi::{CString, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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
/// call the library, also with the same handle; to free that handle is TP_ERROR_BUSY. It must return: no longjmp
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

    pub(crate) fn warn(&self, text: &str) {
        self.say(tp_log_level::TP_LOG_WARNING, text);
    }
}

/// The log of a handle, which stays while it hands a line over.
#[derive(Debug)]
pub(crate) struct Speaker {
    log: Mutex<Log>,
    speaking: AtomicUsize,
}

/// A line being handed over; also where the program's function panics, it ends.
struct Speaking<'a>(&'a AtomicUsize);

impl Drop for Speaking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Speaker {
    pub(crate) const fn new(log: Log) -> Self {
        Self {
            log: Mutex::new(log),
            speaking: AtomicUsize::new(0),
        }
    }

    fn log(&self) -> Log {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, log: Log) {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = log;
    }

    /// Whether anybody takes lines: those of frequent calls are not made for nobody.
    pub(crate) fn is_wanted(&self) -> bool {
        self.log().0.write.is_some()
    }

    /// Whether a line is being handed over: by this thread, or by one that must have come back before the handle goes.
    pub(crate) fn is_speaking(&self) -> bool {
        // Relaxed: what this thread counted itself it sees.
        self.speaking.load(Ordering::Relaxed) != 0
    }

    /// As [`Log::say`].
    pub(crate) fn say(&self, level: tp_log_level, text: &str) {
        self.speaking.fetch_add(1, Ordering::Relaxed);
        let speaking = Speaking(&self.speaking);
        self.log().say(level, text);
        drop(speaking);
    }

    pub(crate) fn note(&self, text: &str) {
        self.say(tp_log_level::TP_LOG_NOTE, text);
    }

    pub(crate) fn warn(&self, text: &str) {
        self.say(tp_log_level::TP_LOG_WARNING, text);
    }
}
