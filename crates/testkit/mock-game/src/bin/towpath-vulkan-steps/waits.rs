//! Steps that submit, present, wait and ask.

use std::time::Duration;

use anyhow::Result;
use ash::vk;
use towpath_mock_game::gpu::Gpu;

use crate::Run;

impl Run {
    pub(crate) fn submit(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        let mut done = 0;
        let mut last = vk::Result::SUCCESS;
        for _ in 0..count {
            let one = self.gpu.submit(fence).and_then(|()| self.gpu.wait(fence));
            match one.and_then(|()| self.gpu.reset(fence)) {
                Ok(()) => done += 1,
                Err(error) => last = error,
            }
        }
        self.gpu.drop_fence(fence);
        Ok(format!("done={done} last={last:?}"))
    }

    pub(crate) fn repeat(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        self.gpu.submit(fence)?;
        for _ in 0..count {
            self.gpu.wait(fence)?;
        }
        self.gpu.drop_fence(fence);
        Ok(String::new())
    }

    pub(crate) fn frames(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        for _ in 0..count {
            self.gpu.present(fence)?;
        }
        self.gpu.drop_fence(fence);
        Ok(String::new())
    }

    pub(crate) fn timeline(&mut self, count: u64) -> Result<String> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let semaphore = [unsafe { self.gpu.device.create_semaphore(&info, None) }?];
        for value in 1..=count {
            let value = [value];
            let mut values =
                vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&value);
            let submit = vk::SubmitInfo::default()
                .signal_semaphores(&semaphore)
                .push_next(&mut values);
            let null = vk::Fence::null();
            unsafe {
                self.gpu
                    .device
                    .queue_submit(self.gpu.queue, &[submit], null)
            }?;
            let wait = vk::SemaphoreWaitInfo::default()
                .semaphores(&semaphore)
                .values(&value);
            unsafe { self.gpu.device.wait_semaphores(&wait, u64::MAX) }?;
            unsafe { self.gpu.device.wait_semaphores(&wait, 0) }?;
        }
        semaphore
            .iter()
            .for_each(|one| unsafe { self.gpu.device.destroy_semaphore(*one, None) });
        Ok(String::new())
    }

    /// The rows that a remembered signal must not get wrong, each as the driver's answer.
    pub(crate) fn sync_fd(&mut self) -> Result<String> {
        let external =
            ash::khr::external_fence_fd::Device::new(&self.gpu.instance, &self.gpu.device);
        let kind = vk::ExternalFenceHandleTypeFlags::SYNC_FD;
        let fence = self.gpu.fence(false)?;
        let mut states = Vec::new();
        let mut note = |gpu: &Gpu| {
            let state = unsafe { gpu.device.get_fence_status(fence) };
            states.push(state.map_or(-1, i32::from));
        };
        self.gpu.submit(fence)?;
        self.gpu.wait(fence)?;
        note(&self.gpu);
        let info = vk::FenceGetFdInfoKHR::default()
            .fence(fence)
            .handle_type(kind);
        let fd = unsafe { external.get_fence_fd(&info) }?;
        note(&self.gpu);
        let info = vk::ImportFenceFdInfoKHR::default()
            .fence(fence)
            .flags(vk::FenceImportFlags::TEMPORARY)
            .handle_type(kind)
            .fd(fd);
        unsafe { external.import_fence_fd(&info) }?;
        note(&self.gpu);
        self.gpu.reset(fence)?;
        note(&self.gpu);
        // A signal below a temporary payload comes back with the reset.
        self.gpu.submit(fence)?;
        self.gpu.wait(fence)?;
        unsafe { external.import_fence_fd(&info) }?;
        note(&self.gpu);
        self.gpu.reset(fence)?;
        note(&self.gpu);
        self.gpu.drop_fence(fence);
        Ok(format!("states={states:?}"))
    }

    pub(crate) fn cost(&mut self, count: u32) -> Result<String> {
        let fence = self.gpu.fence(false)?;
        let status = self.gpu.device.fp_v1_0().get_fence_status;
        let device = self.gpu.device.handle();
        let began = processor_time();
        for _ in 0..count {
            let _not_ready = unsafe { status(device, fence) };
        }
        let spent = processor_time().saturating_sub(began);
        self.gpu.drop_fence(fence);
        let began = processor_time();
        for _ in 0..count {
            std::hint::black_box(std::time::Instant::now());
        }
        let clock = processor_time().saturating_sub(began);
        let per_call = |spent: Duration| spent.as_secs_f64() * 1e9 / f64::from(count.max(1));
        Ok(format!(
            "{:.1} ns per call, {:.1} ns per clock read",
            per_call(spent),
            per_call(clock)
        ))
    }

    pub(crate) fn wait_any(&mut self, count: u32) -> Result<String> {
        let fences: Result<Vec<_>, _> = (1..=count).map(|n| self.gpu.fence(n == count)).collect();
        let fences = fences?;
        let mut answers = Vec::new();
        for all in [false, false, true, true] {
            answers.push(unsafe { self.gpu.device.wait_for_fences(&fences, all, 0) });
        }
        for fence in fences {
            self.gpu.drop_fence(fence);
        }
        Ok(format!("{answers:?}"))
    }

    pub(crate) fn reuse(&mut self, count: u32) -> Result<String> {
        let (mut signaled, mut lost) = (0, 0);
        for number in 0..count {
            let fence = self.gpu.fence(number % 2 == 0)?;
            match unsafe { self.gpu.device.get_fence_status(fence) } {
                Ok(state) => signaled += u32::from(state),
                Err(_) => lost += 1,
            }
            self.gpu.drop_fence(fence);
        }
        Ok(format!("signaled={signaled} lost={lost}"))
    }
}

/// What this thread has had of the processor: other programs take none of it, as they do of the wall's time.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
