//! A driver's blob in one file, written only when it changed: for programs that keep a pipeline cache.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use towpath_cache::Folder;
use towpath_cache::saving::{BlobFile, BlobSaver, SaveOutcome};

use crate::boundary::{
    Opaque, borrow, give, guard, nanoseconds, path, put_bytes, put_if_wanted, take, wanted,
};
use crate::gate::Gate;
use crate::log::{Log, Speaker, tp_log, tp_log_level};
use crate::source::{Driver, tp_blob_source};
use crate::status::{tp_status, tp_status as Status};

/// Keeps one blob in one file. Freed by `tp_blob_free`; may be used from any thread, one save at a time.
#[derive(Debug)]
pub struct tp_blob {
    _opaque: (),
}

/// What a `tp_blob` is inside.
#[derive(Debug)]
pub(crate) struct Kept {
    gate: Gate,
    /// Locked inside the gate only.
    saver: Mutex<BlobSaver>,
    log: Speaker,
    bytes: Option<towpath_cache::Bytes>,
}

impl Opaque for tp_blob {
    type Value = Kept;
    const MARK: u64 = 0x626c_6f62_6669_6c65;
    fn is_busy(kept: &Kept) -> bool {
        kept.gate.is_busy() || kept.log.is_speaking()
    }
}

/// What a save came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub enum tp_saved {
    /// The size is the one that the file has; nothing was fetched or written.
    TP_SAVED_UNCHANGED = 0,
    /// Written, synced, renamed.
    TP_SAVED_WRITTEN = 1,
    /// The driver has nothing to keep.
    TP_SAVED_NOTHING = 2,
    /// Not written; the file is as before and the next save tries again.
    TP_SAVED_FAILED = 3,
    /// The last size query was dear (over 50 us) and less than a thousand times as long ago as it took: nothing
    /// was asked. Where it must be known, as at the program's end, call again with `force`.
    TP_SAVED_TOO_SOON = 4,
}

/// One save, for a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct tp_save_report {
    /// What it came to.
    pub outcome: tp_saved,
    /// Bytes of the file now.
    pub bytes: u64,
    /// Bytes of the file before.
    pub bytes_before: u64,
    /// Time that the size query took, in nanoseconds.
    pub asked_ns: u64,
    /// Time that fetching and writing took, in nanoseconds.
    pub taken_ns: u64,
}

/// Opens the blob file `name` in `folder`, which is made (mode 0700) if it is missing, and stores the handle in
/// `*blob`. Reads the file if it is there.
///
/// The caller owns the handle and frees it with `tp_blob_free`.
///
/// # Safety
///
/// `folder` and `name` are null or C strings; `blob` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_blob_open(
    folder: *const c_char,
    name: *const c_char,
    blob: *mut *mut tp_blob,
) -> tp_status {
    guard(|| {
        wanted(blob)?;
        // SAFETY: the caller's promise.
        let folder = unsafe { path(folder) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { path(name) }?
            .to_str()
            .ok_or(Status::TP_ERROR_INVALID)?;
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(Status::TP_ERROR_INVALID);
        }
        let disk = Folder::open(folder).map_err(|_refused| Status::TP_ERROR_IO)?;
        let file = BlobFile::new(Arc::new(disk), name);
        let bytes = file.read();
        let length = bytes.as_ref().map(|bytes| bytes.len() as u64);
        let kept = Kept {
            gate: Gate::default(),
            saver: Mutex::new(BlobSaver::new(file, length)),
            log: Speaker::new(Log::none()),
            bytes,
        };
        // SAFETY: the caller's promise.
        unsafe { give(blob, kept) }
    })
}

/// Stores where the bytes read at opening are, and how many. NULL and 0 if there was no file.
///
/// They live until `tp_blob_free`. For `initialData` of `vkCreatePipelineCache`; the driver checks them.
///
/// # Safety
///
/// `blob` is null or a live handle; `data` and `bytes` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_blob_data(
    blob: *const tp_blob,
    data: *mut *const c_void,
    bytes: *mut usize,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let kept = unsafe { borrow(blob) }?;
        let found = kept.bytes.as_deref().unwrap_or_default();
        let start = if found.is_empty() {
            std::ptr::null()
        } else {
            found.as_ptr().cast()
        };
        // SAFETY: the caller's promise.
        unsafe { put_bytes((data, bytes), start, found.len()) }
    })
}

/// Saves what `source` gives: the size is asked first, and nothing more done if it is the file's. Not 0 in
/// `force`: always. `report` may be NULL.
///
/// The new size is recorded only once write, sync, close and rename all succeeded. TP_ERROR_IO: a step
/// failed; the old file is whole, and the next save tries again.
///
/// # Safety
///
/// `blob` is null or a live handle; `source` is null or keeps its promise above, given `context`; `report` is
/// null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_blob_save(
    blob: *const tp_blob,
    source: tp_blob_source,
    context: *mut c_void,
    force: i32,
    report: *mut tp_save_report,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let kept = unsafe { borrow(blob) }?;
        // SAFETY: the caller's promise.
        let mut driver = unsafe { Driver::new(source, context) }?;
        let entered = kept.gate.enter()?;
        let mut saver = kept.saver.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = saver.save(&mut driver, force != 0);
        drop(saver);
        drop(entered);
        let (outcome, answer) = match saved.outcome {
            SaveOutcome::Unchanged => (tp_saved::TP_SAVED_UNCHANGED, Ok(())),
            SaveOutcome::AskedTooSoon => (tp_saved::TP_SAVED_TOO_SOON, Ok(())),
            SaveOutcome::DriverKeepsItsOwn => (tp_saved::TP_SAVED_NOTHING, Ok(())),
            SaveOutcome::Written => (tp_saved::TP_SAVED_WRITTEN, Ok(())),
            SaveOutcome::Failed(_) => (tp_saved::TP_SAVED_FAILED, Err(Status::TP_ERROR_IO)),
        };
        let level = if answer.is_ok() {
            tp_log_level::TP_LOG_NOTE
        } else {
            tp_log_level::TP_LOG_WARNING
        };
        if kept.log.is_wanted() {
            kept.log.say(level, &saved.line());
        }
        let filled = tp_save_report {
            outcome,
            bytes: saved.bytes,
            bytes_before: saved.bytes_before,
            asked_ns: nanoseconds(saved.asked),
            taken_ns: nanoseconds(saved.taken),
        };
        // SAFETY: the caller's promise.
        unsafe { put_if_wanted(report, filled) }?;
        answer
    })
}

/// Lets each save of `blob` put one line into a log; `log` NULL: none. Copied.
///
/// # Safety
///
/// `blob` is null or a live handle; `log` is null or valid for a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_blob_set_log(blob: *const tp_blob, log: *const tp_log) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let kept = unsafe { borrow(blob) }?;
        // SAFETY: the caller's promise.
        let log = unsafe { Log::take(log) }?;
        kept.log.set(log);
        Ok(())
    })
}

/// Frees the handle, and with it the bytes of `tp_blob_data`; NULL is none. Saves nothing. TP_ERROR_BUSY: a save is
/// under way, or its log is being called; nothing was freed.
///
/// # Safety
///
/// `blob` is null or from `tp_blob_open`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_blob_free(blob: *mut tp_blob) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { take(blob) }.map(drop)
    })
}
