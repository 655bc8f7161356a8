//! Waiting on objects of one kind the short way, on objects of several kinds by a doorbell.

use std::sync::Arc;

use towpath_sync::local;
use towpath_sync::mixed::{self, AnyObject};
use towpath_sync::{Deadline, Entry, Provider, WaitFor, Waited};

use super::{Sync, answer, tp_sync};
use crate::boundary::{Answer, affordable, borrow, guard, put_if_wanted, slice};
use crate::status::{tp_status, tp_status as Status};

/// Waits for all objects; without it, for any one.
pub const TP_WAIT_ALL: u32 = 1;
/// Waits also for points that are submitted later; without it such a point is TP_ERROR_NOT_FOUND.
pub const TP_WAIT_FOR_SUBMIT: u32 = 2;

/// Waits on `count` objects, each for its point (0: the binary object), until `deadline_ns` of
/// CLOCK_MONOTONIC (0 or before now: looks only; INT64_MAX: for ever).
///
/// `flags` of TP_WAIT_ALL and TP_WAIT_FOR_SUBMIT. `first` may be NULL; else it gets the lowest index that was
/// ready. TP_ERROR_TIMEOUT: the deadline passed. TP_ERROR_GONE: see `tp_sync_promise`. Never spins. Allocates
/// nothing for up to 64 objects of this process; objects of several kinds in one call cost an eventfd and a
/// registration each.
///
/// # Safety
///
/// `syncs` and `points` are null or valid for reads of `count` values; each object is a live handle and stays
/// so until the call returns; `first` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_sync_wait(
    syncs: *const *const tp_sync,
    points: *const u64,
    count: usize,
    flags: u32,
    deadline_ns: i64,
    first: *mut usize,
) -> tp_status {
    guard(|| {
        let what = wait_for(flags)?;
        // SAFETY: the caller's promise.
        let syncs = unsafe { slice(syncs, count) }?;
        // SAFETY: the caller's promise.
        let points = unsafe { slice(points, count) }?;
        // An entry, a node of a list and, among several kinds, a registration.
        affordable(count, 128)?;
        let deadline = Deadline::at_nanoseconds(deadline_ns);
        // SAFETY: the caller's promise.
        let waited = match unsafe { local_wait(syncs, points, what, deadline) }? {
            Some(waited) => waited,
            // SAFETY: the caller's promise.
            None => unsafe { other_wait(syncs, points, what, deadline) }?,
        };
        // SAFETY: the caller's promise.
        unsafe { put_if_wanted(first, waited.first.unwrap_or(0)) }
    })
}

/// The wait if all objects are of this process, else `None`.
///
/// # Safety
///
/// Each of `syncs` is null or a live handle.
unsafe fn local_wait(
    syncs: &[*const tp_sync],
    points: &[u64],
    what: WaitFor,
    deadline: Deadline,
) -> Answer<Option<Waited>> {
    let Some(first) = syncs.first() else {
        return answer(local::wait(&[], what, deadline)).map(Some);
    };
    // SAFETY: the caller's promise.
    let Sync::Local(first) = (unsafe { borrow(*first) })? else {
        return Ok(None);
    };
    // Whatever fills the array is replaced below; most waits are for one object.
    let filler = Entry {
        object: first,
        point: points.first().copied().unwrap_or(0),
    };
    if syncs.len() == 1 {
        return answer(local::wait(&[filler], what, deadline)).map(Some);
    }
    let mut few;
    let mut inline;
    let mut heap;
    let entries = if syncs.len() <= FEW {
        few = [filler; FEW];
        few.get_mut(..syncs.len()).unwrap_or_default()
    } else if syncs.len() <= local::INLINE {
        inline = [filler; local::INLINE];
        inline.get_mut(..syncs.len()).unwrap_or_default()
    } else {
        heap = vec![filler; syncs.len()];
        &mut heap[..]
    };
    for ((entry, sync), point) in entries.iter_mut().zip(syncs).zip(points) {
        // SAFETY: the caller's promise.
        let Sync::Local(object) = (unsafe { borrow(*sync) })? else {
            return Ok(None);
        };
        *entry = Entry {
            object,
            point: *point,
        };
    }
    answer(local::wait(entries, what, deadline)).map(Some)
}

/// 4: the usual wait has no more; a kilobyte of entries need not be written for them.
const FEW: usize = 4;

/// The wait if not all objects are of this process.
///
/// # Safety
///
/// As [`local_wait`].
unsafe fn other_wait(
    syncs: &[*const tp_sync],
    points: &[u64],
    what: WaitFor,
    deadline: Deadline,
) -> Answer<Waited> {
    let syncs = syncs
        .iter()
        .map(|sync| {
            // SAFETY: the caller's promise.
            unsafe { borrow(*sync) }
        })
        .collect::<Answer<Vec<&Sync>>>()?;
    let shared = |sync: &'_ &'_ Sync| matches!(sync, Sync::Shared(..));
    if let (true, Some(Sync::Shared(provider, _))) = (syncs.iter().all(shared), syncs.first()) {
        let objects = syncs.iter().filter_map(|sync| match sync {
            Sync::Shared(_, object) => Some(object),
            Sync::Local(_) | Sync::Drm(..) => None,
        });
        return one_kind(&**provider, objects, points, what, deadline);
    }
    if let Some(Sync::Drm(provider, _)) = syncs.first() {
        let objects: Vec<_> = syncs
            .iter()
            .filter_map(|sync| match sync {
                // Handles count within the node that they are of.
                Sync::Drm(of, object) if Arc::ptr_eq(of, provider) => Some(object),
                Sync::Local(_) | Sync::Shared(..) | Sync::Drm(..) => None,
            })
            .collect();
        if objects.len() == syncs.len() {
            return one_kind(&**provider, objects.into_iter(), points, what, deadline);
        }
    }
    let objects: Vec<AnyObject> = syncs.iter().map(|sync| any(sync)).collect();
    let entries: Vec<Entry<'_, AnyObject>> = entries(objects.iter(), points);
    answer(mixed::wait(&entries, what, deadline))
}

fn one_kind<'a, P: Provider>(
    provider: &P,
    objects: impl Iterator<Item = &'a P::Object>,
    points: &[u64],
    what: WaitFor,
    deadline: Deadline,
) -> Answer<Waited> {
    answer(provider.wait(&entries(objects, points), what, deadline))
}

fn entries<'a, O>(objects: impl Iterator<Item = &'a O>, points: &[u64]) -> Vec<Entry<'a, O>> {
    objects
        .zip(points)
        .map(|(object, point)| Entry {
            object,
            point: *point,
        })
        .collect()
}

fn any(sync: &Sync) -> AnyObject {
    match sync {
        Sync::Local(object) => AnyObject::Local(object.clone()),
        Sync::Shared(shared, object) => AnyObject::Shared((**shared).clone(), object.clone()),
        Sync::Drm(drm, object) => AnyObject::Drm((**drm).clone(), object.clone()),
    }
}

fn wait_for(flags: u32) -> Answer<WaitFor> {
    if flags & !(TP_WAIT_ALL | TP_WAIT_FOR_SUBMIT) != 0 {
        return Err(Status::TP_ERROR_INVALID);
    }
    Ok(WaitFor {
        all: flags & TP_WAIT_ALL != 0,
        submit: flags & TP_WAIT_FOR_SUBMIT != 0,
        ..WaitFor::ANY
    })
}
