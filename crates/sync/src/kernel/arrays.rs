//! The requests that take arrays of handles.

use towpath_sys::drm::{
    self, SyncobjQuery, SyncobjReset, SyncobjSignal, SyncobjTimelineSignal, SyncobjTimelineWait,
    SyncobjWait,
};

use super::Answer;
use super::client::Client;
use super::files::code;
use super::memory;
use crate::provider::{Entry, Provider, WaitFor};
use crate::time::Deadline;

impl<P: Provider> Client<P> {
    pub(crate) fn wait(&self, argument: &mut SyncobjWait) -> Answer<()> {
        let allowed = drm::WAIT_ALL | drm::WAIT_FOR_SUBMIT | drm::WAIT_DEADLINE;
        if argument.flags & !allowed != 0 {
            return Err(libc::EINVAL);
        }
        let count = argument.count_handles;
        let first = self.wait_on(
            argument.handles,
            0,
            count,
            argument.flags,
            argument.timeout_nsec,
        )?;
        argument.first_signaled = first.unwrap_or(argument.first_signaled);
        Ok(())
    }

    pub(crate) fn timeline_wait(&self, argument: &mut SyncobjTimelineWait) -> Answer<()> {
        let allowed =
            drm::WAIT_ALL | drm::WAIT_FOR_SUBMIT | drm::WAIT_AVAILABLE | drm::WAIT_DEADLINE;
        if argument.flags & !allowed != 0 {
            return Err(libc::EINVAL);
        }
        let first = self.wait_on(
            argument.handles,
            argument.points,
            argument.count_handles,
            argument.flags,
            argument.timeout_nsec,
        )?;
        argument.first_signaled = first.unwrap_or(argument.first_signaled);
        Ok(())
    }

    /// What goes into `first_signaled`; `None` leaves it alone.
    fn wait_on(
        &self,
        handles: u64,
        points: u64,
        count: u32,
        flags: u32,
        timeout: i64,
    ) -> Answer<Option<u32>> {
        if count == 0 {
            return Ok(None);
        }
        let handles = memory::read_u32s(handles, count)?;
        let objects = self.find_all(&handles)?;
        let points = memory::read_u64s_or_zeros(points, count)?;
        let entries: Vec<Entry<'_, P::Object>> = objects
            .iter()
            .zip(points)
            .map(|(object, point)| Entry { object, point })
            .collect();
        let what = WaitFor {
            all: flags & drm::WAIT_ALL != 0,
            submit: flags & drm::WAIT_FOR_SUBMIT != 0,
            available: flags & drm::WAIT_AVAILABLE != 0,
            interruptible: true,
        };
        let waited = self
            .device
            .provider
            .wait(&entries, what, Deadline::at_nanoseconds(timeout))
            .map_err(|error| code(&error))?;
        let first = waited.first.and_then(|first| u32::try_from(first).ok());
        Ok(Some(first.unwrap_or(u32::MAX)))
    }

    pub(crate) fn reset(&self, argument: &mut SyncobjReset) -> Answer<()> {
        let objects = self.array(argument.handles, argument.count_handles, argument.pad)?;
        self.for_each(&objects, P::reset)
    }

    pub(crate) fn signal(&self, argument: &mut SyncobjSignal) -> Answer<()> {
        let objects = self.array(argument.handles, argument.count_handles, argument.pad)?;
        self.for_each(&objects, P::signal)
    }

    pub(crate) fn timeline_signal(&self, argument: &mut SyncobjTimelineSignal) -> Answer<()> {
        let objects = self.array(argument.handles, argument.count_handles, argument.flags)?;
        let points = memory::read_u64s_or_zeros(argument.points, argument.count_handles)?;
        for (object, point) in objects.iter().zip(points) {
            self.device
                .provider
                .signal_point(object, point)
                .map_err(|error| code(&error))?;
        }
        Ok(())
    }

    pub(crate) fn query(&self, argument: &mut SyncobjQuery) -> Answer<()> {
        let unknown = argument.flags & !drm::QUERY_LAST_SUBMITTED;
        let objects = self.array(argument.handles, argument.count_handles, unknown)?;
        for (index, object) in (0_u64..).zip(&objects) {
            let progress = self
                .device
                .provider
                .query(object)
                .map_err(|error| code(&error))?;
            let point = if argument.flags & drm::QUERY_LAST_SUBMITTED == 0 {
                progress.reached
            } else {
                progress.submitted
            };
            let address = argument.points.wrapping_add(index.wrapping_mul(8));
            // One at a time, as the kernel does: a fault leaves the earlier ones written.
            #[expect(
                clippy::host_endian_bytes,
                reason = "an integer in this machine's memory"
            )]
            memory::write(address, &point.to_ne_bytes())?;
        }
        Ok(())
    }

    /// The objects of an array; `must_be_zero` is a pad or what is unknown among flags.
    fn array(&self, handles: u64, count: u32, must_be_zero: u32) -> Answer<Vec<P::Object>> {
        if must_be_zero != 0 || count == 0 {
            return Err(libc::EINVAL);
        }
        self.find_all(&memory::read_u32s(handles, count)?)
    }

    fn for_each(
        &self,
        objects: &[P::Object],
        act: impl Fn(&P, &P::Object) -> crate::error::Result<()>,
    ) -> Answer<()> {
        objects
            .iter()
            .try_for_each(|object| act(&self.device.provider, object))
            .map_err(|error| code(&error))
    }
}
