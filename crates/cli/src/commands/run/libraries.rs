//! Which GPU libraries a running program has mapped: looked at from outside, now and then.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What was seen of a program and its descendants.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Mapped files whose names are those of loaders, drivers and our layers.
    pub(super) libraries: BTreeSet<PathBuf>,
    /// Whether a process of it had no `TOWPATH_LEDGER` in its environment at its start.
    pub(super) lost_environment: bool,
}

impl Seen {
    /// The mapped files whose name begins so.
    pub(super) fn named(&self, start: &str) -> Vec<&Path> {
        let files = self.libraries.iter().map(PathBuf::as_path);
        files
            .filter(|path| file_name(path).starts_with(start))
            .collect()
    }

    fn look_at(&mut self, pid: i32) {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let files = maps
            .lines()
            .filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        let wanted = files.map(PathBuf::from).filter(|path| {
            WANTED
                .iter()
                .any(|start| file_name(path).starts_with(start))
        });
        self.libraries.extend(wanted);
        if let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) {
            let mut variables = environment.split(|byte| *byte == 0);
            let is_there = variables.any(|variable| variable.starts_with(b"TOWPATH_LEDGER="));
            // No maps: a process that is ending, whose environment is gone as well.
            self.lost_environment |= !maps.is_empty() && !is_there;
        }
    }
}

const WANTED: [&str; 6] = [
    "libOpenCL.so",
    "libvulkan.so",
    "libvirglrenderer.so",
    "libnvidia-opencl.so",
    "libtowpath_opencl_layer",
    "libtowpath_vulkan_layer",
];

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Looks at a program until it ends.
#[derive(Debug)]
pub(super) struct Watcher {
    ended: Sender<()>,
    thread: Option<JoinHandle<Seen>>,
}

/// Pauses between looks: close together at first, for programs that end soon.
const PAUSES_MS: [u64; 8] = [2, 5, 10, 20, 50, 100, 250, 500];
/// Pause after those: a look costs the program's memory map a lock of some ten microseconds.
const PAUSE_LATER: Duration = Duration::from_secs(2);

impl Watcher {
    /// Starts looking at `pid`. Without a thread nothing is seen, which is no error.
    pub(super) fn start(pid: i32) -> Self {
        let (ended, end) = channel();
        let thread = std::thread::Builder::new()
            .spawn(move || watch(pid, &end))
            .ok();
        Self { ended, thread }
    }

    /// What was seen.
    pub(super) fn end(self) -> Seen {
        // The thread may have ended already.
        let _told = self.ended.send(());
        self.thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

fn watch(pid: i32, end: &Receiver<()>) -> Seen {
    let mut seen = Seen::default();
    let pauses = PAUSES_MS.into_iter().map(Duration::from_millis);
    for pause in pauses.chain(std::iter::repeat(PAUSE_LATER)) {
        for process in family(pid) {
            seen.look_at(process);
        }
        match end.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    seen
}

/// Processes of a family that are looked at, at most.
const FAMILY_MAX: usize = 64;

/// The process and its descendants.
fn family(pid: i32) -> Vec<i32> {
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        next += 1;
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        family.extend(
            children
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
        family.truncate(FAMILY_MAX);
    }
    family
}
