//! The real disk: one folder of this user, opened once and never by path again.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use towpath_sys::process::above_standard;

use super::{Bytes, Disk, Pace, Pacer, Pressure, SyncTarget, kernel, map};
use crate::bytes::len64;
use crate::error::{Error, Operation, Result};

/// Step in which data is handed to the kernel: a quarter of the window.
const STEP: usize = 1 << 20;

/// What a [`Folder`] did, for tests and reports. Counts only this object's work.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct IoCounts {
    /// Bytes appended.
    pub bytes_written: u64,
    /// Calls of fdatasync and fsync.
    pub syncs: u64,
    /// Files mapped.
    pub maps: u64,
    /// The most bytes that were with the kernel but not with the disk.
    pub in_flight_bytes_max: u64,
}

/// A folder that belongs to this user and that nobody else may write.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: OwnedFd,
    held: Mutex<HashMap<String, Held>>,
    pacer: Mutex<Pacer>,
    started: Instant,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
    maps: AtomicU64,
    in_flight_max: AtomicU64,
}

/// A file that this process created or claimed; its flock lives as long as the descriptor.
#[derive(Debug)]
struct Held {
    file: File,
    len: u64,
    /// Up to where the disk has the data, as far as the window knows.
    written_out: u64,
}

impl Folder {
    /// Opens the folder, making it (and missing parents) with mode 0700.
    ///
    /// # Errors
    ///
    /// - [`Error::InTheWay`]: a link, a file, another user's folder, or one that others may write.
    /// - [`Error::File`]: the kernel's answer, such as a path that is too long.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        if let Err(error) = std::fs::symlink_metadata(path)
            && error.kind() == io::ErrorKind::NotFound
        {
            make(path).map_err(Error::file(Operation::Create, &name))?;
        }
        Self::existing(path)
    }

    /// Opens a folder that must be there; makes nothing.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn existing(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let handle = fs::open(path, flags, Mode::empty()).map_err(|code| match code {
            rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => Error::InTheWay {
                name: name.clone(),
                reason: "it is not a folder".to_owned(),
            },
            other => Error::file(Operation::List, &name)(other.into()),
        })?;
        let handle = above_standard(handle).map_err(Error::file(Operation::List, &name))?;
        let stat =
            fs::fstat(&handle).map_err(|code| Error::file(Operation::List, &name)(code.into()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            let reason = format!("it belongs to user {}", stat.st_uid);
            return Err(Error::InTheWay { name, reason });
        }
        if stat.st_mode & 0o022 != 0 {
            let reason = format!("others may write it (mode {:o})", stat.st_mode & 0o7777);
            return Err(Error::InTheWay { name, reason });
        }
        Ok(Self {
            path: path.to_owned(),
            handle,
            held: Mutex::new(HashMap::new()),
            pacer: Mutex::new(Pacer::new(Pace::PROMPT)),
            started: Instant::now(),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            maps: AtomicU64::new(0),
            in_flight_max: AtomicU64::new(0),
        })
    }

    /// Sets how fast [`Disk::append`] may write from now on; it then sleeps in the calling thread.
    pub fn set_pace(&self, pace: Pace) {
        *lock(&self.pacer) = Pacer::new(pace);
    }

    /// What this object did so far.
    #[must_use]
    pub fn counts(&self) -> IoCounts {
        // Relaxed: plain counters, read for reports.
        IoCounts {
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            maps: self.maps.load(Ordering::Relaxed),
            in_flight_bytes_max: self.in_flight_max.load(Ordering::Relaxed),
        }
    }

    /// The folder's path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file of ours; a FIFO, link, device or another user's file is `InvalidInput`.
    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // NONBLOCK: a FIFO in the way must not stop the program.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?;
        let file = File::from(above_standard(opened)?);
        let stat = fs::fstat(&file)?;
        let regular = fs::FileType::from_raw_mode(stat.st_mode).is_file();
        if !regular || stat.st_uid != rustix::process::geteuid().as_raw() {
            let text = format!("{name} is not a regular file of this user");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(file)
    }

    fn wait_turn(&self, bytes: u64) {
        let delay = {
            let mut pacer = lock(&self.pacer);
            if pacer.pace().bytes_per_second_max.is_none() {
                return;
            }
            let pressure = if pacer.pace().heeds_pressure {
                Pressure::now()
            } else {
                Pressure(0)
            };
            pacer.delay(self.started.elapsed(), bytes, pressure)
        };
        std::thread::sleep(delay);
    }

    /// Writes one step and keeps what is in flight within the window.
    fn append_step(&self, held: &mut Held, bytes: &[u8], window: u64) -> io::Result<()> {
        use std::io::Write as _;
        held.file.write_all(bytes)?;
        held.len += len64(bytes.len());
        self.bytes_written
            .fetch_add(len64(bytes.len()), Ordering::Relaxed);
        let waiting = held.len - held.written_out;
        self.in_flight_max.fetch_max(waiting, Ordering::Relaxed);
        if waiting + len64(STEP) > window {
            // Fails on file systems without it; the sync at the end then does all the work.
            let _best_effort =
                kernel::write_out(held.file.as_fd(), held.written_out, waiting, true);
            held.written_out = held.len;
        }
        Ok(())
    }
}

/// Asks the kernel to fetch a segment's header and index, without waiting: they are looked at next.
fn ask_for_ends(file: &File) {
    const HEAD_BYTES: u64 = 4096;
    const TAIL_BYTES: u64 = 192 << 10;
    let len = file.metadata().map_or(0, |meta| meta.len());
    let ranges = [
        (0, HEAD_BYTES),
        (len.saturating_sub(TAIL_BYTES), TAIL_BYTES),
    ];
    for (start, bytes) in ranges {
        // Only a hint.
        let _slower = fs::fadvise(file, start, NonZeroU64::new(bytes), fs::Advice::WillNeed);
    }
}

/// Makes a folder and its missing parents with mode 0700.
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Locks without regard to a panic elsewhere: every value guarded here is valid at any moment.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Disk for Folder {
    fn create(&self, name: &str) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::APPEND;
        let file = self.open_file(name, flags)?;
        // Compaction may have claimed the file between its creation and this lock; it is then gone.
        fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        if fs::fstat(&file)?.st_nlink == 0 {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let held = Held {
            file,
            len: 0,
            written_out: 0,
        };
        lock(&self.held).insert(name.to_owned(), held);
        Ok(())
    }

    fn append(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let window = lock(&self.pacer).pace().in_flight_bytes_max;
        for part in parts {
            for step in part.chunks(STEP) {
                self.wait_turn(len64(step.len()));
                let mut all = lock(&self.held);
                let held = all.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
                self.append_step(held, step, window)?;
            }
        }
        Ok(())
    }

    fn sync(&self, what: SyncTarget<'_>) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let SyncTarget::File(name) = what else {
            return Ok(fs::fsync(&self.handle)?);
        };
        let copy = {
            let all = lock(&self.held);
            all.get(name)
                .map(|held| held.file.try_clone())
                .transpose()?
        };
        // The copy lets other threads append while the disk works.
        let file = match copy {
            Some(file) => file,
            None => self.open_file(name, OFlags::RDONLY)?,
        };
        fs::fdatasync(&file)?;
        if let Some(held) = lock(&self.held).get_mut(name) {
            held.written_out = held.len;
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::renameat(&self.handle, from, &self.handle, to)?;
        let mut all = lock(&self.held);
        if let Some(held) = all.remove(from) {
            all.insert(to.to_owned(), held);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::unlinkat(&self.handle, name, AtFlags::empty())?;
        lock(&self.held).remove(name);
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.handle)? {
            let entry = entry?;
            // Some file systems do not say the type here; opening the file does.
            let may_be_file = matches!(
                entry.file_type(),
                fs::FileType::RegularFile | fs::FileType::Unknown
            );
            if may_be_file && let Ok(name) = entry.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Bytes> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        self.maps.fetch_add(1, Ordering::Relaxed);
        ask_for_ends(&file);
        map::map(&file)
    }

    fn claim(&self, name: &str) -> io::Result<bool> {
        if lock(&self.held).contains_key(name) {
            return Ok(false);
        }
        let is_lock = Path::new(name).extension().is_some_and(|e| e == "lock");
        let flags = if is_lock {
            OFlags::CREATE | OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        let file = self.open_file(name, flags)?;
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(code) => return Err(code.into()),
        }
        if fs::fstat(&file)?.st_nlink == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let len = file.metadata()?.len();
        let held = Held {
            file,
            len,
            written_out: len,
        };
        lock(&self.held).insert(name.to_owned(), held);
        Ok(true)
    }

    fn release(&self, name: &str) {
        lock(&self.held).remove(name);
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}
