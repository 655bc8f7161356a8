//! Where sync objects come from that reach beyond this process: shared memory, or a render node.

use std::sync::Arc;

use towpath_sync::Provider as _;
use towpath_sync::drm::Drm;
use towpath_sync::shared::Shared;

use super::{Sync, answer, tp_sync};
use crate::boundary::{Opaque, borrow, descriptor, give, guard, take, wanted};
use crate::status::{tp_status, tp_status as Status};

/// A source of sync objects. Freed by `tp_provider_free`; may be used from any thread until then. The objects
/// that came from it stay valid without it.
#[derive(Debug)]
pub struct tp_provider {
    _opaque: (),
}

impl Opaque for tp_provider {
    type Value = Source;
    const MARK: u64 = 0x7072_6f76_6964_6572;
}

/// What a `tp_provider` is inside.
#[derive(Debug)]
pub(crate) enum Source {
    Shared(Arc<Shared>),
    Drm(Arc<Drm>),
}

/// Makes a source of objects that several processes use, without a GPU: they live in a sealed memory file that
/// the source makes when it is needed. Stores the handle in `*provider`.
///
/// The caller owns the handle and frees it with `tp_provider_free`.
///
/// # Safety
///
/// `provider` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_provider_create_shared(provider: *mut *mut tp_provider) -> tp_status {
    guard(|| {
        let source = Source::Shared(Arc::new(Shared::new()));
        // SAFETY: the caller's promise.
        unsafe { give(provider, source) }
    })
}

/// Makes a source of the kernel's objects from an open render node (such as /dev/dri/renderD128), and stores the
/// handle in `*provider`.
///
/// The caller keeps `fd` and may close it: the library has a duplicate. The caller owns the handle and frees it
/// with `tp_provider_free`. TP_ERROR_UNSUPPORTED: the descriptor is no render node with timeline objects.
///
/// # Safety
///
/// `provider` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_provider_create_drm(
    fd: i32,
    provider: *mut *mut tp_provider,
) -> tp_status {
    guard(|| {
        wanted(provider)?;
        let copy = descriptor(&fd)?
            .try_clone_to_owned()
            .map_err(|_refused| Status::TP_ERROR_INVALID)?;
        let drm = Drm::from_fd(copy).map_err(|_other| Status::TP_ERROR_UNSUPPORTED)?;
        // SAFETY: the caller's promise.
        unsafe { give(provider, Source::Drm(Arc::new(drm))) }
    })
}

/// Frees the handle; NULL is none. Objects that came from it stay.
///
/// # Safety
///
/// `provider` is null or from a `tp_provider_create_*`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_provider_free(provider: *mut tp_provider) -> tp_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { take(provider) }.map(drop)
    })
}

/// As `tp_sync_create`, with an object of `provider`, which can be exported.
///
/// # Safety
///
/// `provider` is null or a live handle; `sync` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_create_in(
    provider: *const tp_provider,
    signaled: i32,
    sync: *mut *mut tp_sync,
) -> tp_status {
    guard(|| {
        wanted(sync)?;
        let signaled = signaled != 0;
        // SAFETY: the caller's promise.
        let made = match unsafe { borrow(provider) }? {
            Source::Shared(shared) => {
                Sync::Shared(Arc::clone(shared), answer(shared.create(signaled))?)
            }
            Source::Drm(drm) => Sync::Drm(Arc::clone(drm), answer(drm.create(signaled))?),
        };
        // SAFETY: the caller's promise.
        unsafe { give(sync, made) }
    })
}

/// Stores in `*sync` the object behind a descriptor of `tp_sync_export` (shared), or of any program that exports
/// the kernel's objects (render node).
///
/// The caller keeps `fd` and may close it, owns the object and frees it with `tp_sync_free`. TP_ERROR_INVALID: the
/// descriptor is of no object of this kind. TP_ERROR_DAMAGED: the object is gone, or its memory is not as ours is.
///
/// # Safety
///
/// `provider` is null or a live handle; `sync` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_import(
    provider: *const tp_provider,
    fd: i32,
    sync: *mut *mut tp_sync,
) -> tp_status {
    guard(|| {
        wanted(sync)?;
        // SAFETY: the caller's promise.
        let source = unsafe { borrow(provider) }?;
        let fd = descriptor(&fd)?;
        let missing = Status::TP_ERROR_INVALID;
        let found = match source {
            Source::Shared(shared) => {
                let object = answer(shared.import(fd))?.ok_or(missing)?;
                Sync::Shared(Arc::clone(shared), object)
            }
            Source::Drm(drm) => {
                let object = answer(drm.import(fd))?.ok_or(missing)?;
                Sync::Drm(Arc::clone(drm), object)
            }
        };
        // SAFETY: the caller's promise.
        unsafe { give(sync, found) }
    })
}
