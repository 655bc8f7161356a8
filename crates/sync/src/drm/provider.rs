//! The requests behind each operation.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::Arc;

use towpath_sys::drm::{
    self as sys, SyncFileInfo, SyncMerge, SyncobjCreate, SyncobjFdToHandle, SyncobjHandleToFd,
    calls,
};

use super::{Drm, Fence, Object, Signaller, system};
use crate::error::{Error, Result};
use crate::provider::{Entry, Notice, Progress, Provider, WaitFor, Waited};
use crate::time::Deadline;

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

    fn fail(&self, signaller: Signaller, _code: i32) {
        match signaller {}
    }

    fn notify(&self, fence: &Fence, notice: Notice) -> Result<()> {
        // A sync file only polls; an object that holds its fence rings eventfds, which the kernel keeps.
        let between = self.create(false)?;
        self.attach(&between, 0, fence)?;
        let fd = notice
            .0
            .eventfd()
            .ok_or(Error::WrongDescriptor { what: "an eventfd" })?;
        self.watch_borrowed(&between, 0, false, fd)
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
