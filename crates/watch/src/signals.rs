//! Signals while a program runs: noted by us, passed on, and left to the program.
//!
//! Contract: handlers are installed only while a [`Relay`] lives, only for signals that were not
//! ignored, and only write to a pipe. Signals that the terminal sends reach the program's group by
//! themselves; those sent to us alone are passed on by the waiting loop.

#![expect(unsafe_code, reason = "signal dispositions are set by C calls")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

/// Signals that people and service managers send to end, suspend or wake a program.
const RELAYED: [i32; 7] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
];

/// Where the handler writes; -1 while no relay lives.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);
/// Held by the one relay that may live at a time.
static TAKEN: Mutex<()> = Mutex::new(());

/// A signal that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Came {
    pub(crate) signal: i32,
    /// Whether a process sent it to us; the terminal's go to the whole group.
    pub(crate) is_for_us_alone: bool,
}

/// Notes signals as long as it lives; dispositions are put back at its end.
pub(crate) struct Relay {
    read_end: OwnedFd,
    _write_end: OwnedFd,
    before: Vec<(i32, libc::sigaction)>,
    _taken: Option<std::sync::MutexGuard<'static, ()>>,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

impl Relay {
    /// Starts noting signals. A second relay at the same time notes none.
    pub(crate) fn start() -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let taken = TAKEN.try_lock().ok();
        let mut before = Vec::new();
        if taken.is_some() {
            WRITE_END.store(write_end.as_raw_fd(), Ordering::Release);
            before.extend(RELAYED.iter().filter_map(|signal| note(*signal)));
        }
        Ok(Self {
            read_end,
            _write_end: write_end,
            before,
            _taken: taken,
        })
    }

    /// Readable when a signal came.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.read_end.as_fd()
    }

    /// The next signal that came, if one did.
    pub(crate) fn next(&self) -> Option<Came> {
        let mut word = [0_u8; 2];
        // Two bytes are written in one piece, and read so.
        let read = rustix::io::read(&self.read_end, &mut word).ok()?;
        let [signal, alone] = word;
        (read == word.len()).then_some(Came {
            signal: i32::from(signal),
            is_for_us_alone: alone == 1,
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: `before` is what the kernel gave for this signal; the null pointer asks for no
            // answer.
            let _done = unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
        if !self.before.is_empty() {
            WRITE_END.store(-1, Ordering::Release);
        }
    }
}

/// Installs the handler unless the signal is ignored; gives the disposition before.
fn note(signal: i32) -> Option<(i32, libc::sigaction)> {
    let before = disposition(signal)?;
    if before.sa_sigaction == libc::SIG_IGN {
        // `nohup` and background jobs of shells: the program is to inherit that.
        return None;
    }
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    // SAFETY: a `sigaction` of zeros is a valid value: default handler, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: `action` is initialised; the handler only calls `write`, which signals allow.
    let done = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    (done == 0).then_some((signal, before))
}

/// Whether the process ignores `signal`, as `nohup` has it for SIGHUP: then it is to stay so.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    disposition(signal).is_some_and(|now| now.sa_sigaction == libc::SIG_IGN)
}

/// The present disposition of `signal`.
pub(crate) fn disposition(signal: i32) -> Option<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null action changes nothing; the answer is written to `before`, which is large enough.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), before.as_mut_ptr()) };
    // SAFETY: zeros are a valid `sigaction`, and the kernel has written over them if it answered.
    (asked == 0).then(|| unsafe { before.assume_init() })
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let fd = WRITE_END.load(Ordering::Acquire);
    // SAFETY: with SA_SIGINFO the kernel hands a record that is valid during the handler.
    let code = unsafe { info.as_ref() }.map_or(libc::SI_KERNEL, |info| info.si_code);
    // 0 and below: sent by a process (kill, sigqueue, tkill). The kernel's own are positive.
    let word = [u8::try_from(signal).unwrap_or(0), u8::from(code <= 0)];
    // SAFETY: `errno` belongs to the interrupted thread, whose value is put back below.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is that thread's own, valid as long as it lives.
    let saved = unsafe { errno.read() };
    // SAFETY: two bytes of a local; a descriptor that is closed or full only gives an error.
    let _written = unsafe { libc::write(fd, word.as_ptr().cast(), word.len()) };
    // SAFETY: as for the read.
    unsafe { errno.write(saved) };
}

/// Ignores the signals that are the program's to answer; gives what they were, for [`restore`].
pub(crate) fn ignore_relayed() -> Vec<(i32, libc::sigaction)> {
    let mut before = Vec::new();
    for signal in RELAYED {
        let Some(was) = disposition(signal) else {
            continue;
        };
        // SAFETY: ignoring a signal installs no code.
        let _was = unsafe { libc::signal(signal, libc::SIG_IGN) };
        before.push((signal, was));
    }
    before
}

/// Puts dispositions back. Only system calls: fit for a child between fork and exec.
pub(crate) fn restore(before: &[(i32, libc::sigaction)]) {
    for (signal, was) in before {
        // SAFETY: `was` is what the kernel gave for this signal.
        let _done = unsafe { libc::sigaction(*signal, was, std::ptr::null_mut()) };
    }
}
