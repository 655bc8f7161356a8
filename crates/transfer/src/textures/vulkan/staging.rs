//! Submissions in flight, each with a staging buffer that grows to the largest transfer.

#![expect(unsafe_code, reason = "calls of Vulkan")]

use std::sync::Arc;

use ash::vk;

use super::super::error::Result;
use super::device::Device;
use super::failed;
use super::memory::Buffer;

/// One command buffer, its fence and its staging memory.
pub(super) struct Slot {
    device: Arc<Device>,
    pool: vk::CommandPool,
    pub(super) commands: vk::CommandBuffer,
    fence: vk::Fence,
    is_busy: bool,
    staging: Option<Buffer>,
}

impl Slot {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self> {
        let create = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(device.family);
        // SAFETY: a family that the device has.
        let pool = unsafe { device.raw.create_command_pool(&create, None) }
            .map_err(failed("make a command pool"))?;
        let mut slot = Self {
            device: Arc::clone(device),
            pool,
            commands: vk::CommandBuffer::null(),
            fence: vk::Fence::null(),
            is_busy: false,
            staging: None,
        };
        let allocate = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: a pool of ours.
        let commands = unsafe { device.raw.allocate_command_buffers(&allocate) }
            .map_err(failed("make a command buffer"))?;
        slot.commands = commands.first().copied().unwrap_or_default();
        let create = vk::FenceCreateInfo::default();
        // SAFETY: a whole structure.
        slot.fence =
            unsafe { device.raw.create_fence(&create, None) }.map_err(failed("make a fence"))?;
        Ok(slot)
    }

    /// Waits until the last submission has ended.
    pub(super) fn wait(&mut self) -> Result<()> {
        if !self.is_busy {
            return Ok(());
        }
        let fences = [self.fence];
        // SAFETY: a fence of ours that was submitted.
        unsafe { self.device.raw.wait_for_fences(&fences, true, u64::MAX) }
            .map_err(failed("wait for a copy"))?;
        self.is_busy = false;
        // SAFETY: the fence is signalled and no longer in use.
        unsafe { self.device.raw.reset_fences(&fences) }.map_err(failed("reset a fence"))
    }

    /// Staging memory of at least `len` bytes; waits first.
    pub(super) fn staging(&mut self, len: u64) -> Result<&Buffer> {
        self.wait()?;
        if self.staging.as_ref().is_none_or(|buffer| buffer.len < len) {
            self.staging = None;
            let rounded = len.max(STAGING_MIN).next_power_of_two();
            self.staging = Some(Buffer::staging(&self.device, rounded)?);
        }
        self.staging.as_ref().ok_or(super::super::Error::Device {
            operation: "keep staging memory",
            code: 0,
        })
    }

    /// Starts recording; waits first.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.wait()?;
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer is idle, and its pool lets it be reset by this.
        unsafe { self.device.raw.begin_command_buffer(self.commands, &begin) }
            .map_err(failed("begin commands"))?;
        // Whatever was copied or written by the processor before is seen by what follows.
        self.barrier();
        Ok(())
    }

    /// Ends recording and submits.
    pub(super) fn submit(&mut self) -> Result<()> {
        self.barrier();
        // SAFETY: recording was begun.
        unsafe { self.device.raw.end_command_buffer(self.commands) }
            .map_err(failed("end commands"))?;
        let commands = [self.commands];
        let submits = [vk::SubmitInfo::default().command_buffers(&commands)];
        // SAFETY: one thread uses the queue; the fence is unsignalled.
        unsafe {
            self.device
                .raw
                .queue_submit(self.device.queue, &submits, self.fence)
        }
        .map_err(failed("submit commands"))?;
        self.is_busy = true;
        Ok(())
    }

    fn barrier(&self) {
        let access = vk::AccessFlags::TRANSFER_READ
            | vk::AccessFlags::TRANSFER_WRITE
            | vk::AccessFlags::HOST_READ
            | vk::AccessFlags::HOST_WRITE;
        let memory = [vk::MemoryBarrier::default()
            .src_access_mask(access)
            .dst_access_mask(access)];
        let stages = vk::PipelineStageFlags::TRANSFER | vk::PipelineStageFlags::HOST;
        let none = vk::DependencyFlags::empty();
        // SAFETY: recording was begun.
        unsafe {
            self.device.raw.cmd_pipeline_barrier(
                self.commands,
                stages,
                stages,
                none,
                &memory,
                &[],
                &[],
            );
        };
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A device that is lost has nothing in flight any more.
        let _lost = self.wait();
        // SAFETY: nothing of it is in flight.
        unsafe { self.device.raw.destroy_fence(self.fence, None) };
        // SAFETY: as above.
        unsafe { self.device.raw.destroy_command_pool(self.pool, None) };
    }
}

/// 64 KiB: small transfers share one size.
const STAGING_MIN: u64 = 64 << 10;
