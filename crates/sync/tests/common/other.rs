//! Another process with an object of ours: this test program again, told by its environment to run
//! the test `the_other_process`, with the object's descriptor as descriptor 3.
#![expect(unsafe_code, reason = "a descriptor that a parent passed by number")]
#![expect(
    clippy::disallowed_methods,
    reason = "a role is passed in the environment"
)]

use std::os::fd::{AsFd as _, AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Entry, Error, Provider as _, WaitFor};

const ROLE: &str = "TOWPATH_TEST_ROLE";

/// Starts this program again with an object.
pub(crate) fn other(role: &str, shared: &Shared, object: &Object) -> Child {
    let ticket = shared.export(object).unwrap().unwrap();
    let number = ticket.as_raw_fd();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let to_three = move || {
        // SAFETY: safe between fork and exec. 3 may be the ticket itself, which dup2 would leave
        // close-on-exec: hence the copy.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD, 10) };
        // SAFETY: as above.
        if copy < 0 || unsafe { libc::dup2(copy, 3) } != 3 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(to_three) };
    command.spawn().unwrap()
}

/// In the other process: its role and the object.
pub(crate) fn role() -> Option<(String, Shared, Object)> {
    let role = std::env::var(ROLE).ok()?;
    let shared = Shared::new();
    // SAFETY: the parent put the descriptor there.
    let ticket = unsafe { OwnedFd::from_raw_fd(3) };
    let object = shared.import(ticket.as_fd()).unwrap().unwrap();
    Some((role, shared, object))
}

pub(crate) fn wait(
    shared: &Shared,
    object: &Object,
    point: u64,
    until: Deadline,
) -> Result<(), Error> {
    let entry = Entry { object, point };
    shared
        .wait(&[entry], WaitFor::ALL.for_submit(), until)
        .map(drop)
}

pub(crate) fn in_seconds(seconds: u64) -> Deadline {
    Deadline::after(Duration::from_secs(seconds))
}
