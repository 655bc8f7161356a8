//! Sync objects: binary and timeline, with the kernel's meaning, of this process, shared or the kernel's.

use std::os::fd::{AsFd as _, IntoRawFd as _};
use std::sync::Arc;
use std::time::Duration;

use towpath_sync::drm::{self, Drm};
use towpath_sync::local::{self, Local};
use towpath_sync::shared::{self, Shared};
use towpath_sync::{Deadline, Error, Provider};

use crate::boundary::{Answer, Opaque, borrow, descriptor, give, guard, put, take, wanted};
use crate::status::{tp_status, tp_status as Status};

pub(crate) mod provider;
pub(crate) mod wait;

/// A sync object. Freed by `tp_sync_free`; may be used from any thread until then.
#[derive(Debug)]
pub struct tp_sync {
    _opaque: (),
}

impl Opaque for tp_sync {
    type Value = Sync;
    const MARK: u64 = 0x7469_6d65_6c69_6e65;
}

/// What a `tp_sync` is inside: an object, with where it comes from.
#[derive(Debug)]
pub(crate) enum Sync {
    Local(local::Object),
    Shared(Arc<Shared>, shared::Object),
    Drm(Arc<Drm>, drm::Object),
}

/// Calls an expression for whichever kind an object is.
macro_rules! with {
    ($sync:expr, |$provider:ident, $object:ident| $body:expr) => {
        match $sync {
            Sync::Local($object) => {
                let $provider = &Local;
                $body
            }
            Sync::Shared($provider, $object) => $body,
            Sync::Drm($provider, $object) => $body,
        }
    };
}

/// Makes a sync object of this process and stores it in `*sync`; not 0 in `signaled`: with a fence that is
/// done. The cheapest kind; it cannot be exported.
///
/// The caller owns the object and frees it with `tp_sync_free`.
///
/// # Safety
///
/// `sync` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_create(signaled: i32, sync: *mut *mut tp_sync) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { give(sync, Sync::Local(local::Object::new(signaled != 0))) }
    })
}

/// Frees a sync object; NULL is none. Waits under way in other threads go on: they keep what they wait for.
/// Descriptors that were exported stay valid.
///
/// # Safety
///
/// `sync` is null or from a function that makes sync objects, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_free(sync: *mut tp_sync) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { take(sync) }.map(drop)
    })
}

/// Signals a point of a timeline; 0: the binary object. Cost: a lock of a few instructions, one system call
/// for each sleeper that this satisfies; for the kernel's objects one system call.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_signal(sync: *const tp_sync, point: u64) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let sync = unsafe { borrow(sync) }?;
        let done = with!(sync, |provider, object| if point == 0 {
            provider.signal(object)
        } else {
            provider.signal_point(object, point)
        });
        done.map_err(|error| status(&error))
    })
}

/// Takes the fence or the timeline away. Waits under way keep theirs.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_reset(sync: *const tp_sync) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let sync = unsafe { borrow(sync) }?;
        with!(sync, |provider, object| provider.reset(object)).map_err(|error| status(&error))
    })
}

/// Stores in `*reached` the highest point that is done together with all before it.
///
/// # Safety
///
/// `sync` is null or a live handle; `reached` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_query(sync: *const tp_sync, reached: *mut u64) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let sync = unsafe { borrow(sync) }?;
        let progress = with!(sync, |provider, object| provider.query(object));
        // SAFETY: the caller's promise.
        unsafe { put(reached, progress.map_err(|error| status(&error))?.reached) }
    })
}

/// Writes eight bytes to a duplicate of `fd` (an eventfd) when the point is done; at once if it is.
///
/// The caller keeps `fd`. Meant for poll loops. For shared objects a helper thread of the library watches while
/// something is watched; it takes no signals.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_eventfd(sync: *const tp_sync, point: u64, fd: i32) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let sync = unsafe { borrow(sync) }?;
        let copy = descriptor(&fd)?
            .try_clone_to_owned()
            .map_err(|_refused| Status::TP_ERROR_INVALID)?;
        with!(sync, |provider, object| provider
            .watch(object, point, false, copy))
        .map_err(|error| status(&error))
    })
}

/// Stores in `*fd` a descriptor by which another process (or another library) finds the same object: of a shared
/// object a descriptor for `tp_sync_import`, of a kernel's the kernel's own, as Vulkan's opaque handles are.
///
/// The caller owns the descriptor and closes it; it outlives the handle. TP_ERROR_UNSUPPORTED: objects of this
/// process have none.
///
/// # Safety
///
/// `sync` is null or a live handle; `fd` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_export(sync: *const tp_sync, fd: *mut i32) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let sync = unsafe { borrow(sync) }?;
        wanted(fd)?;
        let exported = with!(sync, |provider, object| provider.export(object))
            .map_err(|error| status(&error))?
            .ok_or(Status::TP_ERROR_UNSUPPORTED)?;
        // SAFETY: the caller's promise.
        unsafe { put(fd, exported.into_raw_fd()) }
    })
}

/// Stores in `*fd` a sync file with the fence of the point (0: the binary object's), for interfaces that take
/// one (explicit sync of KMS, Android and EGL).
///
/// The caller owns the descriptor and closes it. For the kernel's objects only, others are
/// TP_ERROR_UNSUPPORTED. TP_ERROR_NOT_FOUND: nothing was submitted there.
///
/// # Safety
///
/// `sync` is null or a live handle; `fd` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_export_file(
    sync: *const tp_sync,
    point: u64,
    fd: *mut i32,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let sync = unsafe { borrow(sync) }?;
        wanted(fd)?;
        let Sync::Drm(provider, object) = sync else {
            return Err(Status::TP_ERROR_UNSUPPORTED);
        };
        let fence = provider
            .fence_of(object, point)
            .map_err(|error| status(&error))?;
        let copy = fence
            .as_fd()
            .try_clone_to_owned()
            .map_err(|_full| Status::TP_ERROR_MEMORY)?;
        // SAFETY: the caller's promise.
        unsafe { put(fd, copy.into_raw_fd()) }
    })
}

/// Makes the fence of a sync file the object's (0), or adds it at a point. The caller keeps `fd`.
///
/// For the kernel's objects only, others are TP_ERROR_UNSUPPORTED. TP_ERROR_INVALID: it is no sync file.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_import_file(
    sync: *const tp_sync,
    point: u64,
    fd: i32,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let sync = unsafe { borrow(sync) }?;
        let file = descriptor(&fd)?;
        let Sync::Drm(provider, object) = sync else {
            return Err(Status::TP_ERROR_UNSUPPORTED);
        };
        let copy = file
            .try_clone_to_owned()
            .map_err(|_refused| Status::TP_ERROR_INVALID)?;
        provider
            .attach(object, point, &drm::Fence::from(copy))
            .map_err(|error| status(&error))
    })
}

/// Declares that this process signals a shared object. When all processes that declared it are gone, waits for
/// points that nobody submitted end with TP_ERROR_GONE, in all processes, instead of never.
///
/// Nothing to do for other kinds: TP_OK. TP_ERROR_MEMORY: eight living processes have declared it already.
///
/// # Safety
///
/// `sync` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_promise(sync: *const tp_sync) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        match unsafe { borrow(sync) }? {
            Sync::Shared(_, object) => object.promise().map_err(|error| status(&error)),
            Sync::Local(_) | Sync::Drm(..) => Ok(()),
        }
    })
}

/// The moment `span_ns` from now, as `tp_sync_wait` takes it. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn tp_deadline_after(span_ns: u64) -> i64 {
    Deadline::after(Duration::from_nanos(span_ns)).as_nanoseconds()
}

/// What an error of the library is to C.
pub(crate) fn status(error: &Error) -> Status {
    match error {
        Error::TimedOut { .. } => Status::TP_ERROR_TIMEOUT,
        Error::NotSubmitted { .. } => Status::TP_ERROR_NOT_FOUND,
        Error::SignallerDead { .. } => Status::TP_ERROR_GONE,
        Error::Damaged { .. } => Status::TP_ERROR_DAMAGED,
        Error::Full { .. } => Status::TP_ERROR_MEMORY,
        Error::WrongDescriptor { .. } => Status::TP_ERROR_INVALID,
        Error::System { source, .. } => match source.raw_os_error() {
            Some(libc::ENOMEM | libc::EMFILE | libc::ENFILE) => Status::TP_ERROR_MEMORY,
            Some(libc::EINVAL | libc::EBADF) => Status::TP_ERROR_INVALID,
            _ => Status::TP_ERROR_UNSUPPORTED,
        },
        _ => Status::TP_ERROR_UNSUPPORTED,
    }
}

/// Takes an object in: what the functions that make objects give out.
pub(crate) fn answer<T>(made: towpath_sync::Result<T>) -> Answer<T> {
    made.map_err(|error| status(&error))
}
