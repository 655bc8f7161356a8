//! The store of pipeline caches: only what is new is written, and only sound blobs of this driver come back.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use towpath_cache::identity::driver_files;
use towpath_cache::saving::BlobSource as _;
use towpath_cache::{
    Blob, ContentId, Error, Identity, Kind, Opened, Options, open_or_memory, safety,
};

use crate::blob::{tp_save_report, tp_saved};
use crate::boundary::{
    Answer, Opaque, affordable, borrow, give, guard, nanoseconds, one, path, put, put_bytes,
    put_if_wanted, slice, take, wanted,
};
use crate::gate::Gate;
use crate::log::{Log, Speaker, tp_log};
use crate::source::{Driver, tp_blob_source};
use crate::status::{tp_status, tp_status as Status};

/// A store of one device's pipeline caches in a folder that several processes may use at once. Freed by
/// `tp_cache_free`; may be used from any thread until then.
#[derive(Debug)]
pub struct tp_cache {
    _opaque: (),
}

impl Opaque for tp_cache {
    type Value = Cache;
    const MARK: u64 = 0x6361_6368_6563_6163;
    fn is_busy(cache: &Cache) -> bool {
        cache.gate.is_busy() || cache.log.is_speaking()
    }
}

/// What a `tp_cache` is inside.
#[derive(Debug)]
pub(crate) struct Cache {
    opened: Opened,
    identity: Identity,
    blobs: Vec<Blob>,
    kept_back: u64,
    created: AtomicU64,
    gate: Gate,
    log: Speaker,
}

/// Whose blobs these are: everything that must be equal before a driver may see one again. Texts are copied; NULL is
/// none. The driver's files as they are mapped into the process are added by the library.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tp_cache_identity {
    /// `vendorID`.
    pub vendor: u32,
    /// `deviceID`.
    pub device: u32,
    /// `driverVersion`.
    pub driver_version: u32,
    /// `driverID`; 0: not known.
    pub driver_id: u32,
    /// `pipelineCacheUUID`.
    pub cache_uuid: [u8; 16],
    /// `driverUUID`; zeros: not known.
    pub driver_uuid: [u8; 16],
    /// `deviceName`.
    pub device_name: *const c_char,
    /// `driverName` and `driverInfo`.
    pub driver_text: *const c_char,
    /// Anything else that a blob depends on, such as a hash of enabled features.
    pub extra: *const c_void,
    /// Its bytes.
    pub extra_bytes: usize,
}

/// Counts of a store.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct tp_cache_stats {
    /// Files.
    pub segments: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of records that can be found.
    pub bytes_live: u64,
    /// Bytes that were skipped as damaged at opening.
    pub bytes_skipped: u64,
    /// Records found damaged when they were asked for.
    pub records_bad: u64,
    /// Entries.
    pub entries: u64,
    /// Blobs for `tp_cache_blob`.
    pub blobs: u64,
    /// Blobs kept from the driver: damaged, refused before, or not this driver's.
    pub blobs_kept_back: u64,
    /// Pipelines noted and not yet saved.
    pub created: u64,
    /// Not 0: nothing is written, by wish or because no place can be written.
    pub is_read_only: u32,
}

/// Opens the store of `identity` below `folder`, which is made (mode 0700) if it is missing, and stores the handle in
/// `*cache`. Not 0 in `read_only`: nothing is ever written.
///
/// A program must start: where the folder cannot be used, the handle is of an empty store that takes nothing, the
/// log says why, and the answer is TP_OK. `log` may be NULL. The caller owns the handle and frees it with
/// `tp_cache_free`. Cost: a map of each file, and one hash over each blob.
///
/// # Safety
///
/// `folder` is null or a C string; `identity` is null or valid for a read, its texts null or C strings and `extra`
/// null or valid for reads of `extra_bytes` bytes; `log` is null or valid for a read; `cache` is null or valid for a
/// write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_cache_open(
    folder: *const c_char,
    identity: *const tp_cache_identity,
    read_only: i32,
    log: *const tp_log,
    cache: *mut *mut tp_cache,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let folder = unsafe { path(folder) }?;
        // SAFETY: the caller's promise.
        let identity = unsafe { take_identity(identity) }?;
        // SAFETY: the caller's promise.
        let log = unsafe { Log::take(log) }?;
        wanted(cache)?;
        let options = Options {
            is_read_only: read_only != 0,
            ..Options::new(identity.hash())
        };
        let opened = open_or_memory(&[folder.to_owned()], &identity, &options);
        for problem in &opened.problems {
            log.warn(problem);
        }
        let mut opened = Cache {
            opened,
            identity,
            blobs: Vec::new(),
            kept_back: 0,
            created: AtomicU64::new(0),
            gate: Gate::default(),
            log: Speaker::new(log),
        };
        opened.load();
        // SAFETY: the caller's promise.
        unsafe { give(cache, opened) }
    })
}

/// Stores where blob number `index` is, and its bytes: for `initialData` of a `vkCreatePipelineCache` each, from 0 until
/// TP_ERROR_NOT_FOUND, to be merged into one. They are checked, and live until `tp_cache_free`.
///
/// # Safety
///
/// `cache` is null or a live handle; `data` and `bytes` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_cache_blob(
    cache: *const tp_cache,
    index: usize,
    data: *mut *const c_void,
    bytes: *mut usize,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let cache = unsafe { borrow(cache) }?;
        wanted(data)?;
        wanted(bytes)?;
        let blob = cache.blobs.get(index).ok_or(Status::TP_ERROR_NOT_FOUND)?;
        // SAFETY: the caller's promise.
        unsafe { put_bytes((data, bytes), blob.as_ptr().cast(), blob.len()) }
    })
}

/// Notes that the driver returned an error for blob number `index`: no later start gets it.
///
/// TP_ERROR_IO: it could not be noted; the next start will find out again.
///
/// # Safety
///
/// `cache` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_cache_note_refused(cache: *const tp_cache, index: usize) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let cache = unsafe { borrow(cache) }?;
        let blob = cache.blobs.get(index).ok_or(Status::TP_ERROR_NOT_FOUND)?;
        let store = &cache.opened.store;
        let noted = safety::quarantine(store, blob.id(), "the driver returned an error")
            .and_then(|_noted| store.flush());
        cache.said(noted.map(drop))
    })
}

/// Notes that `pipelines` pipelines were made that no blob had: without such a note a save asks and writes nothing.
/// Cost: one atomic addition.
///
/// # Safety
///
/// `cache` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_cache_note_created(
    cache: *const tp_cache,
    pipelines: u64,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let cache = unsafe { borrow(cache) }?;
        // Relaxed: a count; the driver hands over what it counts.
        let add = |created: u64| Some(created.saturating_add(pipelines));
        let _before = cache
            .created
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        Ok(())
    })
}

/// Saves what `source` gives as one entry, durably, if pipelines were noted since the last save; not 0 in `force`: in
/// any case. `report` may be NULL.
///
/// `source` is of the program's cache for new pipelines alone: after TP_SAVED_WRITTEN it merges that cache into its
/// main one and goes on with an empty one, or the next save stores the same again. TP_ERROR_IO: not stored; the notes
/// stay, and the next save tries again. TP_ERROR_INVALID: the blob is not of this device and driver.
///
/// # Safety
///
/// `cache` is null or a live handle; `source` is null or keeps its promise, given `context`; `report` is null or valid
/// for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_cache_save(
    cache: *const tp_cache,
    source: tp_blob_source,
    context: *mut c_void,
    force: i32,
    report: *mut tp_save_report,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let cache = unsafe { borrow(cache) }?;
        // SAFETY: the caller's promise.
        let mut driver = unsafe { Driver::new(source, context) }?;
        let mut filled = tp_save_report {
            outcome: tp_saved::TP_SAVED_UNCHANGED,
            bytes: 0,
            bytes_before: 0,
            asked_ns: 0,
            taken_ns: 0,
        };
        let entered = cache.gate.enter()?;
        let created = cache.created.load(Ordering::Relaxed);
        let answer = if created == 0 && force == 0 {
            Ok(())
        } else {
            cache.store(&mut driver, created, &mut filled)
        };
        drop(entered);
        // SAFETY: the caller's promise.
        unsafe { put_if_wanted(report, filled) }?;
        answer.or_else(|refused| match refused {
            Refused::Foreign(why) => {
                cache.log.warn(&format!("new pipelines not stored: {why}"));
                Err(Status::TP_ERROR_INVALID)
            }
            Refused::Failed(error) => cache.said(Err(error)),
        })
    })
}

/// Stores the counts in `*stats`. Looks at the folder again first.
///
/// # Safety
///
/// `cache` is null or a live handle; `stats` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_cache_stats_get(
    cache: *const tp_cache,
    stats: *mut tp_cache_stats,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let cache = unsafe { borrow(cache) }?;
        let counted = cache.opened.store.stats();
        let filled = tp_cache_stats {
            segments: counted.segments,
            bytes: counted.bytes,
            bytes_live: counted.bytes_live,
            bytes_skipped: counted.bytes_skipped,
            records_bad: counted.records_bad,
            entries: counted.kinds.values().map(|(entries, _)| entries).sum(),
            blobs: cache.blobs.len() as u64,
            blobs_kept_back: cache.kept_back,
            created: cache.created.load(Ordering::Relaxed),
            is_read_only: u32::from(cache.opened.store.is_read_only()),
        };
        // SAFETY: the caller's promise.
        unsafe { put(stats, filled) }
    })
}

/// Frees the handle and its blobs; NULL is none. Writes the index of what was saved; saves nothing new.
/// TP_ERROR_BUSY: a save is under way, or its log is being called; nothing was freed.
///
/// # Safety
///
/// `cache` is null or from `tp_cache_open`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_cache_free(cache: *mut tp_cache) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        if let Some(cache) = unsafe { take(cache) }?
            && !cache.opened.store.is_read_only()
            && let Err(error) = cache.opened.store.seal()
        {
            // What was saved is durable; only the next start takes longer.
            cache.log.warn(&error.one_line());
        }
        Ok(())
    })
}

/// Why nothing was stored.
enum Refused {
    Foreign(safety::Refusal),
    Failed(Error),
}

impl Cache {
    /// Takes the blobs that the driver may see.
    fn load(&mut self) {
        let store = &self.opened.store;
        for entry in store.entries(Some(Kind::OVERLAY)) {
            let blob = store.lookup(entry.kind, &entry.key);
            let why = match blob {
                None => "it is damaged".to_owned(),
                Some(blob) if safety::is_quarantined(store, blob.id()) => {
                    "the driver refused it before".to_owned()
                }
                Some(blob) => match safety::check(&blob, &self.identity) {
                    Ok(()) => {
                        self.blobs.push(blob);
                        continue;
                    }
                    Err(refusal) => refusal.to_string(),
                },
            };
            self.kept_back += 1;
            self.log
                .warn(&format!("cached blob kept from the driver: {why}"));
        }
    }

    fn store(
        &self,
        driver: &mut Driver,
        created: u64,
        report: &mut tp_save_report,
    ) -> Result<(), Refused> {
        let start = Instant::now();
        report.outcome = tp_saved::TP_SAVED_FAILED;
        let fetched = driver.data().map_err(Refused::Failed)?;
        report.asked_ns = nanoseconds(start.elapsed());
        match safety::check(&fetched.bytes, &self.identity) {
            Ok(()) => {}
            Err(safety::Refusal::HeaderOnly | safety::Refusal::TooShort { bytes: 0 }) => {
                report.outcome = tp_saved::TP_SAVED_NOTHING;
                self.settle(created);
                return Ok(());
            }
            Err(refusal) => return Err(Refused::Foreign(refusal)),
        }
        let id = ContentId::of(&fetched.bytes);
        let store = &self.opened.store;
        let stored = store.append(Kind::OVERLAY, &id.0, &fetched.bytes);
        stored
            .and_then(|_ticket| store.flush())
            .map_err(Refused::Failed)?;
        report.outcome = tp_saved::TP_SAVED_WRITTEN;
        report.bytes = fetched.bytes.len() as u64;
        report.taken_ns = nanoseconds(start.elapsed());
        // What the driver kept back comes with the next save.
        if fetched.is_whole {
            self.settle(created);
        }
        Ok(())
    }

    /// Takes back what was saved; notes that came meanwhile stay.
    fn settle(&self, saved: u64) {
        let less = |created: u64| Some(created.saturating_sub(saved));
        let _before = self
            .created
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The status of what the store said, with a line for the log. Not under a lock.
    fn said(&self, answer: Result<(), Error>) -> Answer {
        answer.map_err(|error| {
            self.log.warn(&error.one_line());
            match error {
                Error::TooLarge { .. } => Status::TP_ERROR_INVALID,
                Error::ReadOnly { .. } => Status::TP_ERROR_UNSUPPORTED,
                _ => Status::TP_ERROR_IO,
            }
        })
    }
}

/// # Safety
///
/// As `tp_cache_open` has it.
unsafe fn take_identity(identity: *const tp_cache_identity) -> Answer<Identity> {
    // SAFETY: the caller's promise.
    let given = unsafe { one(identity) }?;
    // SAFETY: the caller's promise.
    let extra = unsafe { slice(given.extra.cast::<u8>(), given.extra_bytes) }?;
    // Kept, and twice more in what is hashed and written, which grows by doubling.
    affordable(extra.len(), 12)?;
    // SAFETY: the caller's promise.
    let device_name = unsafe { text(given.device_name) };
    // SAFETY: the caller's promise.
    let driver_text = unsafe { text(given.driver_text) };
    Ok(Identity {
        vendor: given.vendor,
        device: given.device,
        cache_uuid: given.cache_uuid,
        driver_version: given.driver_version,
        driver_id: given.driver_id,
        driver_uuid: given.driver_uuid,
        driver_text,
        device_name,
        pointer_bytes: u32::try_from(size_of::<usize>()).unwrap_or(0),
        driver_files: driver_files(given.vendor),
        extra: extra.to_vec(),
    })
}

/// # Safety
///
/// `from` is null or a C string.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: not null by the check above, a C string by the caller's promise.
    unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned()
}
