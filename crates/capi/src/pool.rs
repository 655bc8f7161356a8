//! Host memory for transfers: kept between uses, so that its pages are there, and pinned where asked.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use towpath_memory::{Mapping, Prefault, prefault};
use towpath_transfer::engine::{Backend as _, Pinned as _};
use towpath_transfer::opencl::{Cl, Slot};

use crate::boundary::{Answer, Opaque, borrow, give, guard, put_bytes, take, wanted};
use crate::status::{tp_status, tp_status as Status};
use crate::transfer::tp_transfer;

/// A source of buffers that keeps what it gets back. Freed by `tp_pool_free`; may be used from any thread until
/// then. Buffers that came from it stay valid without it.
#[derive(Debug)]
pub struct tp_pool {
    _opaque: (),
}

impl Opaque for tp_pool {
    type Value = Arc<Pool>;
    const MARK: u64 = 0x706f_6f6c_706f_6f6c;
}

/// Host memory of a pool. Freed by `tp_buffer_free`, which gives it back to the pool.
#[derive(Debug)]
pub struct tp_buffer {
    _opaque: (),
}

impl Opaque for tp_buffer {
    type Value = Buffer;
    const MARK: u64 = 0x6275_6666_6572_6275;
}

/// Which memory a pool has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub enum tp_memory_kind {
    /// Ordinary memory whose pages are present when it is handed out.
    TP_MEMORY_ORDINARY = 0,
    /// The same, locked: the system does not page it out (limit: RLIMIT_MEMLOCK).
    TP_MEMORY_LOCKED = 1,
}

/// What a `tp_pool` is inside.
#[derive(Debug)]
pub(crate) struct Pool {
    kind: Kind,
    /// What nobody uses; nothing is kept once the pool's handle is freed.
    free: Mutex<Option<Vec<Memory>>>,
    keep_bytes_max: usize,
}

#[derive(Debug)]
enum Kind {
    Ordinary,
    Locked,
    Driver(Cl),
}

#[derive(Debug)]
enum Memory {
    Mapped(Mapping),
    Driver(Slot),
}

/// What a `tp_buffer` is inside.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: Memory,
    start: *mut u8,
    bytes: usize,
    home: Arc<Pool>,
}

impl Memory {
    fn bytes(&self) -> usize {
        match self {
            Self::Mapped(mapping) => mapping.range().len,
            Self::Driver(slot) => slot.bytes().len(),
        }
    }

    fn start(&mut self) -> *mut u8 {
        match self {
            Self::Mapped(mapping) => mapping.as_mut_ptr(),
            Self::Driver(slot) => slot.bytes_mut().as_mut_ptr(),
        }
    }
}

impl Pool {
    /// The smallest free one that is not more than twice as large, else a new one.
    fn take(&self, bytes: usize) -> Answer<Memory> {
        self.kept(bytes).map_or_else(|| self.make(bytes), Ok)
    }

    fn kept(&self, bytes: usize) -> Option<Memory> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = free.as_mut()?;
        let fitting = free
            .iter()
            .enumerate()
            .map(|(place, memory)| (memory.bytes(), place))
            .filter(|(has, _)| *has >= bytes && *has / 2 <= bytes)
            .min();
        fitting.map(|(_, place)| free.swap_remove(place))
    }

    fn make(&self, bytes: usize) -> Answer<Memory> {
        let none = |_refused| Status::TP_ERROR_MEMORY;
        // Whole steps, so that sizes that are nearly the same share.
        let step = if bytes >= STEP_BYTES {
            STEP_BYTES
        } else {
            4096
        };
        let bytes = bytes
            .checked_next_multiple_of(step)
            .ok_or(Status::TP_ERROR_MEMORY)?;
        if let Kind::Driver(cl) = &self.kind {
            return cl
                .pin(bytes)
                .map(Memory::Driver)
                .map_err(|_refused| Status::TP_ERROR_MEMORY);
        }
        if !towpath_memory::margin::allows(bytes) {
            return Err(Status::TP_ERROR_MEMORY);
        }
        let mut mapping = Mapping::anonymous(bytes).map_err(none)?;
        prefault(mapping.range(), &Prefault::default()).map_err(|_none| Status::TP_ERROR_MEMORY)?;
        if matches!(self.kind, Kind::Locked) && !mapping.lock() {
            return Err(Status::TP_ERROR_MEMORY);
        }
        Ok(Memory::Mapped(mapping))
    }

    fn give(&self, memory: Memory) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(free) = free.as_mut() else {
            return;
        };
        let kept: usize = free.iter().map(Memory::bytes).sum();
        if kept.saturating_add(memory.bytes()) <= self.keep_bytes_max {
            free.push(memory);
        }
    }
}

/// Makes a pool that keeps at most `keep_bytes_max` between uses, and stores the handle in `*pool`. `kind` is one of
/// `tp_memory_kind`.
///
/// The caller owns the handle and frees it with `tp_pool_free`.
///
/// # Safety
///
/// `pool` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_pool_create(
    kind: i32,
    keep_bytes_max: usize,
    pool: *mut *mut tp_pool,
) -> tp_status {
    guard(|| {
        // A number, since C may pass one that the enumeration has not.
        let kind = if kind == tp_memory_kind::TP_MEMORY_ORDINARY as i32 {
            Kind::Ordinary
        } else if kind == tp_memory_kind::TP_MEMORY_LOCKED as i32 {
            Kind::Locked
        } else {
            return Err(Status::TP_ERROR_INVALID);
        };
        // SAFETY: the caller's promise.
        unsafe { give(pool, new(kind, keep_bytes_max)) }
    })
}

/// The same with pinned memory of the transfer's driver, which its device reaches at full speed. Such memory cannot
/// be paged out: keep it small. It keeps the driver's context alive.
///
/// # Safety
///
/// `transfer` is null or a live handle; `pool` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_pool_create_pinned(
    transfer: *const tp_transfer,
    keep_bytes_max: usize,
    pool: *mut *mut tp_pool,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let cl = unsafe { borrow(transfer) }?.cl().clone();
        // SAFETY: the caller's promise.
        unsafe { give(pool, new(Kind::Driver(cl), keep_bytes_max)) }
    })
}

fn new(kind: Kind, keep_bytes_max: usize) -> Arc<Pool> {
    Arc::new(Pool {
        kind,
        free: Mutex::new(Some(Vec::new())),
        keep_bytes_max,
    })
}

/// Frees the handle and the memory that the pool keeps; NULL is none. Buffers in use stay, and are freed for good
/// by `tp_buffer_free`.
///
/// # Safety
///
/// `pool` is null or from a `tp_pool_create*`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_pool_free(pool: *mut tp_pool) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        if let Some(pool) = unsafe { take(pool) }? {
            let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
            let freed = free.take();
            drop(free);
            drop(freed);
        }
        Ok(())
    })
}

/// Frees the memory that the pool keeps and nobody uses.
///
/// # Safety
///
/// `pool` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_pool_trim(pool: *const tp_pool) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let pool = unsafe { borrow(pool) }?;
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        let freed = free.as_mut().map(std::mem::take);
        drop(free);
        drop(freed);
        Ok(())
    })
}

/// Takes a buffer of at least `bytes` bytes from the pool, or makes one, and stores the handle in `*buffer`. Its
/// content is whatever it was; it begins on a page.
///
/// The caller owns the handle and frees it with `tp_buffer_free`. TP_ERROR_INVALID: 0 bytes. TP_ERROR_MEMORY: there
/// is not so much, or the limit of locked or pinned memory is reached. Cost: a lock if one fits, else a mapping and
/// its page faults.
///
/// # Safety
///
/// `pool` is null or a live handle; `buffer` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_pool_take(
    pool: *const tp_pool,
    bytes: usize,
    buffer: *mut *mut tp_buffer,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let home = unsafe { borrow(pool) }?;
        wanted(buffer)?;
        if bytes == 0 || isize::try_from(bytes).is_err() {
            return Err(Status::TP_ERROR_INVALID);
        }
        let mut memory = home.take(bytes)?;
        let start = memory.start();
        let made = Buffer {
            memory,
            start,
            bytes,
            home: Arc::clone(home),
        };
        // SAFETY: the caller's promise.
        unsafe { give(buffer, made) }
    })
}

/// Stores where the buffer begins and how many bytes were asked for. Valid until `tp_buffer_free`.
///
/// # Safety
///
/// `buffer` is null or a live handle; `data` and `bytes` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_buffer_data(
    buffer: *const tp_buffer,
    data: *mut *mut c_void,
    bytes: *mut usize,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let seen = unsafe { borrow(buffer) }?;
        // SAFETY: the caller's promise.
        unsafe { put_bytes((data, bytes), seen.start.cast(), seen.bytes) }
    })
}

/// Gives the buffer back to its pool; NULL is none. No transfer may be using it.
///
/// # Safety
///
/// `buffer` is null or from `tp_pool_take`; neither it nor its bytes are used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_buffer_free(buffer: *mut tp_buffer) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        if let Some(Buffer { memory, home, .. }) = unsafe { take(buffer) }? {
            // The pool keeps it only as long as its handle lives.
            home.give(memory);
        }
        Ok(())
    })
}

/// 2 MiB: a huge page.
const STEP_BYTES: usize = 2 << 20;
