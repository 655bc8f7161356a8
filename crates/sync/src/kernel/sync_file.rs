//! Requests on sync files and on software timelines.

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use std::sync::atomic::Ordering;

use towpath_sys::drm::{
    Layout, SwSyncCreateFence, SwSyncGetDeadline, SwSyncInc, SyncFileInfo, SyncMerge,
    SyncSetDeadline,
};

use super::client::{borrow, serve};
use super::files::{Device, File, LOOK_AT_LEAST, Pending, Timeline, code};
use super::parts::{Name, Part, SyncFile, Times, is_reached};
use super::{Answer, Code, memory};
use crate::prim::{Arc, Lock};
use crate::provider::Provider;

impl<P: Provider> Device<P> {
    /// Makes a software timeline, as opening the kernel's `sw_sync` file does.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn open_timeline(&self) -> Result<OwnedFd, Code> {
        let name = rustix::thread::name().map(std::ffi::CString::into_bytes);
        let timeline = Timeline {
            name: Name::new(SW_SYNC, name.unwrap_or_default()),
            value: 0,
            pending: Vec::new(),
            look_at: LOOK_AT_LEAST,
        };
        self.publish(File::Timeline(Arc::new(Lock::new(timeline))), false)
    }

    pub(crate) fn publish_sync_file(&self, file: SyncFile<P>) -> Answer<OwnedFd> {
        self.publish(File::Fences(Arc::new(file)), false)
    }

    /// Serves a request on a sync file or software timeline of this device.
    ///
    /// # Errors
    ///
    /// The kernel's code; `ENOTTY` if the descriptor or the number is not one of these.
    ///
    /// # Safety
    ///
    /// As [`Client::ioctl`](super::Client::ioctl).
    #[expect(unsafe_code, reason = "a request carries addresses")]
    pub unsafe fn fence_ioctl(
        &self,
        fd: BorrowedFd<'_>,
        request: u32,
        argument: &mut [u8],
    ) -> Result<(), Code> {
        let file = self.file(fd).ok_or(libc::ENOTTY)?;
        self.fence_request(&file, request, argument)
    }

    pub(crate) fn fence_request(
        &self,
        file: &File<P>,
        request: u32,
        argument: &mut [u8],
    ) -> Answer<()> {
        match (file, request) {
            (File::Fences(file), SyncMerge::REQUEST) => {
                serve(argument, |argument| self.merge(file, argument))
            }
            (File::Fences(file), SyncFileInfo::REQUEST) => {
                serve(argument, |argument| self.info(file, argument))
            }
            (File::Fences(file), SyncSetDeadline::REQUEST) => {
                serve(argument, |argument| set_deadline(file, argument))
            }
            (File::Timeline(_), SwSyncGetDeadline::REQUEST) => {
                serve(argument, |argument| self.deadline(argument))
            }
            (File::Timeline(timeline), SwSyncCreateFence::REQUEST) => {
                serve(argument, |argument| self.create_fence(timeline, argument))
            }
            (File::Timeline(timeline), SwSyncInc::REQUEST) => {
                serve(argument, |argument: &mut SwSyncInc| {
                    self.increase(timeline, argument.by);
                    Ok(())
                })
            }
            _ => Err(libc::ENOTTY),
        }
    }

    fn merge(&self, file: &SyncFile<P>, argument: &mut SyncMerge) -> Answer<()> {
        if argument.flags != 0 || argument.pad != 0 {
            return Err(libc::EINVAL);
        }
        let second = borrow(argument.fd2).and_then(|fd| self.file(fd));
        let Some(File::Fences(second)) = second else {
            return Err(libc::ENOENT);
        };
        let both = [file, &second];
        let merged = SyncFile::merged(&self.provider, argument.name, both)?;
        let merged = self.publish_sync_file(merged)?;
        argument.fence = merged.into_raw_fd();
        Ok(())
    }

    fn info(&self, file: &SyncFile<P>, argument: &mut SyncFileInfo) -> Answer<()> {
        if argument.flags != 0 || argument.pad != 0 {
            return Err(libc::EINVAL);
        }
        let count = u32::try_from(file.parts().len()).unwrap_or(u32::MAX);
        if argument.num_fences == 0 {
            argument.status = file.status(&self.provider);
        } else if argument.num_fences < count {
            return Err(libc::EINVAL);
        } else {
            argument.status = 1;
            let mut bytes = Vec::new();
            for part in file.parts() {
                let status = self.provider.status(&part.fence);
                bytes.extend_from_slice(&part.info(status).to_bytes());
                if argument.status > 0 {
                    argument.status = status;
                }
            }
            memory::write(argument.sync_fence_info, &bytes)?;
        }
        argument.name = file.text();
        argument.num_fences = count;
        Ok(())
    }

    /// The earliest deadline that was set on a fence of a software timeline.
    fn deadline(&self, argument: &mut SwSyncGetDeadline) -> Answer<()> {
        if argument.deadline_ns != 0 || argument.pad != 0 {
            return Err(libc::EINVAL);
        }
        let file = borrow(argument.fence_fd).and_then(|fd| self.file(fd));
        let Some(File::Fences(file)) = file else {
            return Err(libc::EINVAL);
        };
        let [part] = file.parts() else {
            return Err(libc::EINVAL);
        };
        if part.timeline.driver != SW_SYNC {
            return Err(libc::EINVAL);
        }
        match part.times.deadline.load(Ordering::Relaxed) {
            u64::MAX => Err(libc::ENOENT),
            deadline => {
                argument.deadline_ns = deadline;
                Ok(())
            }
        }
    }

    fn create_fence(
        &self,
        timeline: &Lock<Timeline<P>>,
        argument: &mut SwSyncCreateFence,
    ) -> Answer<()> {
        let (signaller, fence) = self.provider.fence().map_err(|error| code(&error))?;
        let times = Times::new();
        let name = Arc::clone(&timeline.lock().name);
        let fd = self.publish_sync_file(SyncFile::of(Part {
            fence,
            timeline: name,
            number: argument.value,
            times: Arc::clone(&times),
        }))?;
        let pending = Pending {
            at: argument.value,
            signaller,
            times,
        };
        let mut timeline = timeline.lock();
        if is_reached(timeline.value, pending.at) {
            drop(timeline);
            self.end(pending);
        } else {
            timeline.pending.push(pending);
            let unwanted = timeline.unwanted();
            drop(timeline);
            drop(unwanted);
        }
        argument.fence = fd.into_raw_fd();
        Ok(())
    }

    /// Raises a timeline. By more than half the range it goes in steps, as in the kernel: what is passed
    /// on the way is done.
    fn increase(&self, timeline: &Lock<Timeline<P>>, by: u32) {
        let mut left = by;
        while left > STEP_MAX {
            self.step(timeline, STEP_MAX);
            left -= STEP_MAX;
        }
        self.step(timeline, left);
    }

    fn step(&self, timeline: &Lock<Timeline<P>>, by: u32) {
        let ended: Vec<_> = {
            let mut timeline = timeline.lock();
            timeline.value = timeline.value.wrapping_add(by);
            let value = timeline.value;
            timeline
                .pending
                .extract_if(.., |pending| is_reached(value, pending.at))
                .collect()
        };
        for pending in ended {
            self.end(pending);
        }
    }

    fn end(&self, pending: Pending<P>) {
        pending.times.note_end();
        self.provider.end(pending.signaller);
    }
}

/// The most that a software timeline grows in one step.
const STEP_MAX: u32 = i32::MAX.unsigned_abs();
/// The driver's name of software timelines.
const SW_SYNC: &str = "sw_sync";

fn set_deadline<P: Provider>(file: &SyncFile<P>, argument: &mut SyncSetDeadline) -> Answer<()> {
    if argument.pad != 0 {
        return Err(libc::EINVAL);
    }
    for part in file.parts() {
        // Relaxed: a hint.
        part.times
            .deadline
            .fetch_min(argument.deadline_ns, Ordering::Relaxed);
    }
    Ok(())
}
