//! Base, saved and session cache of one device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use ash::vk;

use super::boundary::Cache;
use crate::bytes::len64;
use crate::error::Result;
use crate::format::{ContentId, Kind};
use crate::identity::Identity;
use crate::safety::{self, Acceptance, Canary, Refusal, Stage};
use crate::store::{Blob, Store};

/// Overlay records before they are worth writing again as one.
const CONSOLIDATE_COUNT: usize = 64;

/// What loading found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LoadReport {
    /// Blobs that the driver took.
    pub blobs_accepted: u64,
    /// Bytes of these.
    pub bytes_accepted: u64,
    /// Blobs of which the driver silently kept less than a tenth.
    pub blobs_rejected: u64,
    /// Blobs kept back: damaged, in quarantine, of another driver.
    pub blobs_kept_back: u64,
    /// Blobs for which the driver returned an error; quarantined.
    pub blobs_failed: u64,
    /// One line for the log each.
    pub lines: Vec<String>,
}

/// How a pipeline came to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Made {
    /// From the base or the saved cache: no compilation.
    Hit,
    /// Compiled, or taken from the session cache or the driver's own.
    New,
    /// The create call failed.
    Failed(vk::Result),
}

/// What a save did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Saved {
    /// Nothing was created since the last save: no call was made, no byte fetched.
    NothingNew,
    /// The driver has nothing to keep: a header alone, or no bytes.
    DriverKeepsItsOwn,
    /// Appended and durable.
    Written {
        /// Bytes of the blob.
        bytes: u64,
        /// The driver had more than it gave; the rest comes with the next save.
        is_whole: bool,
    },
    /// The driver's answer cannot be used, nothing was written.
    Refused(Refusal),
}

/// The caches of one device. All calls may come from any thread.
#[derive(Debug)]
pub struct Overlay {
    device: Device,
    store: Arc<Store>,
    identity: Identity,
    caches: RwLock<Caches>,
    /// Held during a save.
    saving: Mutex<()>,
    report: LoadReport,
}

#[derive(Clone, Debug)]
struct Caches {
    base: Arc<Cache>,
    saved: Option<Arc<Cache>>,
    session: Arc<Session>,
}

/// What is new since the last save.
#[derive(Debug)]
struct Session {
    cache: Cache,
    /// Pipelines made in it.
    new: AtomicU64,
    /// Read by each creation while it runs; written by a save, which so waits for the last of them.
    /// Lock order: `Overlay::caches`, then this.
    users: RwLock<()>,
}

impl Session {
    fn new(cache: Cache, new: u64) -> Arc<Self> {
        Arc::new(Self {
            cache,
            new: AtomicU64::new(new),
            users: RwLock::new(()),
        })
    }
}

struct Device(ash::Device);

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({:?})", self.0.handle())
    }
}

impl Overlay {
    /// Hands the store's overlay blobs to the driver, one by one, each checked and noted in `canary`.
    ///
    /// # Cost
    ///
    /// One vkCreatePipelineCache, size query and merge per blob. Writes nothing unless a blob fails.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`](crate::Error::Driver) if not even an empty cache can be made.
    ///
    /// # Safety
    ///
    /// `device` is alive and outlives the overlay.
    pub unsafe fn load(
        device: ash::Device,
        store: Arc<Store>,
        identity: &Identity,
        canary: Option<&Canary>,
    ) -> Result<Self> {
        let mut report = LoadReport::default();
        let mut base = None;
        for entry in store.entries(Some(Kind::OVERLAY)) {
            let Some(blob) = usable(&store, &entry.key, identity, &mut report) else {
                continue;
            };
            // SAFETY: the caller's promise; `usable` checked the blob.
            let cache = unsafe { offer(&device, &store, &blob, canary, &mut report) };
            match (&mut base, cache) {
                (_, None) => {}
                (None, Some(cache)) => base = Some(cache),
                (Some(base), Some(cache)) => merge_into(base, &cache, &blob, canary, &mut report),
            }
        }
        let base = match base {
            Some(base) => base,
            // SAFETY: the caller's promise; there is no initial data.
            None => unsafe { Cache::new(&device, &[]) }?,
        };
        // SAFETY: as above.
        let session = unsafe { Cache::new(&device, &[]) }?;
        Ok(Self {
            device: Device(device),
            store,
            identity: identity.clone(),
            caches: RwLock::new(Caches {
                base: Arc::new(base),
                saved: None,
                session: Session::new(session, 0),
            }),
            saving: Mutex::new(()),
            report,
        })
    }

    /// What loading found.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Pipelines made in the session cache since the last save.
    pub fn new_pipelines(&self) -> u64 {
        // Relaxed: a hint when to save.
        self.caches().session.new.load(Ordering::Relaxed)
    }

    /// Makes one pipeline. `attempt` is called with a cache and flags to add, up to three times, until
    /// its answer is not `PIPELINE_COMPILE_REQUIRED`; the last call adds no flags.
    ///
    /// The caches stay alive as long as `attempt` runs. Only for calls that
    /// [`policy::decide`](crate::policy::decide) allows.
    ///
    /// # Cost
    ///
    /// One read lock, three reference counts; on a miss two more driver calls of microseconds.
    pub fn create(
        &self,
        mut attempt: impl FnMut(vk::PipelineCache, vk::PipelineCreateFlags) -> vk::Result,
    ) -> Made {
        let caches = self
            .caches
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let flag = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        for cache in [Some(&caches.base), caches.saved.as_ref()]
            .into_iter()
            .flatten()
        {
            match attempt(cache.handle(), flag) {
                vk::Result::SUCCESS => return Made::Hit,
                vk::Result::PIPELINE_COMPILE_REQUIRED => {}
                code => return Made::Failed(code),
            }
        }
        // Entered before the lock on the caches is given back: a save that swaps this session away
        // finds its user, and fetches only after the pipeline is in it.
        let now = self.caches();
        let session = Arc::clone(&now.session);
        let _user = session.users.read().unwrap_or_else(PoisonError::into_inner);
        drop(now);
        match attempt(session.cache.handle(), vk::PipelineCreateFlags::empty()) {
            vk::Result::SUCCESS => {
                // Relaxed: a save reads it after `users` handed everything over.
                session.new.fetch_add(1, Ordering::Relaxed);
                Made::New
            }
            code => Made::Failed(code),
        }
    }

    /// Stores what is new since the last save: fetches the session cache, appends it as one record,
    /// syncs, and puts a fresh session cache in its place.
    ///
    /// If anything fails the session cache stays, and the next save tries again.
    ///
    /// # Cost
    ///
    /// With nothing new: one atomic load. Else one fetch of the new bytes only, one append, one
    /// fdatasync; creation in other threads goes on.
    ///
    /// # Errors
    ///
    /// The driver's or the store's.
    pub fn save(&self) -> Result<Saved> {
        let _one_at_a_time = lock(&self.saving);
        if self.new_pipelines() == 0 {
            return Ok(Saved::NothingNew);
        }
        let old = self.caches().clone();
        // SAFETY: the device outlives this object by the promise given to `load`.
        let fresh = Session::new(unsafe { Cache::new(&self.device.0, &[]) }?, 0);
        // Swapped first: what others create from now on belongs to the next save.
        self.replace(|caches| caches.session = fresh);
        // Creations that still run in the old one are waited for.
        drop(
            old.session
                .users
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        );
        match self.store_session(&old.session.cache) {
            Ok(saved) => {
                self.keep_findable(&old)?;
                Ok(saved)
            }
            Err(error) => {
                self.take_back(&old.session)?;
                Err(error)
            }
        }
    }

    fn store_session(&self, session: &Cache) -> Result<Saved> {
        let (blob, is_whole) = session.data()?;
        match safety::check(&blob, &self.identity) {
            Ok(()) => {}
            Err(Refusal::HeaderOnly | Refusal::TooShort { bytes: 0 }) => {
                return Ok(Saved::DriverKeepsItsOwn);
            }
            Err(refusal) => return Ok(Saved::Refused(refusal)),
        }
        let id = ContentId::of(&blob);
        self.store.append(Kind::OVERLAY, &id.0, &blob)?;
        self.store.flush()?;
        Ok(Saved::Written {
            bytes: len64(blob.len()),
            is_whole,
        })
    }

    /// Merges the stored session cache into a new *saved* cache and swaps that in.
    fn keep_findable(&self, old: &Caches) -> Result<()> {
        // SAFETY: the device outlives this object by the promise given to `load`.
        let mut merged = unsafe { Cache::new(&self.device.0, &[]) }?;
        if let Some(before) = &old.saved {
            merged.merge(before)?;
        }
        merged.merge(&old.session.cache)?;
        self.replace(|caches| caches.saved = Some(Arc::new(merged)));
        Ok(())
    }

    /// After a failed save: a session cache with the old and the meanwhile new content.
    fn take_back(&self, old: &Session) -> Result<()> {
        // SAFETY: the device outlives this object by the promise given to `load`.
        let mut both = unsafe { Cache::new(&self.device.0, &[]) }?;
        both.merge(&old.cache)?;
        let count = old.new.load(Ordering::Relaxed);
        let current = self.caches().clone();
        both.merge(&current.session.cache)?;
        let count = count + current.session.new.load(Ordering::Relaxed);
        self.replace(|caches| caches.session = Session::new(both, count));
        Ok(())
    }

    fn caches(&self) -> RwLockReadGuard<'_, Caches> {
        self.caches.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, change: impl FnOnce(&mut Caches)) {
        change(&mut self.caches.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Writes all overlay records again as one, if there are 64 or more and together they outweigh the
    /// largest: start-up then merges one. Each byte is written again once per doubling of the store.
    ///
    /// Fetches the base and the saved cache whole: at exit or idle only.
    ///
    /// # Errors
    ///
    /// The driver's or the store's; the old records are then still there.
    pub fn consolidate(&self) -> Result<bool> {
        let entries = self.store.entries(Some(Kind::OVERLAY));
        let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let largest = entries.iter().map(|entry| entry.bytes).max().unwrap_or(0);
        if entries.len() < CONSOLIDATE_COUNT || total - largest < largest {
            return Ok(false);
        }
        let _one_at_a_time = lock(&self.saving);
        let caches = self
            .caches
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // SAFETY: the device outlives this object by the promise given to `load`.
        let mut merged = unsafe { Cache::new(&self.device.0, &[]) }?;
        merged.merge(&caches.base)?;
        if let Some(saved) = &caches.saved {
            merged.merge(saved)?;
        }
        let (blob, is_whole) = merged.data()?;
        // Smaller than the largest part: the driver dropped something, keep what there is.
        if !is_whole
            || safety::check(&blob, &self.identity).is_err()
            || len64(blob.len()) < largest
            || self.report.blobs_rejected > 0
        {
            return Ok(false);
        }
        let id = ContentId::of(&blob);
        self.store.append(Kind::OVERLAY, &id.0, &blob)?;
        self.store.flush()?;
        for entry in entries.iter().filter(|entry| *entry.key != id.0) {
            self.store.remove(entry.kind, &entry.key)?;
        }
        self.store.flush()?;
        Ok(true)
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The blob under `key` if the driver may see it.
fn usable(store: &Store, key: &[u8], identity: &Identity, report: &mut LoadReport) -> Option<Blob> {
    let blob = store.lookup(Kind::OVERLAY, key);
    let why = match &blob {
        None => "it is damaged".to_owned(),
        Some(blob) if safety::is_quarantined(store, blob.id()) => "it is in quarantine".to_owned(),
        Some(blob) => match safety::check(blob, identity) {
            Ok(()) => return Some(blob.clone()),
            Err(refusal) => refusal.to_string(),
        },
    };
    report.blobs_kept_back += 1;
    report
        .lines
        .push(format!("cached blob kept from the driver: {why}"));
    None
}

/// Gives one blob to the driver and looks at what it kept.
///
/// # Safety
///
/// `device` is alive and outlives the cache.
unsafe fn offer(
    device: &ash::Device,
    store: &Store,
    blob: &Blob,
    canary: Option<&Canary>,
    report: &mut LoadReport,
) -> Option<Cache> {
    if let Some(canary) = canary {
        canary.enter(blob.id(), Stage::Create);
    }
    // SAFETY: the caller's promise; `usable` checked the blob.
    let made = unsafe { Cache::new(device, blob) };
    let reported = made.as_ref().ok().map(Cache::size);
    if let Some(canary) = canary {
        canary.leave();
    }
    let cache = match made {
        Ok(cache) => cache,
        Err(error) => {
            report.blobs_failed += 1;
            report
                .lines
                .push(format!("cached blob goes into quarantine: {error}"));
            // If even that cannot be stored, the next start finds out again.
            let _next_start = safety::quarantine(store, blob.id(), &error.to_string());
            return None;
        }
    };
    // Only writes where an earlier start had died; a failure costs one needless strike.
    let _strike_stays = safety::clear(store, blob.id());
    let given = len64(blob.len());
    let kept = reported.and_then(Result::ok).unwrap_or(given);
    if safety::acceptance(given, kept) == Acceptance::Rejected {
        report.blobs_rejected += 1;
        let line = format!("driver ignores a cached blob: given {given} bytes, kept {kept}");
        report.lines.push(line);
        return None;
    }
    report.blobs_accepted += 1;
    report.bytes_accepted += given;
    Some(cache)
}

fn merge_into(
    base: &mut Cache,
    cache: &Cache,
    blob: &Blob,
    canary: Option<&Canary>,
    report: &mut LoadReport,
) {
    if let Some(canary) = canary {
        canary.enter(blob.id(), Stage::Merge);
    }
    let merged = base.merge(cache);
    if let Some(canary) = canary {
        canary.leave();
    }
    if let Err(error) = merged {
        report
            .lines
            .push(format!("cached blob not merged: {error}"));
    }
}
