//! The kernel's face on a provider, as a target of the conformance rules.
#![expect(unsafe_code, reason = "requests carry addresses")]

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use towpath_sync::Provider;
use towpath_sync::kernel::{Client, Device};
use towpath_sync_conformance as conformance;
use towpath_sys::drm::{Layout, SwSyncCreateFence, SwSyncInc, bytes_mut};

/// A device on a provider.
pub(crate) struct Face<P: Provider>(pub(crate) Arc<Device<P>>);

struct FaceClient<P: Provider>(Client<P>);

impl<P: Provider> conformance::Client for FaceClient<P> {
    unsafe fn request(&self, request: u32, argument: &mut [u8]) -> Result<(), i32> {
        // A signal ends a request as the kernel's; like every program, we ask again.
        loop {
            // SAFETY: the rules answer for the addresses.
            let answer = unsafe { self.0.ioctl(request, argument) };
            if answer != Err(libc::EINTR) {
                return answer;
            }
        }
    }
}

struct FaceFences<P: Provider>(Arc<Device<P>>, OwnedFd);

impl<P: Provider> FaceFences<P> {
    fn request<T: Layout>(&self, mut argument: T) -> Result<T, String> {
        let bytes = bytes_mut(&mut argument);
        // SAFETY: no address in these.
        let answer = unsafe { self.0.fence_ioctl(self.1.as_fd(), T::REQUEST, bytes) };
        answer
            .map(|()| argument)
            .map_err(|code| format!("timeline: code {code}"))
    }
}

impl<P: Provider> conformance::Fences for FaceFences<P> {
    fn sync_file(&self, value: u32) -> Result<OwnedFd, String> {
        let made = self.request(SwSyncCreateFence {
            value,
            ..SwSyncCreateFence::default()
        })?;
        // SAFETY: made for us just now.
        Ok(unsafe { OwnedFd::from_raw_fd(made.fence) })
    }

    fn increase(&self, by: u32) -> Result<(), String> {
        self.request(SwSyncInc { by }).map(drop)
    }
}

impl<P: Provider> conformance::Target for Face<P> {
    fn open(&self) -> Result<Box<dyn conformance::Client>, String> {
        Ok(Box::new(FaceClient(Client::open(Arc::clone(&self.0)))))
    }

    fn fences(&self) -> Result<Box<dyn conformance::Fences>, String> {
        let timeline = self
            .0
            .open_timeline()
            .map_err(|code| format!("timeline: code {code}"))?;
        Ok(Box::new(FaceFences(Arc::clone(&self.0), timeline)))
    }

    fn has_fd_timeline(&self) -> bool {
        true
    }
}
