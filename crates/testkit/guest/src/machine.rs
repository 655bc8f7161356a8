//! One boot of one guest.

use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{Error, Initrd, Kernel, KernelFiles, Result, at, init_program, tail};

/// A guest that is set up but does not run yet.
#[derive(Clone, Debug)]
pub struct Machine {
    kernel: Kernel,
    program: Option<PathBuf>,
    args: Vec<String>,
    modules: Vec<String>,
    files: Vec<(String, PathBuf)>,
    memory_mib: u32,
    huge_pages: u32,
    cpus: u32,
    timeout: Duration,
}

/// What a guest left behind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The program's exit code; `None` if a signal or the guest's end took it.
    pub exit: Option<i32>,
    /// What the program wrote to standard output and standard error.
    pub output: String,
    /// The kernel's console.
    pub console: String,
    /// The kernel's release.
    pub release: String,
    /// The guest's uptime when the program started.
    pub booted: Option<Duration>,
    /// Wall time from starting QEMU to its end.
    pub wall: Duration,
}

impl Machine {
    /// A guest with 512 MiB, two processors, a virtio GPU and vgem.
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            program: None,
            args: Vec::new(),
            modules: MODULES.iter().map(|&name| name.to_owned()).collect(),
            files: Vec::new(),
            memory_mib: 512,
            huge_pages: 0,
            cpus: 2,
            timeout: Duration::from_mins(3),
        }
    }

    /// The static program to run.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Its arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The modules to load, in this order; one that the kernel has built in is skipped.
    #[must_use]
    pub fn modules<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.modules = names.into_iter().map(Into::into).collect();
        self
    }

    /// A file of the host to find in the guest at `name` (no leading slash, in the root folder).
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.files.push((name.into(), path.into()));
        self
    }

    /// The guest's memory in MiB.
    #[must_use]
    pub const fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Huge pages of 2 MiB to reserve at boot.
    #[must_use]
    pub const fn huge_pages(mut self, count: u32) -> Self {
        self.huge_pages = count;
        self
    }

    /// Processors of the guest.
    #[must_use]
    pub const fn cpus(mut self, count: u32) -> Self {
        self.cpus = count;
        self
    }

    /// How long the guest may run before it is killed; 180 s if not said.
    #[must_use]
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Boots the guest, runs the program and waits for the guest's end.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if it does not end; [`Error::File`] or [`Error::Program`] if the kernel, the
    /// programs or QEMU cannot be had. A program that fails is no error: see [`Report::exit`].
    pub fn run(&self) -> Result<Report> {
        let kernel = self.kernel.fetch()?;
        let folder = tempfile::tempdir().map_err(at(std::env::temp_dir()))?;
        let initrd = folder.path().join("initrd");
        fs::write(&initrd, self.initrd(&kernel)?).map_err(at(&initrd))?;

        let start = Instant::now();
        let mut child = self
            .qemu(&kernel, folder.path())
            .spawn()
            .map_err(at("qemu-system-x86_64"))?;
        let ended = wait(&mut child, self.timeout);
        let wall = start.elapsed();
        let console = read_lossy(&folder.path().join("console"));
        if !ended {
            return Err(Error::Timeout {
                seconds: self.timeout.as_secs(),
                console: tail(&console, 2000),
            });
        }
        let error = read_lossy(&folder.path().join("error"));
        if console.is_empty() && !error.is_empty() {
            return Err(Error::Program {
                program: "qemu-system-x86_64".into(),
                text: error,
            });
        }
        let results = read_lossy(&folder.path().join("results"));
        Ok(Report::parse(&results, console, kernel.release, wall))
    }

    fn qemu(&self, kernel: &KernelFiles, folder: &Path) -> Command {
        let mut command = Command::new("qemu-system-x86_64");
        let serial = |name: &str| {
            let mut text = OsString::from("file:");
            text.push(folder.join(name));
            text
        };
        command
            .args(["-accel", "tcg,thread=multi", "-cpu", "max"])
            .args(["-m", &self.memory_mib.to_string()])
            .args(["-smp", &self.cpus.to_string()])
            .args(["-vga", "none", "-device", "virtio-gpu-pci"])
            .args([
                "-nic",
                "none",
                "-display",
                "none",
                "-no-reboot",
                "-no-user-config",
            ])
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(folder.join("initrd"))
            .args(["-append", &self.command_line()])
            .arg("-serial")
            .arg(serial("console"))
            .arg("-serial")
            .arg(serial("results"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // A message of QEMU's own must not mix with the tests' output.
        match fs::File::create(folder.join("error")) {
            Ok(file) => command.stderr(file),
            Err(_unwritable) => command.stderr(Stdio::null()),
        };
        command
    }

    fn command_line(&self) -> String {
        let huge = self.huge_pages;
        format!(
            "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr no_timer_check hugepages={huge}"
        )
    }

    fn initrd(&self, kernel: &KernelFiles) -> Result<Vec<u8>> {
        let mut initrd = Initrd::new();
        for folder in ["dev", "proc", "sys", "tmp", "modules"] {
            initrd.folder(folder);
        }
        initrd.host_file("init", &init_program()?)?;
        let mut list = Vec::new();
        for name in &self.modules {
            let Some(path) = kernel.module(name) else {
                continue;
            };
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let inside = format!("modules/{file}");
            initrd.host_file(&inside, &path)?;
            list.push(format!("/{inside}"));
        }
        initrd.file("modules.list", list.join("\n").as_bytes());
        if let Some(program) = &self.program {
            initrd.host_file("program", program)?;
        }
        initrd.file("program.args", self.args.join("\0").as_bytes());
        for (name, path) in &self.files {
            initrd.host_file(name, path)?;
        }
        Ok(initrd.finish())
    }
}

impl Report {
    fn parse(results: &str, console: String, release: String, wall: Duration) -> Self {
        let mut output = String::new();
        let mut exit = None;
        let mut booted = None;
        for line in results.lines() {
            let line = line.trim_end_matches('\r');
            if let Some(code) = line.strip_prefix("@towpath-exit ") {
                exit = code.trim().parse().ok();
            } else if let Some(uptime) = line.strip_prefix("@towpath-start ") {
                booted = uptime.trim().parse().ok().map(Duration::from_secs_f64);
            } else {
                output.push_str(line);
                output.push('\n');
            }
        }
        Self {
            exit,
            output,
            console,
            release,
            booted,
            wall,
        }
    }

    /// Whether the program ended with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit == Some(0)
    }

    /// The rest of the first line of output that starts with `key` and a blank.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.output.lines().find_map(|line| {
            let rest = line.strip_prefix(key)?;
            rest.strip_prefix(' ')
        })
    }
}

/// Waits for the child; kills it after `limit` and says `false`.
fn wait(child: &mut Child, limit: Duration) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let ended = pid
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .is_some_and(|pidfd| {
            let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
            let limit = limit.try_into().ok();
            matches!(poll(&mut fds, limit.as_ref()), Ok(1))
        });
    if !ended {
        // The child may have ended by itself in between: both calls then say so harmlessly.
        let _already_gone = child.kill();
    }
    let _status = child.wait();
    ended
}

fn read_lossy(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// In this order, since nothing in the guest knows what depends on what. The virtio bus is built into
/// 6.12 and a set of modules in 6.1.
const MODULES: [&str; 11] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "drm",
    "drm_kms_helper",
    "drm_shmem_helper",
    "virtio_dma_buf",
    "virtio-gpu",
    "vgem",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_taken_out_of_the_output() {
        let text = "@towpath-start 3.25\r\nok a\r\nvalue 7\r\n@towpath-exit 3\r\n";
        let report = Report::parse(text, String::new(), String::new(), Duration::ZERO);
        assert_eq!(report.exit, Some(3));
        assert_eq!(report.output, "ok a\nvalue 7\n");
        assert_eq!(report.value("value"), Some("7"));
        assert_eq!(report.booted, Some(Duration::from_millis(3250)));
        assert!(!report.is_success());
    }

    #[test]
    fn a_guest_that_died_has_no_exit_code() {
        let report = Report::parse(
            "@towpath-start 3\nok a\n",
            String::new(),
            String::new(),
            Duration::ZERO,
        );
        assert_eq!(report.exit, None);
    }
}
