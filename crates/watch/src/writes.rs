//! Files that are written below a folder while a program runs: how many, how large, when.
//!
//! inotify tells of files that were closed after writing and of files that were moved in. It does not tell who
//! wrote: watch folders of one program.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use towpath_measure::{Clock as _, MonotonicClock, Nanos};

// The kernel joins an event with the one before it if both are equal and not read yet: a file that is written
// twice within microseconds and nothing else between may count once.

/// One write of one file, told when it was closed or moved into its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileWrite {
    /// When, by the monotonic clock.
    pub at: Nanos,
    /// Which file.
    pub path: PathBuf,
    /// Its length then, in bytes; `None` if it was gone already.
    pub bytes: Option<u64>,
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// Every write, in order.
    pub writes: Vec<FileWrite>,
    /// Whether the kernel's queue overflowed: there were more.
    pub is_incomplete: bool,
}

impl Writes {
    /// Sum of the files' lengths at each write, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lengths = self.writes.iter().filter_map(|write| write.bytes);
        lengths.fold(0, u64::saturating_add)
    }
}

/// Watches folders until it is ended.
#[derive(Debug)]
pub struct WriteWatch {
    // Closing it ends the thread.
    end: Option<OwnedFd>,
    thread: Option<JoinHandle<Writes>>,
}

impl WriteWatch {
    /// Starts watching `folders` and everything below them, new folders too.
    ///
    /// # Cost
    ///
    /// One thread, one watch per folder; nothing for the program.
    ///
    /// # Errors
    ///
    /// What the kernel answered for a folder of `folders`; limits of watches among it.
    pub fn start(folders: &[PathBuf]) -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut tree = Tree {
            queue,
            folders: BTreeMap::new(),
            writes: Writes::default(),
        };
        for folder in folders {
            tree.add(folder)?;
        }
        let (ended, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new().spawn(move || tree.watch(&ended))?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// What was written since the start; nothing that was told before this call is missed.
    #[must_use]
    pub fn end(mut self) -> Writes {
        drop(self.end.take());
        self.thread
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

struct Tree {
    queue: OwnedFd,
    folders: BTreeMap<i32, PathBuf>,
    writes: Writes,
}

/// Folders below each other are watched to this depth; links are not followed.
const DEPTH_MAX: usize = 32;

impl Tree {
    fn add(&mut self, folder: &Path) -> io::Result<()> {
        let wanted = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::CREATE;
        let id = inotify::add_watch(&self.queue, folder, wanted | WatchFlags::ONLYDIR)?;
        self.folders.insert(id, folder.to_owned());
        if folder.components().count() > DEPTH_MAX {
            return Ok(());
        }
        for entry in fs::read_dir(folder)?.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // A folder that goes meanwhile is no error.
                let _added = self.add(&entry.path());
            }
        }
        Ok(())
    }

    fn watch(mut self, ended: &OwnedFd) -> Writes {
        loop {
            let has_ended = {
                let mut fds = [
                    PollFd::new(&self.queue, PollFlags::IN),
                    PollFd::new(ended, PollFlags::IN),
                ];
                // Interrupted: look again.
                let _ready = poll(&mut fds, None);
                let [_, end] = fds;
                !end.revents().is_empty()
            };
            self.read_all();
            if has_ended {
                return self.writes;
            }
        }
    }

    fn read_all(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Vec::new();
        let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            events.push((event.wd(), event.events(), name.unwrap_or_default()));
        }
        for (folder, flags, name) in events {
            self.note(folder, flags, &name);
        }
    }

    fn note(&mut self, folder: i32, flags: ReadFlags, name: &[u8]) {
        self.writes.is_incomplete |= flags.contains(ReadFlags::QUEUE_OVERFLOW);
        let Some(folder) = self.folders.get(&folder) else {
            return;
        };
        let path = folder.join(std::ffi::OsStr::from_bytes(name));
        if flags.contains(ReadFlags::ISDIR) {
            if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                self.adopt(&path);
            }
            return;
        }
        if flags.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
            self.written(path);
        }
    }

    /// Watches a new folder. What was written into it before the watch is counted as it is now.
    fn adopt(&mut self, folder: &Path) {
        if self.add(folder).is_err() {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                self.written(entry.path());
            }
        }
    }

    fn written(&mut self, path: PathBuf) {
        let bytes = fs::symlink_metadata(&path).ok().map(|meta| meta.len());
        self.writes.writes.push(FileWrite {
            at: MonotonicClock.now(),
            path,
            bytes,
        });
    }
}
