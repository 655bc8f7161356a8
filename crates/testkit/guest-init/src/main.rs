//! Process number 1 of the test guest: mounts, loads modules, runs one program, powers off.
//!
//! What the program prints goes to the second serial line, between `@towpath-start UPTIME` and
//! `@towpath-exit CODE`. Complaints of this program go to the console.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

fn main() {
    for (source, target, kind) in MOUNTS {
        let made = fs::create_dir_all(target)
            .and_then(|()| Ok(mount(source, target, kind, MountFlags::empty(), None)?));
        complain(target, made);
    }
    let list = fs::read_to_string("/modules.list").unwrap_or_default();
    for path in list.lines() {
        complain(path, load(path));
    }
    complain("results", run());
    complain(
        "reboot",
        reboot(RebootCommand::PowerOff).map_err(Into::into),
    );
}

/// Runs `/program` with the second serial line as its output.
fn run() -> io::Result<()> {
    let mut serial = OpenOptions::new().write(true).open("/dev/ttyS1")?;
    let mut mode = tcgetattr(&serial)?;
    mode.make_raw();
    tcsetattr(&serial, OptionalActions::Now, &mode)?;

    let uptime = fs::read_to_string("/proc/uptime")?;
    let seconds = uptime.split(' ').next().unwrap_or_default();
    writeln!(serial, "@towpath-start {seconds}")?;
    let args = fs::read("/program.args")?;
    let args = args
        .split(|&byte| byte == 0)
        .filter(|arg| !arg.is_empty())
        .map(OsStr::from_bytes);
    let status = Command::new("/program")
        .args(args)
        .stdin(Stdio::null())
        .stdout(serial.try_clone()?)
        .stderr(serial.try_clone()?)
        .status();
    match status {
        Ok(status) => match status.code() {
            Some(code) => writeln!(serial, "\n@towpath-exit {code}")?,
            None => writeln!(serial, "\n{status}")?,
        },
        Err(error) => writeln!(serial, "cannot start the program: {error}")?,
    }
    Ok(tcdrain(&serial)?)
}

fn load(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let is_compressed = Path::new(path).extension().is_some_and(|end| end == "xz");
    let flags = if is_compressed { COMPRESSED } else { 0 };
    Ok(finit_module(&file, c"", flags)?)
}

#[expect(clippy::print_stderr, reason = "the guest's console is the only place")]
fn complain(what: &str, outcome: io::Result<()>) {
    if let Err(error) = outcome {
        eprintln!("towpath-guest-init: {what}: {error}");
    }
}

/// `MODULE_INIT_COMPRESSED_FILE`: the kernel unpacks the module itself.
const COMPRESSED: i32 = 4;

const MOUNTS: [(&str, &str, &str); 6] = [
    ("proc", "/proc", "proc"),
    ("sysfs", "/sys", "sysfs"),
    ("devtmpfs", "/dev", "devtmpfs"),
    ("tmpfs", "/dev/shm", "tmpfs"),
    ("tmpfs", "/tmp", "tmpfs"),
    ("debugfs", "/sys/kernel/debug", "debugfs"),
];
