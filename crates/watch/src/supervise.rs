//! The supervisor: a small process between towpath and the program.
//!
//! It starts the program, adopts what the program leaves behind, adds up what all of them used, and
//! reports it over a pipe. It is small because the kernel counts the peak memory of whoever calls
//! exec as the program's own.
//!
//! Signals of the terminal are the program's to answer: the supervisor ignores them, and the program
//! gets them as they were when towpath was started.

#![expect(
    unsafe_code,
    reason = "wait4 with resource usage, and signals between fork and exec"
)]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use towpath_measure::{Clock as _, MonotonicClock, Nanos};

use crate::protocol::{Order, Report, parse_order};
use crate::{DiskIo, End, Exit, Known, signals};

/// Becomes the supervisor if this process was started as one, and gives its exit code at the end.
///
/// A program that watches others calls it first of all in `main`, before anything grows.
#[must_use]
pub fn enter_if_asked() -> Option<ExitCode> {
    let order = parse_order(std::env::args_os().skip(1))?;
    Some(match supervise(&order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_nobody_listens) => ExitCode::FAILURE,
    })
}

fn supervise(order: &Order) -> io::Result<()> {
    let mut report = report_pipe(order.report_fd)?;
    // Best effort: without it, what the program leaves behind is not counted.
    let _adopts = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
    let before = signals::ignore_relayed();
    let io_before = disk_io();
    let start = MonotonicClock.now();
    let pid = match start_program(order, before) {
        Ok(pid) => pid,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            return report.write_all(Report::Failed(errno).line().as_bytes());
        }
    };
    report.write_all(Report::Started(pid).line().as_bytes())?;
    let exit = watch(order, pid, start, io_before);
    report.write_all(Report::Ended(Box::new(exit)).line().as_bytes())
}

/// Takes the pipe over and keeps it from the program.
fn report_pipe(fd: i32) -> io::Result<File> {
    // SAFETY: the launcher opened this descriptor for us alone; standard streams are never it.
    let pipe = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&pipe, rustix::io::FdFlags::CLOEXEC)?;
    Ok(pipe.into())
}

fn start_program(order: &Order, before: Vec<(i32, libc::sigaction)>) -> io::Result<i32> {
    let mut program = std::process::Command::new(&order.program);
    program.args(&order.args);
    for (name, value) in &order.environment {
        match value {
            Some(value) => program.env(name, value),
            None => program.env_remove(name),
        };
    }
    let put_back = move || {
        signals::restore(&before);
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { program.pre_exec(put_back) };
    let child = program.spawn()?;
    i32::try_from(child.id()).map_err(io::Error::other)
}

/// Waits for the program, counting in what it left behind.
fn watch(order: &Order, pid: i32, start: Nanos, io_before: Known<DiskIo>) -> Exit {
    let mut used = Used::default();
    let mut end = End::Signal(libc::SIGKILL);
    let mut run_queue_wait = Known::Unavailable("the program was not seen ending".to_owned());
    while let Some(next) = next_zombie() {
        if next == pid {
            run_queue_wait = queue_wait(pid);
        }
        let Some((status, usage)) = reap(next, 0) else {
            break;
        };
        used.add(&usage);
        if next == pid {
            end = end_of(status);
            break;
        }
    }
    let wall = MonotonicClock.now().since(start);
    let left_running = leftovers(order.ends_leftovers, &mut used);
    let disk = difference(io_before, disk_io());
    used.into_exit(end, wall, disk, run_queue_wait, left_running)
}

/// Waits until a child has ended, and leaves it unreaped so that its files can be read.
fn next_zombie() -> Option<i32> {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: the kernel writes one `siginfo_t` to `info`.
        let answer = unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) };
        if answer == 0 {
            // SAFETY: zeros are a valid `siginfo_t`, and the kernel has written over them.
            let info = unsafe { info.assume_init() };
            // SAFETY: `waitid` fills in the fields of a child's record.
            return Some(unsafe { info.si_pid() });
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Reaps `pid` (-1: any child) and gives its status and what it used.
fn reap(pid: i32, flags: i32) -> Option<(i32, libc::rusage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes the status and one `rusage`.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, flags, usage.as_mut_ptr()) };
    // SAFETY: zeros are a valid `rusage`, and the kernel has written over them if it reaped one.
    (reaped > 0).then(|| (status, unsafe { usage.assume_init() }))
}

fn end_of(status: i32) -> End {
    if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Code(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    }
}

/// Reaps what has ended; counts, and on request ends, what runs on. New orphans may come as their
/// parents die, so that this goes on until no child is left.
fn leftovers(ends_them: bool, used: &mut Used) -> u64 {
    while let Some((_, usage)) = reap(-1, libc::WNOHANG) {
        used.add(&usage);
    }
    let left = children();
    let mut running = if ends_them { left.clone() } else { Vec::new() };
    while !running.is_empty() {
        for child in &running {
            if let Some(child) = rustix::process::Pid::from_raw(*child) {
                let _sent = rustix::process::kill_process(child, rustix::process::Signal::KILL);
            }
        }
        // Killed, so that this does not wait for long.
        for (_, usage) in running.iter().filter_map(|child| reap(*child, 0)) {
            used.add(&usage);
        }
        running = children();
    }
    u64::try_from(left.len()).unwrap_or(u64::MAX)
}

/// Our children, by the kernel's list or, where it has none, by everybody's parent.
fn children() -> Vec<i32> {
    let me = std::process::id();
    let list = fs::read_to_string(format!("/proc/{me}/task/{me}/children"));
    if let Ok(list) = list {
        return list
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            fields.split_ascii_whitespace().nth(1) == Some(me.to_string().as_str())
        })
        .collect()
}

/// Sums over the program and what was reaped.
#[derive(Default)]
struct Used {
    user: Nanos,
    sys: Nanos,
    minor_faults: u64,
    major_faults: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    max_rss_bytes: u64,
}

impl Used {
    fn add(&mut self, usage: &libc::rusage) {
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let time = |time: libc::timeval| {
            let micros = count(time.tv_sec).saturating_mul(1_000_000);
            Nanos::from_micros(micros.saturating_add(count(time.tv_usec)))
        };
        self.user += time(usage.ru_utime);
        self.sys += time(usage.ru_stime);
        self.minor_faults += count(usage.ru_minflt);
        self.major_faults += count(usage.ru_majflt);
        self.voluntary_switches += count(usage.ru_nvcsw);
        self.involuntary_switches += count(usage.ru_nivcsw);
        // The kernel counts it in KiB.
        let rss = count(usage.ru_maxrss).saturating_mul(1024);
        self.max_rss_bytes = self.max_rss_bytes.max(rss);
    }

    fn into_exit(
        self,
        end: End,
        wall: Nanos,
        disk: Known<DiskIo>,
        run_queue_wait: Known<Nanos>,
        left_running: u64,
    ) -> Exit {
        Exit {
            end,
            timed_out: false,
            interrupted_by: None,
            wall,
            user: self.user,
            sys: self.sys,
            minor_faults: self.minor_faults,
            major_faults: self.major_faults,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
            max_rss_bytes: self.max_rss_bytes,
            disk,
            run_queue_wait,
            left_running,
        }
    }
}

/// Our own counters, to which reaped children are added.
fn disk_io() -> Known<DiskIo> {
    match fs::read_to_string("/proc/self/io") {
        Ok(text) => parse_io(&text),
        Err(error) => Known::Unavailable(format!("/proc/self/io: {error}")),
    }
}

fn parse_io(text: &str) -> Known<DiskIo> {
    let field = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(found, _)| *found == name)
            .find_map(|(_, number)| number.trim().parse().ok())
    };
    match (
        field("read_bytes"),
        field("write_bytes"),
        field("cancelled_write_bytes"),
    ) {
        (Some(read_bytes), Some(write_bytes), Some(cancelled_bytes)) => Known::Value(DiskIo {
            read_bytes,
            write_bytes,
            cancelled_bytes,
        }),
        _ => Known::Unavailable("/proc/self/io has other fields".to_owned()),
    }
}

fn difference(before: Known<DiskIo>, after: Known<DiskIo>) -> Known<DiskIo> {
    match (before, after) {
        (Known::Value(before), Known::Value(after)) => Known::Value(DiskIo {
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
            cancelled_bytes: after.cancelled_bytes.saturating_sub(before.cancelled_bytes),
        }),
        (Known::Unavailable(reason), _) | (_, Known::Unavailable(reason)) => {
            Known::Unavailable(reason)
        }
    }
}

/// Run-queue wait of the main thread of a zombie, which still has its `schedstat`.
fn queue_wait(pid: i32) -> Known<Nanos> {
    let path = format!("/proc/{pid}/schedstat");
    match fs::read_to_string(&path) {
        Ok(text) => text
            .split_ascii_whitespace()
            .nth(1)
            .and_then(|number| number.parse().ok())
            .map_or_else(
                || Known::Unavailable(format!("{path} has another form")),
                |wait| Known::Value(Nanos(wait)),
            ),
        Err(error) => Known::Unavailable(format!("{path}: {error}")),
    }
}
