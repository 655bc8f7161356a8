//! Requests on sync files and on software timelines.

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use towpath_sys::drm::{
    Layout, SwSyncCreateFence, SwSyncInc, SyncFenceInfo, SyncFileInfo, SyncMerge,
};

use super::client::{borrow, serve};
use super::files::{Device, File, SyncFile, Timeline, code};
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
        let timeline = Timeline {
            value: 0,
            pending: Vec::new(),
        };
        self.publish(File::Timeline(Arc::new(Lock::new(timeline))), false)
    }

    pub(crate) fn publish_sync_file(&self, file: SyncFile<P>) -> Answer<OwnedFd> {
        self.publish(File::SyncFile(file), false)
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
        match (self.file(fd), request) {
            (Some(File::SyncFile(file)), SyncMerge::REQUEST) => {
                serve(argument, |argument| self.merge(&file, argument))
            }
            (Some(File::SyncFile(file)), SyncFileInfo::REQUEST) => {
                serve(argument, |argument| self.info(&file, argument))
            }
            (Some(File::Timeline(timeline)), SwSyncCreateFence::REQUEST) => {
                serve(argument, |argument| self.create_fence(&timeline, argument))
            }
            (Some(File::Timeline(timeline)), SwSyncInc::REQUEST) => {
                serve(argument, |argument: &mut SwSyncInc| {
                    self.increase(&timeline, argument.by);
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
        let Some(File::SyncFile(second)) = second else {
            return Err(libc::ENOENT);
        };
        let fence = self
            .provider
            .join(&file.fence, &second.fence)
            .map_err(|error| code(&error))?;
        let merged = self.publish_sync_file(SyncFile {
            name: argument.name,
            fence,
        })?;
        argument.fence = merged.into_raw_fd();
        Ok(())
    }

    fn info(&self, file: &SyncFile<P>, argument: &mut SyncFileInfo) -> Answer<()> {
        if argument.flags != 0 || argument.pad != 0 {
            return Err(libc::EINVAL);
        }
        let status = self.provider.status(&file.fence);
        argument.status = status;
        argument.name = file.name;
        if argument.num_fences == 0 {
            argument.num_fences = 1;
            return Ok(());
        }
        let info = SyncFenceInfo {
            obj_name: [0; 32],
            driver_name: *b"towpath\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            status,
            flags: 0,
            timestamp_ns: 0,
        };
        memory::write(argument.sync_fence_info, &info.to_bytes())?;
        argument.num_fences = 1;
        Ok(())
    }

    fn create_fence(
        &self,
        timeline: &Lock<Timeline<P>>,
        argument: &mut SwSyncCreateFence,
    ) -> Answer<()> {
        let (signaller, fence) = self.provider.fence().map_err(|error| code(&error))?;
        let file = SyncFile {
            name: argument.name,
            fence,
        };
        let fd = self.publish_sync_file(file)?;
        let mut timeline = timeline.lock();
        if is_reached(timeline.value, argument.value) {
            drop(timeline);
            self.provider.end(signaller);
        } else {
            timeline.pending.push((argument.value, signaller));
        }
        argument.fence = fd.into_raw_fd();
        Ok(())
    }

    fn increase(&self, timeline: &Lock<Timeline<P>>, by: u32) {
        let ended: Vec<_> = {
            let mut timeline = timeline.lock();
            timeline.value = timeline.value.wrapping_add(by);
            let value = timeline.value;
            timeline
                .pending
                .extract_if(.., |(at, _)| is_reached(value, *at))
                .collect()
        };
        for (_, signaller) in ended {
            self.provider.end(signaller);
        }
    }
}

/// Values wrap, as the kernel's do: reached is at most half the range behind.
fn is_reached(value: u32, at: u32) -> bool {
    value.wrapping_sub(at) < 1 << 31
}
