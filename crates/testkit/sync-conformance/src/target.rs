//! What the rules run over.
#![expect(unsafe_code, reason = "requests carry addresses")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use towpath_sys::drm::{self, Layout, SwSyncCreateFence, SwSyncInc, bytes_mut, calls};

/// One opened device: takes requests.
pub trait Client: Send + Sync {
    /// Serves a request; the error is the kernel's code.
    ///
    /// # Safety
    ///
    /// Addresses in the argument are valid for what the request does with them, or unmapped.
    unsafe fn request(&self, request: u32, argument: &mut [u8]) -> Result<(), i32>;
}

/// A source of fences that are pending until told otherwise.
pub trait Fences: Send + Sync {
    /// A sync file whose fence ends when the source's value reaches `value`.
    fn sync_file(&self, value: u32) -> Result<OwnedFd, String>;
    /// Raises the value.
    fn increase(&self, by: u32) -> Result<(), String>;
}

/// A device to open and a source of fences.
pub trait Target: Sync {
    /// Opens the device.
    fn open(&self) -> Result<Box<dyn Client>, String>;
    /// Makes a source of pending fences.
    fn fences(&self) -> Result<Box<dyn Fences>, String>;
    /// Whether the TIMELINE flag of descriptors is known (Linux 6.16 and what follows it).
    fn has_fd_timeline(&self) -> bool;
    /// Whether fences end in any order, and may stay pending for ever.
    fn has_long_fences(&self) -> bool {
        true
    }
}

/// A device file, real or preloaded.
#[derive(Debug)]
pub struct Node {
    /// The render node.
    pub path: String,
    /// Where software timelines are opened, if the target has them.
    pub sw_sync: Option<String>,
    /// A vgem node, for fences where there are no software timelines.
    pub vgem: Option<String>,
    /// As [`Target::has_fd_timeline`].
    pub has_fd_timeline: bool,
}

struct NodeClient(File);

impl Client for NodeClient {
    unsafe fn request(&self, request: u32, argument: &mut [u8]) -> Result<(), i32> {
        loop {
            // SAFETY: the slice has the size that the number encodes (`Ops` makes both from one
            // type) and the caller answers for the addresses in it.
            let answer = unsafe {
                libc::ioctl(
                    self.0.as_raw_fd(),
                    libc::Ioctl::from(request),
                    argument.as_mut_ptr(),
                )
            };
            if answer >= 0 {
                return Ok(());
            }
            let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            if code != libc::EINTR {
                return Err(code);
            }
        }
    }
}

impl Target for Node {
    fn open(&self) -> Result<Box<dyn Client>, String> {
        Ok(Box::new(NodeClient(open(&self.path)?)))
    }

    fn fences(&self) -> Result<Box<dyn Fences>, String> {
        match (&self.sw_sync, &self.vgem) {
            (Some(path), _) => Ok(Box::new(SwSync(open(path)?))),
            (None, Some(path)) => Ok(Box::new(Vgem::new(open(path)?))),
            (None, None) => Err("no source of fences".to_owned()),
        }
    }

    fn has_fd_timeline(&self) -> bool {
        self.has_fd_timeline
    }
}

fn open(path: &str) -> Result<File, String> {
    let file = File::options().read(true).write(true).open(path);
    file.map_err(|error| format!("cannot open {path}: {error}"))
}

struct SwSync(File);

impl Fences for SwSync {
    fn sync_file(&self, value: u32) -> Result<OwnedFd, String> {
        let mut argument = SwSyncCreateFence {
            value,
            ..SwSyncCreateFence::default()
        };
        // SAFETY: no address in it.
        let answer = unsafe { calls::issue(self.0.as_fd(), &mut argument) };
        answer.map_err(|error| format!("sw_sync fence: {error}"))?;
        // SAFETY: made for us just now.
        Ok(unsafe { OwnedFd::from_raw_fd(argument.fence) })
    }

    fn increase(&self, by: u32) -> Result<(), String> {
        // SAFETY: no address in it.
        let answer = unsafe { calls::issue(self.0.as_fd(), &mut SwSyncInc { by }) };
        answer.map_err(|error| format!("sw_sync increase: {error}"))
    }
}

/// Fences of vgem buffers: each ends by name, or by itself after ten seconds.
struct Vgem {
    file: File,
    state: Mutex<VgemState>,
}

#[derive(Default)]
struct VgemState {
    value: u32,
    pending: Vec<(u32, u32, u32)>,
}

impl Vgem {
    fn new(file: File) -> Self {
        Self {
            file,
            state: Mutex::default(),
        }
    }

    fn issue<T: Layout>(&self, mut argument: T, what: &str) -> Result<T, String> {
        // SAFETY: none of the requests here carries an address.
        let answer = unsafe { calls::issue(self.file.as_fd(), &mut argument) };
        answer
            .map(|()| argument)
            .map_err(|error| format!("vgem {what}: {error}"))
    }

    fn end(&self, fence: u32, buffer: u32) -> Result<(), String> {
        self.issue(drm::VgemFenceSignal { fence, flags: 0 }, "signal")?;
        self.issue(
            drm::GemClose {
                handle: buffer,
                pad: 0,
            },
            "close",
        )
        .map(|_| ())
    }
}

impl Fences for Vgem {
    fn sync_file(&self, value: u32) -> Result<OwnedFd, String> {
        let dumb = drm::CreateDumb {
            height: 1,
            width: 1024,
            bpp: 32,
            ..drm::CreateDumb::default()
        };
        let buffer = self.issue(dumb, "buffer")?.handle;
        let attach = drm::VgemFenceAttach {
            handle: buffer,
            flags: 1,
            out_fence: 0,
            pad: 0,
        };
        let fence = self.issue(attach, "fence")?.out_fence;
        let prime = drm::PrimeHandleToFd {
            handle: buffer,
            flags: 0o2_000_000,
            fd: -1,
        };
        let prime = self.issue(prime, "dma-buf")?;
        // SAFETY: made for us just now.
        let dma_buf = unsafe { OwnedFd::from_raw_fd(prime.fd) };
        let mut export = drm::DmaBufExportSyncFile { flags: 3, fd: -1 };
        // SAFETY: no address in it.
        let answer = unsafe { calls::issue(dma_buf.as_fd(), &mut export) };
        answer.map_err(|error| format!("export of a sync file: {error}"))?;
        // SAFETY: made for us just now.
        let sync_file = unsafe { OwnedFd::from_raw_fd(export.fd) };
        let mut state = self.state.lock().map_err(|error| error.to_string())?;
        if state.value >= value {
            self.end(fence, buffer)?;
        } else {
            state.pending.push((value, fence, buffer));
        }
        Ok(sync_file)
    }

    fn increase(&self, by: u32) -> Result<(), String> {
        let mut state = self.state.lock().map_err(|error| error.to_string())?;
        state.value += by;
        let value = state.value;
        let ended: Vec<_> = state
            .pending
            .extract_if(.., |pending| pending.0 <= value)
            .collect();
        for (_, fence, buffer) in ended {
            self.end(fence, buffer)?;
        }
        Ok(())
    }
}

impl Drop for Vgem {
    fn drop(&mut self) {
        // The kernel ends what is left when the file goes.
        if let Ok(mut state) = self.state.lock() {
            state.pending.clear();
        }
    }
}

/// Issues the request of a struct.
///
/// # Safety
///
/// As [`Client::request`].
pub unsafe fn request<T: Layout>(client: &dyn Client, argument: &mut T) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    unsafe { client.request(T::REQUEST, bytes_mut(argument)) }
}

extern "C" fn on_signal(_number: i32) {}

/// Runs `body` while this thread is sent a signal every two milliseconds.
pub(crate) fn in_signal_storm<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    let handler: extern "C" fn(i32) = on_signal;
    let action = libc::sigaction {
        sa_sigaction: handler as usize,
        sa_flags: 0,
        // SAFETY: an empty mask is all zeros.
        ..unsafe { std::mem::zeroed() }
    };
    // SAFETY: the handler does nothing, so it is safe at any moment.
    if unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err("sigaction".to_owned());
    }
    // SAFETY: no requirement.
    let thread = unsafe { libc::pthread_self() };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    Ok(std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                std::thread::sleep(std::time::Duration::from_millis(2));
                // SAFETY: the thread lives until the scope ends.
                let _sent = unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
            }
        });
        let answer = body();
        is_over.store(true, std::sync::atomic::Ordering::Release);
        answer
    }))
}

/// Closes a descriptor by number.
pub(crate) fn close(fd: i32) {
    // SAFETY: the rules pass descriptors that a request made for them.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

/// Sends a descriptor over a socket and gives what arrives.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the descriptor is given away"
)]
pub(crate) fn send_over_socket(fd: OwnedFd) -> Result<OwnedFd, String> {
    use rustix::net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    };
    let text = |error: rustix::io::Errno| error.to_string();
    let pair = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let (here, there) = pair.map_err(text)?;
    let mut space = [std::mem::MaybeUninit::uninit(); 64];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    if !message.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err("no room for a descriptor".to_owned());
    }
    let bytes = [std::io::IoSlice::new(b"f")];
    sendmsg(&here, &bytes, &mut message, SendFlags::empty()).map_err(text)?;
    let mut space = [std::mem::MaybeUninit::uninit(); 64];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(&there, &mut bytes, &mut message, RecvFlags::CMSG_CLOEXEC).map_err(text)?;
    let received = message.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    received.ok_or_else(|| "no descriptor arrived".to_owned())
}

/// A page followed by one that is not accessible.
pub(crate) struct Guarded {
    base: *mut libc::c_void,
}

const PAGE: usize = 4096;

impl Guarded {
    pub(crate) fn new() -> Result<Self, String> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err("mmap".to_owned());
        }
        let this = Self { base };
        // SAFETY: the second page is ours and nothing refers to it.
        if unsafe { libc::mprotect(base.wrapping_byte_add(PAGE), PAGE, libc::PROT_NONE) } != 0 {
            return Err("mprotect".to_owned());
        }
        Ok(this)
    }

    fn slot(&self) -> *mut u64 {
        self.base.wrapping_byte_add(PAGE - 8).cast()
    }

    pub(crate) fn last_slot(&self) -> u64 {
        self.slot().expose_provenance() as u64
    }

    pub(crate) fn read_last_slot(&self) -> u64 {
        // SAFETY: the last eight bytes of the first page, aligned, ours.
        unsafe { self.slot().read_volatile() }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, used by nobody any more.
        let _unmapped = unsafe { libc::munmap(self.base, 2 * PAGE) };
    }
}
