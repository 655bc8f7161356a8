//! Helper threads inside a process that is not ours.

use std::io;

use towpath_memory::threads::BlockedSignals;

/// Starts a thread that takes no signal but for what it does itself: the program's handlers run on the
/// program's threads.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _blocked = BlockedSignals::block();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(body).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A sandbox may serve system calls on SIGSYS; blocked, the first of them would end the process.
    #[test]
    fn a_quiet_thread_takes_only_the_signals_that_it_causes() {
        let (tell, told) = mpsc::channel();
        spawn("quiet", move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            tell.send(status).unwrap();
        })
        .unwrap();
        let status = told.recv().unwrap();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:"))
            .unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        let is_blocked = |signal: libc::c_int| mask >> (signal - 1) & 1 == 1;
        assert!(is_blocked(libc::SIGUSR1) && is_blocked(libc::SIGTERM));
        assert!(!is_blocked(libc::SIGSYS) && !is_blocked(libc::SIGSEGV));
    }
}
