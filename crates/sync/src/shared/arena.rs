//! A mapped arena: slots by bounded index, the lock of an object, descriptors that name an object.
#![expect(unsafe_code, reason = "maps a sealed file and refers to atomics in it")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use towpath_sys::process::above_standard;

use super::layout::{
    BYTES, FENCES, FENCES_AT, FenceSlot, Header, MAGIC, OBJECTS, OBJECTS_AT, ObjectSlot,
};
use super::peers::{self, Peers};
use crate::error::{Error, Result};

/// Index bits of a descriptor's position; the rest is the generation.
const INDEX_BITS: u32 = 16;
/// How long a lock may be held by one living process before the page is taken for damaged. A holder
/// does some hundred instructions; a stopped one (debugger, SIGSTOP) is the reason for the length.
const HELD_MAX: std::time::Duration = std::time::Duration::from_secs(2);

/// One mapped arena.
#[derive(Debug)]
pub(crate) struct Arena {
    base: NonNull<u8>,
    fd: OwnedFd,
    pub(crate) inode: u64,
    /// Whether this process made it: new objects and fences go to such only.
    pub(crate) is_own: bool,
    pub(crate) peers: Arc<Peers>,
    me: OnceLock<Weak<Self>>,
}

// SAFETY: the mapping lives as long as the value and holds atomics only.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; no reference outlives `self`.
        let _unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), BYTES) };
    }
}

fn system<E: Into<std::io::Error>>(operation: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::System {
        operation,
        source: source.into(),
    }
}

impl Arena {
    /// Makes a sealed memory file and maps it.
    pub(crate) fn create(peers: Arc<Peers>) -> Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("towpath-sync", flags)
            .map_err(system("create shared memory"))?;
        let fd = above_standard(fd).map_err(system("create shared memory"))?;
        rustix::fs::ftruncate(&fd, BYTES as u64).map_err(system("size shared memory"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(system("seal shared memory"))?;
        let arena = Self::map(fd, peers, true)?;
        let header = arena.header();
        header
            .namespace
            .store(peers::namespace(), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(arena)
    }

    /// Maps an arena that came from somewhere; `None` if the descriptor is no arena at all.
    pub(crate) fn open(fd: BorrowedFd<'_>, peers: Arc<Peers>) -> Result<Option<Self>> {
        // The seal comes first: without it the file could shrink under the mapping.
        let is_sealed = rustix::fs::fcntl_get_seals(fd)
            .is_ok_and(|seals| seals.contains(SealFlags::SHRINK | SealFlags::GROW));
        let has_size =
            rustix::fs::fstat(fd).is_ok_and(|stat| u64::try_from(stat.st_size) == Ok(BYTES as u64));
        if !is_sealed || !has_size {
            return Ok(None);
        }
        let arena = Self::map(reopen(fd)?, peers, false)?;
        if arena.header().magic.load(Ordering::Acquire) != MAGIC {
            return Ok(None);
        }
        if arena.header().namespace.load(Ordering::Relaxed) != peers::namespace() {
            return Err(Error::WrongDescriptor {
                what: "shared memory of this pid namespace",
            });
        }
        Ok(Some(arena))
    }

    fn map(fd: OwnedFd, peers: Arc<Peers>, is_own: bool) -> Result<Self> {
        let inode = rustix::fs::fstat(&fd)
            .map_err(system("look at shared memory"))?
            .st_ino;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice; the file has BYTES bytes, for good.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                BYTES,
                access,
                MapFlags::SHARED,
                &fd,
                0,
            )
        };
        let base = base.map_err(system("map shared memory"))?;
        let base = NonNull::new(base.cast()).ok_or(Error::Damaged {
            what: "a null mapping",
        })?;
        Ok(Self {
            base,
            fd,
            inode,
            is_own,
            peers,
            me: OnceLock::new(),
        })
    }

    /// The arena, held by count.
    pub(crate) fn counted(self) -> Arc<Self> {
        let arena = Arc::new(self);
        // Set once, here.
        let _first = arena.me.set(Arc::downgrade(&arena));
        arena
    }

    /// A weak count of this arena.
    pub(crate) fn me(&self) -> Weak<Self> {
        self.me.get().cloned().unwrap_or_default()
    }

    /// Ends the fences of a process that is gone and wakes those who wait for its objects.
    pub(crate) fn bury(&self, name: u64) {
        for slot in (0..OBJECTS).filter_map(|index| self.object(index)) {
            let promised = |place: &AtomicU64| place.load(Ordering::Acquire) == name;
            if slot.signallers.iter().any(promised) {
                slot.sequence.fetch_add(1, Ordering::SeqCst);
                self.wake(&slot.sequence, &slot.waiters);
            }
        }
        self.end_fences_of(name);
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned and longer than the header, which is all atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    pub(crate) fn object(&self, index: usize) -> Option<&ObjectSlot> {
        if index >= OBJECTS {
            return None;
        }
        // SAFETY: below OBJECTS the offset is inside the mapping.
        let slot = unsafe {
            self.base
                .byte_add(OBJECTS_AT + index * size_of::<ObjectSlot>())
        };
        // SAFETY: offsets are multiples of eight; the slot is all atomics.
        Some(unsafe { slot.cast::<ObjectSlot>().as_ref() })
    }

    pub(crate) fn fence(&self, index: usize) -> Option<&FenceSlot> {
        if index >= FENCES {
            return None;
        }
        // SAFETY: below FENCES the offset is inside the mapping.
        let slot = unsafe {
            self.base
                .byte_add(FENCES_AT + index * size_of::<FenceSlot>())
        };
        // SAFETY: offsets are multiples of eight; the slot is all atomics.
        Some(unsafe { slot.cast::<FenceSlot>().as_ref() })
    }

    /// Takes an object's lock. Cost: one compare-and-swap; contended, short sleeps.
    pub(crate) fn lock(slot: &ObjectSlot) -> Result<SlotGuard<'_>> {
        let own = peers::own_number();
        // Acquire: pairs with the release in `SlotGuard::drop`.
        if slot
            .lock
            .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            contended(&slot.lock, own)?;
        }
        Ok(SlotGuard { lock: &slot.lock })
    }

    /// Wakes the sleepers on a word after it changed, and those on many words.
    pub(crate) fn wake(&self, word: &AtomicU32, waiters: &AtomicU32) {
        // SeqCst: pairs with the count in `wait`: either we see the sleeper, or it sees the change.
        std::sync::atomic::fence(Ordering::SeqCst);
        if waiters.load(Ordering::SeqCst) != 0 {
            let _woken = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
        }
        let header = self.header();
        if header.group_waiters.load(Ordering::SeqCst) != 0 {
            header.events.fetch_add(1, Ordering::SeqCst);
            let _woken = futex::wake(
                &header.events,
                futex::Flags::empty(),
                i32::MAX.unsigned_abs(),
            );
        }
    }

    /// A new opened description of the arena whose position names an object.
    pub(crate) fn ticket(&self, index: usize, generation: u64) -> Result<OwnedFd> {
        let fd = reopen(self.fd.as_fd())?;
        let position = (generation << INDEX_BITS) | (index as u64 + 1);
        rustix::fs::seek(&fd, SeekFrom::Start(position)).map_err(system("name an object"))?;
        Ok(fd)
    }
}

/// The object that a descriptor's position names: index and generation.
pub(crate) fn read_ticket(fd: BorrowedFd<'_>) -> Result<(usize, u64)> {
    let position =
        rustix::fs::seek(fd, SeekFrom::Current(0)).map_err(system("read an object's name"))?;
    let index = usize::try_from(position & ((1 << INDEX_BITS) - 1)).unwrap_or(0);
    let index = index
        .checked_sub(1)
        .ok_or(Error::WrongDescriptor { what: "an object" })?;
    Ok((index, position >> INDEX_BITS))
}

/// Opens the file behind a descriptor again, with a position of its own.
fn reopen(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let opened = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(system("open shared memory again"))?;
    above_standard(opened).map_err(system("open shared memory again"))
}

/// Waits for a lock; takes it over from a process that is gone.
#[cold]
fn contended(lock: &AtomicU32, own: u32) -> Result<()> {
    let mut since = crate::time::Deadline::after(HELD_MAX);
    let mut last = 0;
    for round in 0_u64.. {
        let holder = lock.load(Ordering::Relaxed);
        let is_free = holder == 0 || (round % 64 == 63 && !Peers::has_number(holder));
        if is_free
            && lock
                .compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return Ok(());
        }
        if holder != last {
            (last, since) = (holder, crate::time::Deadline::after(HELD_MAX));
        }
        match round {
            0..32 => std::hint::spin_loop(),
            32..64 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
        if round % 256 == 255 && since.has_passed() {
            return Err(Error::Damaged {
                what: "a lock that is never given back",
            });
        }
    }
    Ok(())
}

/// The right to change an object.
#[derive(Debug)]
pub(crate) struct SlotGuard<'a> {
    lock: &'a AtomicU32,
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.lock.store(0, Ordering::Release);
    }
}
