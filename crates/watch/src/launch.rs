//! The launcher's side: starts the supervisor, waits for its report, passes signals on.

#![expect(
    unsafe_code,
    reason = "a descriptor is let through exec in the forked child"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::protocol::{self, Report};
use crate::signals::Relay;
use crate::{Command, Error, Exit, Input, Output};

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    command: Command,
    supervisor: Child,
    reports: Lines,
    relay: Relay,
    pid: i32,
    /// Names the program even after its id went to another; absent on kernels before 5.3.
    pidfd: Option<OwnedFd>,
    deadline: Option<Instant>,
    timed_out: bool,
    interrupted_by: Option<i32>,
    /// Signals for the program that came before its id was known.
    early: Vec<i32>,
}

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Starts the program and waits until it is executed or has failed to be.
pub(crate) fn start(command: &Command) -> Result<Running, Error> {
    let failed = |operation| {
        let supervisor = command.supervisor.program.clone();
        move |source: io::Error| Error::Supervisor {
            operation,
            supervisor,
            source,
        }
    };
    let relay = Relay::start().map_err(failed("note signals for"))?;
    let (read_end, write_end) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed("make a pipe to")(errno.into()))?;
    let mut starter = starter(command, &write_end)?;
    let supervisor = starter.spawn().map_err(failed("start"))?;
    drop(write_end);
    let mut running = Running {
        command: command.clone(),
        supervisor,
        reports: Lines::new(read_end),
        relay,
        pid: 0,
        pidfd: None,
        deadline: command.timeout.map(|limit| Instant::now() + limit),
        timed_out: false,
        interrupted_by: None,
        early: Vec::new(),
    };
    match running.next_report()? {
        Report::Started(pid) => {
            running.pid = pid;
            running.pidfd =
                Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            for signal in std::mem::take(&mut running.early) {
                running.signal(signal);
            }
            Ok(running)
        }
        Report::Failed(errno) => {
            let _reaped = running.supervisor.wait();
            Err(Error::of_exec(command.program.clone(), errno))
        }
        Report::Ended(_) => Err(running.lost()),
    }
}

/// The supervisor's own start: our environment, the program's folder and streams.
fn starter(command: &Command, report: &OwnedFd) -> Result<std::process::Command, Error> {
    let fd = report.as_raw_fd();
    let mut starter = std::process::Command::new(&command.supervisor.program);
    starter.args(protocol::order(command, fd));
    if let Some(folder) = &command.folder {
        starter.current_dir(folder);
    }
    starter.stdin(match command.stdin {
        Input::Inherit => Stdio::inherit(),
        Input::Null => Stdio::null(),
    });
    let (stdout, stderr) = outputs(command)?;
    starter.stdout(stdout).stderr(stderr);
    let let_through = move || {
        // SAFETY: the descriptor is open: the parent closes its end only after the spawn.
        let report = unsafe { BorrowedFd::borrow_raw(fd) };
        rustix::io::fcntl_setfd(report, rustix::io::FdFlags::empty()).map_err(io::Error::from)
    };
    // SAFETY: the closure makes one system call and touches no memory of the parent.
    unsafe { starter.pre_exec(let_through) };
    Ok(starter)
}

fn outputs(command: &Command) -> Result<(Stdio, Stdio), Error> {
    let open = |to: &Output| match to {
        Output::Inherit => Ok(Stdio::inherit()),
        Output::Null => Ok(Stdio::null()),
        Output::File(path) => create(path).map(Stdio::from),
    };
    if let (Output::File(out), Output::File(err)) = (&command.stdout, &command.stderr)
        && out == err
    {
        let file = create(out)?;
        let same = file.try_clone().map_err(|source| Error::Output {
            path: out.clone(),
            source,
        })?;
        return Ok((file.into(), same.into()));
    }
    Ok((open(&command.stdout)?, open(&command.stderr)?))
}

fn create(path: &Path) -> Result<File, Error> {
    // Appending: two streams of one file never write over each other.
    let emptied = File::create(path);
    emptied
        .and_then(|_emptied| OpenOptions::new().append(true).open(path))
        .map_err(|source| Error::Output {
            path: path.to_owned(),
            source,
        })
}

impl Running {
    /// The program's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends `signal` to the program.
    pub fn signal(&self, signal: i32) {
        send(self.pidfd.as_ref(), self.pid, signal);
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    ///
    /// [`Error::SupervisorLost`] if the supervisor was killed.
    pub fn wait(mut self) -> Result<Exit, Error> {
        let report = self.next_report()?;
        // The report is the last thing that the supervisor does.
        let _reaped = self.supervisor.wait();
        match report {
            Report::Ended(mut exit) => {
                exit.timed_out = self.timed_out;
                exit.interrupted_by = self.interrupted_by;
                Ok(*exit)
            }
            Report::Started(_) | Report::Failed(_) => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        Error::SupervisorLost {
            program: self.command.program.clone(),
        }
    }

    /// Waits for a line, passing signals on and ending the program when its time is up.
    fn next_report(&mut self) -> Result<Report, Error> {
        loop {
            if let Some(line) = self.reports.take_line() {
                return Report::parse(&line).ok_or_else(|| self.lost());
            }
            match self.wait_for_something() {
                Something::Report if !self.reports.fill() => {
                    let _reaped = self.supervisor.wait();
                    return Err(self.lost());
                }
                Something::Report | Something::Nothing => {}
                Something::Signal => self.pass_on(),
                Something::TimeUp => self.end_in_time(),
            }
        }
    }

    fn wait_for_something(&self) -> Something {
        let left = self.deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            })
        });
        let relay = self.relay.fd();
        let mut fds = [
            PollFd::new(&self.reports.file, PollFlags::IN),
            PollFd::from_borrowed_fd(relay, PollFlags::IN),
        ];
        match poll(&mut fds, left.as_ref()) {
            Ok(0) => Something::TimeUp,
            Ok(_) => {
                let [reports, signals] = fds;
                match (signals.revents().is_empty(), reports.revents().is_empty()) {
                    (false, _) => Something::Signal,
                    (true, false) => Something::Report,
                    (true, true) => Something::Nothing,
                }
            }
            // Interrupted by a signal without a handler of ours: look again.
            Err(_interrupted) => Something::Nothing,
        }
    }

    fn pass_on(&mut self) {
        while let Some(came) = self.relay.next() {
            self.interrupted_by.get_or_insert(came.signal);
            match came.is_for_us_alone {
                true if self.pid == 0 => self.early.push(came.signal),
                true => self.signal(came.signal),
                false => {}
            }
        }
    }

    fn end_in_time(&mut self) {
        let signal = if self.timed_out {
            libc::SIGKILL
        } else {
            libc::SIGTERM
        };
        self.timed_out = true;
        self.deadline = Some(Instant::now() + GRACE);
        if self.pid != 0 {
            self.signal(signal);
        }
    }
}

enum Something {
    Report,
    Signal,
    TimeUp,
    Nothing,
}

fn send(pidfd: Option<&OwnedFd>, pid: i32, signal: i32) {
    // A program that has ended meanwhile is no error.
    match (pidfd, Signal::from_named_raw(signal), Pid::from_raw(pid)) {
        (Some(fd), Some(signal), _) => {
            let _sent = pidfd_send_signal(fd, signal);
        }
        (None, Some(signal), Some(pid)) => {
            let _sent = rustix::process::kill_process(pid, signal);
        }
        _ => {}
    }
}

/// Lines of the report, as they come.
#[derive(Debug)]
struct Lines {
    file: File,
    pending: Vec<u8>,
}

impl Lines {
    fn new(read_end: OwnedFd) -> Self {
        Self {
            file: read_end.into(),
            pending: Vec::new(),
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.pending.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Reads what there is; false at the end.
    fn fill(&mut self) -> bool {
        let mut piece = [0_u8; 1024];
        match self.file.read(&mut piece) {
            Ok(0) => false,
            Ok(read) => {
                self.pending
                    .extend_from_slice(piece.get(..read).unwrap_or_default());
                true
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }
}
