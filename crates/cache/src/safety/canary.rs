//! A note of what the driver reads right now, which outlives a crash of the process.
//!
//! The canary is one page of a file in a folder on tmpfs (`XDG_RUNTIME_DIR`): noting a blob is a store
//! to memory, no system call and no byte to a disk. A reboot clears the folder, so power loss is never
//! taken for a driver's crash. The file is locked as long as its process lives, which also tells a live
//! second process, even of another container, from a dead one. SIGKILL at a bad moment does look like
//! a crash: so one death is a strike, and only two put a blob into quarantine.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use towpath_sys::process::above_standard;

use crate::bytes::{array_at, hex, put, u32_at};
use crate::format::ContentId;
use crate::storage::Page;

const MAGIC: &[u8; 8] = b"TPCANARY";
const STAGE_AT: usize = 8;
const PID_AT: usize = 12;
const ID_AT: usize = 16;
const PAGE_BYTES: u64 = 4096;

/// Which call of the driver reads a blob.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Stage {
    /// vkCreatePipelineCache.
    Create,
    /// vkMergePipelineCaches.
    Merge,
}

/// A blob that a process which is gone was handing to the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Leftover {
    /// The blob's content id.
    pub id: ContentId,
    /// The call it was in.
    pub stage: Stage,
    /// The process's number, for the log.
    pub pid: u32,
}

/// This process's canary for one identity.
#[derive(Debug)]
pub struct Canary {
    path: PathBuf,
    page: Mutex<Page>,
    /// Holds the lock.
    _file: File,
    pid: u32,
}

impl Canary {
    /// Makes this process's canary in `folder` and takes away those of processes that are gone.
    ///
    /// Each leftover is handed out once: note it ([`note_death`](super::note_death)) before going on.
    ///
    /// # Errors
    ///
    /// The kernel's; go on without a canary then.
    pub fn open(folder: &Path, identity: [u8; 16]) -> io::Result<(Self, Vec<Leftover>)> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let prefix = format!("canary-{}-", hex(&identity));
        let leftovers = collect(folder, &prefix)?;
        let path = folder.join(format!("{prefix}{:016x}", crate::identity::random()));
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let file = File::from(above_standard(file.into())?);
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // Blocks first: a store into a mapped file on a full file system is SIGBUS.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, PAGE_BYTES)?;
        let mut page = Page::map(&file)?;
        let pid = std::process::id();
        put(&mut page, PID_AT, &pid.to_le_bytes());
        put(&mut page, 0, MAGIC);
        let canary = Self {
            path,
            page: Mutex::new(page),
            _file: file,
            pid,
        };
        Ok((canary, leftovers))
    }

    /// Notes that the driver reads this blob now. No system call.
    pub fn enter(&self, id: ContentId, stage: Stage) {
        let mut page = self.lock();
        // The id first: a process killed in between has entered nothing.
        put(&mut page, ID_AT, &id.0);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        let stage: u32 = match stage {
            Stage::Create => 1,
            Stage::Merge => 2,
        };
        put(&mut page, STAGE_AT, &stage.to_le_bytes());
    }

    /// Notes that the driver came back. No system call.
    pub fn leave(&self) {
        put(&mut self.lock(), STAGE_AT, &0_u32.to_le_bytes());
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Page> {
        self.page
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        // A forked child must not take its parent's canary away.
        if self.pid == std::process::id() {
            let _left_for_the_next_start = std::fs::remove_file(&self.path);
        }
    }
}

/// Reads and removes the canaries of processes that are gone.
fn collect(folder: &Path, prefix: &str) -> io::Result<Vec<Leftover>> {
    let mut leftovers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(entry.path());
        let Ok(file) = file else {
            continue;
        };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut bytes = Vec::new();
        let read = io::Read::read_to_end(&mut io::Read::take(&file, PAGE_BYTES), &mut bytes);
        if read.is_ok()
            && let Some(leftover) = decode(&bytes)
        {
            leftovers.push(leftover);
        }
        let _someone_else_did = std::fs::remove_file(entry.path());
    }
    Ok(leftovers)
}

fn decode(bytes: &[u8]) -> Option<Leftover> {
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let stage = match u32_at(bytes, STAGE_AT)? {
        1 => Stage::Create,
        2 => Stage::Merge,
        _ => return None,
    };
    Some(Leftover {
        id: ContentId(array_at(bytes, ID_AT)?),
        stage,
        pid: u32_at(bytes, PID_AT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ContentId = ContentId([9; 16]);

    #[test]
    fn a_live_process_leaves_nothing_and_a_dead_one_its_blob() {
        let folder = tempfile::tempdir().unwrap();
        let (first, none) = Canary::open(folder.path(), [1; 16]).unwrap();
        assert_eq!(none, []);
        first.enter(ID, Stage::Create);
        let (second, none) = Canary::open(folder.path(), [1; 16]).unwrap();
        assert_eq!(none, [], "the first one lives");
        // A process that dies does not run its destructors: keep the file, lose the lock.
        let bytes = std::fs::read(&first.path).unwrap();
        let path = first.path.clone();
        drop(first);
        std::fs::write(&path, &bytes).unwrap();
        let (_third, left) = Canary::open(folder.path(), [1; 16]).unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].id, left[0].stage), (ID, Stage::Create));
        let (_fourth, none) = Canary::open(folder.path(), [1; 16]).unwrap();
        assert_eq!(none, [], "handed out once");
        drop(second);
    }

    #[test]
    fn whoever_left_the_driver_again_is_not_blamed() {
        let folder = tempfile::tempdir().unwrap();
        let (canary, _) = Canary::open(folder.path(), [1; 16]).unwrap();
        canary.enter(ID, Stage::Merge);
        canary.leave();
        let bytes = std::fs::read(&canary.path).unwrap();
        assert_eq!(decode(&bytes), None);
        canary.enter(ID, Stage::Merge);
        let bytes = std::fs::read(&canary.path).unwrap();
        assert_eq!(decode(&bytes).unwrap().stage, Stage::Merge);
        for len in 0..32 {
            assert_eq!(decode(&bytes[..len]), None);
        }
        let (_other, none) = Canary::open(folder.path(), [2; 16]).unwrap();
        assert_eq!(none, [], "another identity's canary is no business of ours");
    }

    #[test]
    fn a_fifo_in_the_way_does_not_stop_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("canary-{}-x", hex(&[1; 16]));
        let path = folder.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(Canary::open(folder.path(), [1; 16]).is_ok());
    }
}
