//! The operations of [`Provider`] on objects of this process.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::fence::{self, Signaller};
use super::object::Standing;
use super::{Fence, Local, Object, ring, wait};
use crate::error::{Error, Result};
use crate::prim::Arc;
use crate::provider::{Entry, Notice, Progress, Provider, WaitFor, Waited};
use crate::time::Deadline;

impl Provider for Local {
    type Object = Object;
    type Fence = Fence;
    type Signaller = Signaller;

    fn create(&self, signaled: bool) -> Result<Object> {
        Ok(Object::new(signaled))
    }

    fn fence(&self) -> Result<(Signaller, Fence)> {
        let fence = fence::Fence::raw();
        Ok((Signaller::new(Arc::clone(&fence)), Fence(Some(fence))))
    }

    fn end(&self, signaller: Signaller) {
        signaller.signal();
    }

    fn status(&self, fence: &Fence) -> i32 {
        fence
            .0
            .as_ref()
            .map_or(fence::SUCCESS, |fence| fence.status())
    }

    fn fail(&self, signaller: Signaller, code: i32) {
        signaller.fail(code);
    }

    fn notify(&self, fence: &Fence, notice: Notice) -> Result<()> {
        match &fence.0 {
            Some(fence) => fence.ring_when_done(notice.0),
            None => notice.0.ring(),
        }
        Ok(())
    }

    fn join(&self, first: &Fence, second: &Fence) -> Result<Fence> {
        Ok(match (&first.0, &second.0) {
            (Some(first), Some(second)) => Fence(Some(fence::Fence::join(first, second))),
            (None, _) => second.clone(),
            (_, None) => first.clone(),
        })
    }

    fn signal(&self, object: &Object) -> Result<()> {
        object.0.replace_signaled();
        Ok(())
    }

    fn signal_point(&self, object: &Object, point: u64) -> Result<()> {
        object.0.add(point, None);
        Ok(())
    }

    fn reset(&self, object: &Object) -> Result<()> {
        object.0.replace(None);
        Ok(())
    }

    fn attach(&self, object: &Object, point: u64, fence: &Fence) -> Result<()> {
        match (point, &fence.0) {
            (0, None) => object.0.replace_signaled(),
            (0, fence) => object.0.replace(fence.as_ref()),
            (point, fence) => object.0.add(point, fence.as_ref()),
        }
        Ok(())
    }

    fn fence_of(&self, object: &Object, point: u64) -> Result<Fence> {
        match object.0.standing(point) {
            Standing::Absent => Err(Error::NotSubmitted { index: 0, point }),
            Standing::Pending(fence) => Ok(Fence(Some(fence))),
            Standing::Reached => Ok(Fence::DONE),
        }
    }

    fn query(&self, object: &Object) -> Result<Progress> {
        let (reached, submitted) = object.0.query();
        Ok(Progress { reached, submitted })
    }

    fn wait(
        &self,
        entries: &[Entry<'_, Object>],
        what: WaitFor,
        deadline: Deadline,
    ) -> Result<Waited> {
        wait(entries, what, deadline)
    }

    fn export(&self, _object: &Object) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    fn import(&self, _fd: BorrowedFd<'_>) -> Result<Option<Object>> {
        Ok(None)
    }

    fn watch(&self, object: &Object, point: u64, available: bool, fd: OwnedFd) -> Result<()> {
        let ring = Arc::new(ring::Ring::descriptor(fd)?);
        object.0.ring_when_ready(point, available, &ring);
        Ok(())
    }
}
