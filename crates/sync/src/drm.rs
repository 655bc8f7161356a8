//! The kernel's own sync objects, through a render node.
//!
//! Handles and descriptors are owned; lengths are checked before the kernel sees them
//! (`towpath_sys::drm::calls`).
//!
//! Two things are known without asking the kernel, both only of objects that this process made and
//! never exported, since everyone who has an object may reset it unseen:
//!
//! - An object that was only signalled and reset here has a twin of this process beside it
//!   ([`crate::local`]): a wait on such objects is a wait on their twins, and makes no request. The
//!   first fence from elsewhere, or an export, ends that; who sleeps on a twin then goes on to the
//!   kernel's object.
//! - A point that was seen done is remembered, so that waiting for it again makes no system call.
//!
//! A child after `fork` shares the handles: what was made before it is no longer private in either
//! process, and a wait that sleeps on a twin at that moment does not see what the child does.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use towpath_sys::drm::{
    self as sys, GetCap, SyncFileInfo, SyncMerge, SyncobjCreate, SyncobjDestroy, SyncobjEventfd,
    SyncobjFdToHandle, SyncobjHandleToFd, SyncobjTransfer, calls,
};

use crate::error::{Error, Result};
use crate::forks;
use crate::inline::Inline;
use crate::local;
use crate::provider::{Entry, Progress, Provider, WaitFor, Waited};
use crate::time::Deadline;

const INLINE: usize = 64;

fn system(operation: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { operation, source }
}

/// An opened render node with timeline objects.
#[derive(Clone, Debug)]
pub struct Drm {
    fd: Arc<OwnedFd>,
}

/// A kernel object. A clone is the same object; the last one gives the handle back.
#[derive(Clone, Debug)]
pub struct Object(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    fd: Arc<OwnedFd>,
    number: u32,
    /// Whether only this process can name it.
    is_private: AtomicBool,
    /// How often this process had forked when the object was made.
    forks: u64,
    /// The process that made it: a child has the same open file, and must not take the handle from its parent.
    maker: u32,
    /// Highest point seen done, while private.
    reached: AtomicU64,
    /// Whether `twin` says what the kernel's object does: private, signalled and reset only.
    has_twin: AtomicBool,
    twin: local::Object,
    /// Held while both are changed, so that they are changed in one order.
    order: Mutex<()>,
}

/// A sync file. A clone is the same fence.
#[derive(Clone, Debug)]
pub struct Fence(Arc<OwnedFd>);

impl From<OwnedFd> for Fence {
    /// The fence of a sync file; that it is one shows at its first use.
    fn from(file: OwnedFd) -> Self {
        Self(Arc::new(file))
    }
}

impl AsFd for Fence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The kernel lets programs end no fences but through its debug interface: there is none of these.
#[derive(Debug)]
pub enum Signaller {}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.maker != std::process::id() {
            return;
        }
        let mut argument = SyncobjDestroy {
            handle: self.number,
            pad: 0,
        };
        // Fails only for a handle that is not there; nothing can be done about that here.
        let _destroyed = calls::destroy(self.fd.as_fd(), &mut argument);
    }
}

impl Drm {
    /// Opens a render node.
    ///
    /// # Errors
    ///
    /// [`Error::System`] if it cannot be opened, [`Error::WrongDescriptor`] if it has no timelines.
    pub fn open(path: &Path) -> Result<Self> {
        let file = std::fs::File::options().read(true).write(true).open(path);
        Self::from_fd(file.map_err(system("open the render node"))?.into())
    }

    /// Takes an opened render node.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDescriptor`] if it has no timelines.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let mut cap = GetCap {
            capability: sys::CAP_SYNCOBJ_TIMELINE,
            value: 0,
        };
        #[expect(unsafe_code, reason = "the struct carries no address")]
        // SAFETY: no address in it.
        let answer = unsafe { calls::issue(fd.as_fd(), &mut cap) };
        if answer.is_err() || cap.value == 0 {
            return Err(Error::WrongDescriptor {
                what: "a render node with timeline objects",
            });
        }
        Ok(Self { fd: Arc::new(fd) })
    }

    fn object(&self, handle: u32, is_private: bool, signaled: bool) -> Object {
        Object(Arc::new(Handle {
            fd: Arc::clone(&self.fd),
            number: handle,
            is_private: AtomicBool::new(is_private),
            forks: forks::count(),
            maker: std::process::id(),
            reached: AtomicU64::new(0),
            has_twin: AtomicBool::new(is_private),
            twin: local::Object::new(signaled),
            order: Mutex::new(()),
        }))
    }

    /// Copies a fence from one object's point to another's; with `for_submit`, waits up to five
    /// seconds for it to be there.
    ///
    /// # Errors
    ///
    /// [`Error::System`] with the kernel's code: `EINVAL` if there is none, `ETIME`.
    pub fn transfer(
        &self,
        to: Entry<'_, Object>,
        from: Entry<'_, Object>,
        for_submit: bool,
    ) -> Result<()> {
        let mut argument = SyncobjTransfer {
            src_handle: from.object.0.number,
            dst_handle: to.object.0.number,
            src_point: from.point,
            dst_point: to.point,
            flags: if for_submit { sys::WAIT_FOR_SUBMIT } else { 0 },
            pad: 0,
        };
        to.object.leave_twin();
        calls::transfer(self.fd.as_fd(), &mut argument).map_err(system("transfer a fence"))?;
        to.object.forget();
        Ok(())
    }

    /// Waits, with a hint of when the result is needed. Drivers may raise clocks for it.
    ///
    /// # Errors
    ///
    /// As [`Provider::wait`]; kernels before 6.6 refuse the hint with `EINVAL`.
    pub fn wait_with_hint(
        &self,
        entries: &[Entry<'_, Object>],
        what: WaitFor,
        deadline: Deadline,
        needed_at: Option<Deadline>,
    ) -> Result<Waited> {
        if let Some(answer) = wait_on_twins(entries, what, deadline) {
            return answer;
        }
        let mut handles = Inline::<u32, INLINE>::new(0);
        let mut points = Inline::<u64, INLINE>::new(0);
        let mut first = None;
        let mut known = 0;
        for (index, entry) in entries.iter().enumerate() {
            if entry.object.is_known_reached(entry.point) {
                first = first.or(Some(index));
                known += 1;
            }
            handles.push(entry.object.0.number);
            points.push(entry.point);
        }
        // On any, the others are looked at too: one never submitted is an error in the kernel, and one
        // before it that is ready is the first.
        let is_any = !what.all && what.takes_absent() && first == Some(0);
        if known == entries.len() || is_any {
            return Ok(Waited { first });
        }
        let wait = calls::Wait {
            handles: handles.as_slice(),
            points: Some(points.as_slice()),
            timeout_nsec: deadline.as_nanoseconds(),
            flags: flags(what, needed_at.is_some()),
            deadline_nsec: needed_at
                .map_or(0, |at| u64::try_from(at.as_nanoseconds()).unwrap_or(0)),
            first_before: u32::MAX,
        };
        let (answer, first) = calls::timeline_wait(self.fd.as_fd(), &wait);
        answer.map_err(|source| wait_error(source, entries))?;
        let first = usize::try_from(first)
            .ok()
            .filter(|first| *first < entries.len());
        if !what.available {
            remember(entries, what, first);
        }
        Ok(Waited { first })
    }
}

/// The wait on the twins, if all objects have one till its end.
fn wait_on_twins(
    entries: &[Entry<'_, Object>],
    what: WaitFor,
    deadline: Deadline,
) -> Option<Result<Waited>> {
    let have_twins = || entries.iter().all(|entry| entry.object.has_twin());
    let first = entries.first().filter(|_| have_twins())?;
    let mut twins = Inline::<Entry<'_, local::Object>, INLINE>::new(Entry {
        object: &first.object.0.twin,
        point: 0,
    });
    for entry in entries {
        twins.push(Entry {
            object: &entry.object.0.twin,
            point: entry.point,
        });
    }
    let mut answer = local::wait(twins.as_slice(), what, deadline);
    if answer.is_err() {
        // The kernel may have said already, to an eventfd for one, what a twin is about to learn: who asks
        // because of that would sleep for ever on a "not yet".
        for entry in entries {
            entry.object.settle();
        }
        answer = local::wait(twins.as_slice(), what, deadline);
    }
    // A twin that was left ends all waits on it; the kernel's object says how they go on.
    have_twins().then_some(answer)
}

fn flags(what: WaitFor, has_hint: bool) -> u32 {
    [
        (what.all, sys::WAIT_ALL),
        (what.submit, sys::WAIT_FOR_SUBMIT),
        (what.available, sys::WAIT_AVAILABLE),
        (has_hint, sys::WAIT_DEADLINE),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .fold(0, |flags, (_, flag)| flags | flag)
}

fn wait_error(source: std::io::Error, entries: &[Entry<'_, Object>]) -> Error {
    match source.raw_os_error() {
        Some(libc::ETIME) => Error::TimedOut {
            objects: entries.len(),
        },
        Some(libc::EINVAL) => Error::NotSubmitted {
            index: 0,
            point: entries.first().map_or(0, |entry| entry.point),
        },
        _ => Error::System {
            operation: "wait for sync objects",
            source,
        },
    }
}

fn remember(entries: &[Entry<'_, Object>], what: WaitFor, first: Option<usize>) {
    for (index, entry) in entries.iter().enumerate() {
        if what.all || first == Some(index) {
            entry.object.remember(entry.point);
        }
    }
}

impl Object {
    /// Whether a point was seen done and cannot have been taken back since. Cost: some loads.
    #[must_use]
    pub fn is_known_reached(&self, point: u64) -> bool {
        point != 0 && self.is_private() && self.0.reached.load(Ordering::Acquire) >= point
    }

    fn is_private(&self) -> bool {
        self.0.is_private.load(Ordering::Acquire) && self.0.forks == forks::count()
    }

    fn has_twin(&self) -> bool {
        self.0.has_twin.load(Ordering::Acquire) && self.0.forks == forks::count()
    }

    fn remember(&self, point: u64) {
        if self.is_private() {
            self.0.reached.fetch_max(point, Ordering::AcqRel);
        }
    }

    /// After a change that may take points back.
    fn forget(&self) {
        self.0.reached.store(0, Ordering::Release);
    }

    /// From now on others may change it.
    fn share(&self) {
        self.0.is_private.store(false, Ordering::Release);
        self.leave_twin();
    }

    /// Returns when no change is under way: the twin then knows all that the kernel has shown before.
    fn settle(&self) {
        drop(self.0.order.lock());
    }

    /// Makes the same change to the kernel's object and to the twin, in this order.
    fn change(
        &self,
        kernel: impl FnOnce() -> std::io::Result<()>,
        twin: impl FnOnce(&local::Object),
    ) -> std::io::Result<()> {
        let _order = self.0.order.lock();
        kernel()?;
        if self.has_twin() {
            twin(&self.0.twin);
        }
        Ok(())
    }

    /// Something that the twin cannot follow comes: who sleeps on it is woken and looks at the kernel's.
    fn leave_twin(&self) {
        let _order = self.0.order.lock();
        if self.0.has_twin.swap(false, Ordering::AcqRel) {
            self.0.twin.signal_point(u64::MAX);
        }
    }
}

impl Provider for Drm {
    type Object = Object;
    type Fence = Fence;
    type Signaller = Signaller;

    fn create(&self, signaled: bool) -> Result<Object> {
        let mut argument = SyncobjCreate {
            handle: 0,
            flags: u32::from(signaled),
        };
        calls::create(self.fd.as_fd(), &mut argument).map_err(system("create a sync object"))?;
        Ok(self.object(argument.handle, true, signaled))
    }

    fn fence(&self) -> Result<(Signaller, Fence)> {
        Err(system("make a fence that this process ends")(
            std::io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        ))
    }

    fn end(&self, signaller: Signaller) {
        match signaller {}
    }

    fn status(&self, fence: &Fence) -> i32 {
        let mut info = SyncFileInfo::default();
        #[expect(unsafe_code, reason = "room for no array is given")]
        // SAFETY: with `num_fences` of zero no address is used.
        let answer = unsafe { calls::issue(fence.0.as_fd(), &mut info) };
        answer.map_or_else(
            |error| -error.raw_os_error().unwrap_or(libc::EIO),
            |()| info.status,
        )
    }

    fn notify(&self, fence: &Fence, fd: OwnedFd) -> Result<()> {
        // A sync file only polls; an object that holds its fence rings eventfds.
        let between = self.create(false)?;
        self.attach(&between, 0, fence)?;
        self.watch(&between, 0, false, fd)
    }

    fn join(&self, first: &Fence, second: &Fence) -> Result<Fence> {
        let mut merge = SyncMerge {
            fd2: second.0.as_raw_fd(),
            ..SyncMerge::default()
        };
        #[expect(unsafe_code, reason = "the struct carries no address")]
        // SAFETY: no address in it.
        let answer = unsafe { calls::issue(first.0.as_fd(), &mut merge) };
        answer.map_err(system("merge sync files"))?;
        #[expect(unsafe_code, reason = "a descriptor given to us")]
        // SAFETY: made for us just now.
        let fd = unsafe { OwnedFd::from_raw_fd(merge.fence) };
        Ok(Fence(Arc::new(fd)))
    }

    fn signal(&self, object: &Object) -> Result<()> {
        let signal = || calls::signal(self.fd.as_fd(), &[object.0.number], 0);
        object
            .change(signal, |twin| twin.0.replace_signaled())
            .map_err(system("signal a sync object"))?;
        object.forget();
        Ok(())
    }

    fn signal_point(&self, object: &Object, point: u64) -> Result<()> {
        let handles = [object.0.number];
        let signal = || calls::timeline_signal(self.fd.as_fd(), &handles, Some(&[point]), 0);
        object
            .change(signal, |twin| twin.signal_point(point))
            .map_err(system("signal a point"))
    }

    fn reset(&self, object: &Object) -> Result<()> {
        // Before and after: a wait of another thread may remember a point in between.
        object.forget();
        let reset = || calls::reset(self.fd.as_fd(), &[object.0.number], 0);
        object
            .change(reset, |twin| twin.0.replace(None))
            .map_err(system("reset a sync object"))?;
        object.forget();
        Ok(())
    }

    fn attach(&self, object: &Object, point: u64, fence: &Fence) -> Result<()> {
        if point != 0 {
            let between = self.create(false)?;
            self.attach(&between, 0, fence)?;
            let from = Entry {
                object: &between,
                point: 0,
            };
            return self.transfer(Entry { object, point }, from, false);
        }
        object.leave_twin();
        let mut argument = SyncobjFdToHandle {
            handle: object.0.number,
            flags: sys::FD_SYNC_FILE,
            fd: fence.0.as_raw_fd(),
            ..SyncobjFdToHandle::default()
        };
        calls::fd_to_handle(self.fd.as_fd(), &mut argument)
            .map_err(system("import a sync file"))?;
        object.forget();
        Ok(())
    }

    fn fence_of(&self, object: &Object, point: u64) -> Result<Fence> {
        if point != 0 {
            // Kernels before 6.16 export the current fence only.
            let between = self.create(false)?;
            let to = Entry {
                object: &between,
                point: 0,
            };
            self.transfer(to, Entry { object, point }, false)
                .map_err(|error| {
                    let code = error.code();
                    if code == libc::EINVAL {
                        Error::NotSubmitted { index: 0, point }
                    } else {
                        error
                    }
                })?;
            return self.fence_of(&between, 0);
        }
        let mut argument = SyncobjHandleToFd {
            handle: object.0.number,
            flags: sys::FD_SYNC_FILE,
            fd: -1,
            ..SyncobjHandleToFd::default()
        };
        match calls::export(self.fd.as_fd(), &mut argument) {
            Ok(fd) => Ok(Fence(Arc::new(fd))),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Err(Error::NotSubmitted { index: 0, point })
            }
            Err(source) => Err(Error::System {
                operation: "export a sync file",
                source,
            }),
        }
    }

    fn query(&self, object: &Object) -> Result<Progress> {
        if object.has_twin() {
            object.settle();
            let (reached, submitted) = object.0.twin.0.query();
            if object.has_twin() {
                return Ok(Progress { reached, submitted });
            }
        }
        let mut points = [0];
        let handles = [object.0.number];
        calls::query(self.fd.as_fd(), &handles, &mut points, 0).map_err(system("query"))?;
        let reached = points[0];
        calls::query(
            self.fd.as_fd(),
            &handles,
            &mut points,
            sys::QUERY_LAST_SUBMITTED,
        )
        .map_err(system("query the last submitted point"))?;
        object.remember(reached);
        Ok(Progress {
            reached,
            submitted: points[0],
        })
    }

    fn wait(
        &self,
        entries: &[Entry<'_, Object>],
        what: WaitFor,
        deadline: Deadline,
    ) -> Result<Waited> {
        self.wait_with_hint(entries, what, deadline, None)
    }

    fn export(&self, object: &Object) -> Result<Option<OwnedFd>> {
        object.share();
        let mut argument = SyncobjHandleToFd {
            handle: object.0.number,
            fd: -1,
            ..SyncobjHandleToFd::default()
        };
        calls::export(self.fd.as_fd(), &mut argument)
            .map(Some)
            .map_err(system("export a sync object"))
    }

    fn import(&self, fd: BorrowedFd<'_>) -> Result<Option<Object>> {
        let mut argument = SyncobjFdToHandle {
            fd: fd.as_raw_fd(),
            ..SyncobjFdToHandle::default()
        };
        match calls::fd_to_handle(self.fd.as_fd(), &mut argument) {
            Ok(()) => Ok(Some(self.object(argument.handle, false, false))),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(source) => Err(Error::System {
                operation: "import a sync object",
                source,
            }),
        }
    }

    fn watch(&self, object: &Object, point: u64, available: bool, fd: OwnedFd) -> Result<()> {
        self.watch_borrowed(object, point, available, fd.as_fd())
    }
}

impl Drm {
    /// As [`Provider::watch`]; the kernel keeps the eventfd, not its number.
    pub(crate) fn watch_borrowed(
        &self,
        object: &Object,
        point: u64,
        available: bool,
        fd: BorrowedFd<'_>,
    ) -> Result<()> {
        let mut argument = SyncobjEventfd {
            handle: object.0.number,
            flags: if available { sys::WAIT_AVAILABLE } else { 0 },
            point,
            fd: fd.as_raw_fd(),
            pad: 0,
        };
        calls::eventfd(self.fd.as_fd(), &mut argument).map_err(system("register an eventfd"))
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn private() -> std::io::Result<Object> {
        let drm = Drm {
            fd: Arc::new(std::fs::File::open("/dev/null")?.into()),
        };
        Ok(drm.object(1, true, false))
    }

    /// The kernel rang a doorbell; its waiter looked before the twin was told, saw nothing, and slept on.
    #[test]
    fn a_look_sees_what_the_kernel_has_shown_though_the_twin_is_not_told_yet() {
        let object = private().unwrap();
        let (shown, seen) = channel();
        std::thread::scope(|scope| {
            let object = &object;
            scope.spawn(move || {
                let kernel = || {
                    shown.send(()).map_err(std::io::Error::other)?;
                    std::thread::sleep(Duration::from_millis(50));
                    Ok(())
                };
                object.change(kernel, |twin| twin.signal_point(1))
            });
            assert_eq!(seen.recv(), Ok(()));
            for what in [WaitFor::ALL, WaitFor::ANY.for_submit()] {
                let entries = [Entry { object, point: 1 }];
                let answer = wait_on_twins(&entries, what, Deadline::POLL);
                assert!(matches!(answer, Some(Ok(_))), "{what:?}: {answer:?}");
            }
        });
    }
}
