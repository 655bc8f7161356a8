//! What recording costs on the calls that programs make all the time, counted: no allocation, no lock.

#![expect(
    unsafe_code,
    clippy::multiple_unsafe_ops_per_block,
    reason = "calls the layer as a loader does"
)]

use std::cell::Cell;
use std::ptr::{null, null_mut};

use ash::vk;
use ash::vk::Handle as _;
use towpath_counting::{Counting, in_thread};
use towpath_ledger::{Counter, read_folder};

use crate::abi::{self, untyped};
use crate::calls::{memory, queue, waits};
use crate::{device, lock, process};

#[global_allocator]
static COUNTING: Counting = Counting;

unsafe extern "system" fn submit(
    _: vk::Queue,
    _: u32,
    _: *const vk::SubmitInfo<'_>,
    _: vk::Fence,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn submit2(
    _: vk::Queue,
    _: u32,
    _: *const vk::SubmitInfo2<'_>,
    _: vk::Fence,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn present(_: vk::Queue, _: *const vk::PresentInfoKHR<'_>) -> vk::Result {
    PRESENTED.get()
}

thread_local! {
    static PRESENTED: Cell<vk::Result> = const { Cell::new(vk::Result::SUCCESS) };
}

unsafe extern "system" fn queue_idle(_: vk::Queue) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn device_idle(_: vk::Device) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn acquire(
    _: vk::Device,
    _: vk::SwapchainKHR,
    _: u64,
    _: vk::Semaphore,
    _: vk::Fence,
    _: *mut u32,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn create_fence(
    _: vk::Device,
    _: *const vk::FenceCreateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::Fence,
) -> vk::Result {
    if let Some(out) = abi::get_mut(out) {
        *out = vk::Fence::from_raw(0xf0);
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn fence(_: vk::Device, _: vk::Fence) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn reset(_: vk::Device, _: u32, _: *const vk::Fence) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn wait_fences(
    _: vk::Device,
    _: u32,
    _: *const vk::Fence,
    _: vk::Bool32,
    _: u64,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn wait_semaphores(
    _: vk::Device,
    _: *const vk::SemaphoreWaitInfo<'_>,
    _: u64,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn counter_value(
    _: vk::Device,
    _: vk::Semaphore,
    out: *mut u64,
) -> vk::Result {
    if let Some(out) = abi::get_mut(out) {
        *out = 5;
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn map(
    _: vk::Device,
    _: vk::DeviceMemory,
    _: vk::DeviceSize,
    _: vk::DeviceSize,
    _: vk::MemoryMapFlags,
    _: *mut *mut core::ffi::c_void,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn bind(
    _: vk::Device,
    _: vk::Buffer,
    _: vk::DeviceMemory,
    _: vk::DeviceSize,
) -> vk::Result {
    vk::Result::SUCCESS
}

unsafe extern "system" fn get_proc(
    _: vk::Device,
    name: *const core::ffi::c_char,
) -> vk::PFN_vkVoidFunction {
    match abi::name(name) {
        b"vkQueueSubmit" => untyped!(vk::PFN_vkQueueSubmit, submit),
        b"vkQueueSubmit2" => untyped!(vk::PFN_vkQueueSubmit2, submit2),
        b"vkQueuePresentKHR" => untyped!(vk::PFN_vkQueuePresentKHR, present),
        b"vkQueueWaitIdle" => untyped!(vk::PFN_vkQueueWaitIdle, queue_idle),
        b"vkDeviceWaitIdle" => untyped!(vk::PFN_vkDeviceWaitIdle, device_idle),
        b"vkAcquireNextImageKHR" => untyped!(vk::PFN_vkAcquireNextImageKHR, acquire),
        b"vkCreateFence" => untyped!(vk::PFN_vkCreateFence, create_fence),
        b"vkGetFenceStatus" => untyped!(vk::PFN_vkGetFenceStatus, fence),
        b"vkResetFences" => untyped!(vk::PFN_vkResetFences, reset),
        b"vkWaitForFences" => untyped!(vk::PFN_vkWaitForFences, wait_fences),
        b"vkWaitSemaphores" => untyped!(vk::PFN_vkWaitSemaphores, wait_semaphores),
        b"vkGetSemaphoreCounterValue" => {
            untyped!(vk::PFN_vkGetSemaphoreCounterValue, counter_value)
        }
        b"vkMapMemory" => untyped!(vk::PFN_vkMapMemory, map),
        b"vkBindBufferMemory" => untyped!(vk::PFN_vkBindBufferMemory, bind),
        _ => None,
    }
}

/// A dispatchable handle: the address of a word that the loader has put there.
fn handle<H: vk::Handle>(word: &'static usize) -> H {
    let address = core::ptr::from_ref(word).expose_provenance();
    H::from_raw(u64::try_from(address).unwrap_or(0))
}

/// One of each call; every one must succeed.
fn frame(device: vk::Device, queue: vk::Queue) {
    let (mut index, mut value, mut memory) = (0, 0, null_mut());
    let fences = [vk::Fence::from_raw(0xf0), vk::Fence::from_raw(0xf1)];
    let [fence, _] = fences;
    let semaphores = [vk::Semaphore::from_raw(0x5e)];
    let values = [3];
    let wait = vk::SemaphoreWaitInfo::default()
        .semaphores(&semaphores)
        .values(&values);
    let swapchain = vk::SwapchainKHR::null();
    let none = vk::Semaphore::null();
    // SAFETY: a device of this test, whose functions above follow none of these pointers but `out`s.
    let answers = unsafe {
        [
            queue::acquire(device, swapchain, 0, none, fence, &raw mut index),
            waits::reset_fences(device, 2, fences.as_ptr()),
            queue::submit(queue, 0, null(), fence),
            queue::submit2(queue, 0, null(), fence),
            waits::fence_status(device, fence),
            waits::fence_status(device, fence),
            waits::wait_fences(device, 2, fences.as_ptr(), vk::TRUE, 0),
            waits::counter_value(device, none, &raw mut value),
            waits::wait_semaphores(device, &raw const wait, 0),
            memory::map(
                device,
                vk::DeviceMemory::null(),
                0,
                1,
                vk::MemoryMapFlags::empty(),
                &raw mut memory,
            ),
            memory::bind_buffer(device, vk::Buffer::null(), vk::DeviceMemory::null(), 0),
            queue::present(queue, null()),
            queue::wait_idle(queue),
            queue::device_wait_idle(device),
        ]
    };
    assert_eq!(answers, [vk::Result::SUCCESS; 14]);
}

#[test]
fn calls_of_a_frame_are_recorded_without_allocation_and_without_lock() {
    static KEY: usize = 0x1230;
    static UNKNOWN: usize = 0x4560;
    let folder = tempfile::tempdir().unwrap();
    process::record_into(folder.path());
    let (device, queue) = (handle::<vk::Device>(&KEY), handle::<vk::Queue>(&KEY));
    let physical = vk::PhysicalDevice::null();
    let mut made = device;
    device::enter(None, physical, &raw mut made, get_proc, false);
    let mut fence = vk::Fence::null();
    let info = vk::FenceCreateInfo::default();
    // SAFETY: as in `frame`.
    let answer = unsafe { waits::create_fence(device, &raw const info, null(), &raw mut fence) };
    assert_eq!(answer, vk::Result::SUCCESS);

    let before = (in_thread(), lock::taken());
    for _ in 0..100 {
        frame(device, queue);
    }
    assert_eq!((in_thread(), lock::taken()), before);

    // A present that is refused is a call, but no frame.
    PRESENTED.set(vk::Result::ERROR_OUT_OF_DATE_KHR);
    // SAFETY: as in `frame`.
    let answer = unsafe { queue::present(queue, null()) };
    assert_eq!(answer, vk::Result::ERROR_OUT_OF_DATE_KHR);
    // A queue that another layer got past the loader bears no key: with one device it is that one's.
    let unkeyed = handle::<vk::Queue>(&UNKNOWN);
    // SAFETY: as in `frame`.
    let answer = unsafe { queue::submit(unkeyed, 0, null(), vk::Fence::null()) };
    assert_eq!(answer, vk::Result::SUCCESS);

    let (ledgers, problems) = read_folder(folder.path());
    assert!(problems.is_empty() && ledgers.len() == 1, "{problems:?}");
    let ledger = &ledgers[0];
    let calls = |call: &str| {
        let sites = ledger.sites().into_iter();
        sites
            .filter(|s| s.call == call)
            .map(|s| s.calls)
            .sum::<u64>()
    };
    assert_eq!(calls("vkQueueSubmit"), 201);
    assert_eq!(calls("vkGetFenceStatus"), 200);
    assert_eq!(calls("vkQueuePresentKHR"), 101);
    assert_eq!(ledger.counter(Counter::Frames), 100);
    assert_eq!(ledger.counter(Counter::WaitsEntered), 700);
    // Of each frame's two looks at the fence the second; the two fences are not both known.
    assert_eq!(ledger.counter(Counter::WaitsRepeated), 100);
    // A device that the program left behind is forgotten with its instance: its key may come again.
    device::instance_ends(0);
    // SAFETY: as in `frame`.
    let answer = unsafe { queue::submit(queue, 0, null(), vk::Fence::null()) };
    assert_eq!(answer, vk::Result::ERROR_DEVICE_LOST);
    device::enter(None, physical, &raw mut made, get_proc, false);
    PRESENTED.set(vk::Result::SUCCESS);
    frame(device, queue);

    // The counters do count.
    let before = (in_thread(), lock::taken());
    drop(std::hint::black_box(Box::new(1)));
    lock::Lock::new(0).with(|zero| *zero += 1);
    let after = (in_thread(), lock::taken());
    assert_eq!(after, (before.0 + 1, before.1 + 1));
}
