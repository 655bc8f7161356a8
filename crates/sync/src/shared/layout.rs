//! What the processes share: a header, object slots and fence slots, of fixed number and size.
//!
//! Every field is an atomic, since any process may write any of it at any time, also out of malice:
//! numbers read from here are bounded before they index anything, and a loop over what is read here
//! has a bound of its own.
//!
//! ```text
//! offset      size  what
//!      0      4096  header
//!   4096  256*1704  objects
//! 440320   1024*48  fences
//! ```

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// "towsync" and the version of this layout.
pub(crate) const MAGIC: u64 = 0x746f_7773_796e_6301;
/// Objects in one arena.
pub(crate) const OBJECTS: usize = 256;
/// Fences in one arena.
pub(crate) const FENCES: usize = 1024;
/// Points of one timeline that may be pending at once.
pub(crate) const TAIL: usize = 32;
/// Processes that may promise to signal one object.
pub(crate) const SIGNALLERS: usize = 8;

pub(crate) const OBJECTS_AT: usize = 4096;
pub(crate) const FENCES_AT: usize = OBJECTS_AT + OBJECTS * size_of::<ObjectSlot>();
/// Bytes of the whole, in whole pages.
pub(crate) const BYTES: usize =
    (FENCES_AT + FENCES * size_of::<FenceSlot>()).next_multiple_of(4096);

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    /// The pid namespace (inode number) whose process numbers are used here.
    pub(crate) namespace: AtomicU64,
    /// Sleepers on more words than one sleep takes; they sleep on `events`.
    pub(crate) group_waiters: AtomicU32,
    /// Grows with each change while there are such sleepers.
    pub(crate) events: AtomicU32,
    /// Where the next search for a free fence begins.
    pub(crate) cursor: AtomicU32,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ObjectSlot {
    /// Generation, times two, plus one while in use.
    pub(crate) id: AtomicU64,
    /// Highest point known to be done.
    pub(crate) reached: AtomicU64,
    /// Processes that promised to signal; zero is none.
    pub(crate) signallers: [AtomicU64; SIGNALLERS],
    /// Process number of the lock's holder; zero is free.
    pub(crate) lock: AtomicU32,
    /// Grows with each change; sleepers for a point without a fence sleep on it.
    pub(crate) sequence: AtomicU32,
    /// Sleepers on `sequence`, or more: those of dead processes stay counted.
    pub(crate) waiters: AtomicU32,
    /// Which copy holds.
    pub(crate) current: AtomicU32,
    /// One if all that the object holds is known to be done.
    pub(crate) is_signaled: AtomicU32,
    /// One once a descriptor was made: the slot is not given back before the arena is.
    pub(crate) is_exported: AtomicU32,
    /// The state before and after the last change: a process that dies in a change leaves the old one.
    pub(crate) copies: [Copy; 2],
}

/// A payload.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Copy {
    /// 0 nothing, 1 signaled, 2 fence, 3 timeline.
    pub(crate) kind: AtomicU32,
    /// Elements of `tail` in use.
    pub(crate) count: AtomicU32,
    pub(crate) submitted: AtomicU64,
    pub(crate) fence: AtomicU64,
    pub(crate) tail: [TailSlot; TAIL],
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct TailSlot {
    pub(crate) point: AtomicU64,
    pub(crate) previous: AtomicU64,
    pub(crate) fence: AtomicU64,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct FenceSlot {
    /// Generation, times eight, plus one of the states below. Sleepers sleep on it.
    pub(crate) word: AtomicU32,
    /// Sleepers on `word`, or more.
    pub(crate) waiters: AtomicU32,
    /// How it ended: one, or a negative code.
    pub(crate) status: AtomicI32,
    pub(crate) pad: AtomicU32,
    /// The process that ends a raw fence.
    pub(crate) owner: AtomicU64,
    /// The parts of a joined fence.
    pub(crate) first: AtomicU64,
    pub(crate) second: AtomicU64,
    pub(crate) pad2: AtomicU64,
}

pub(crate) const STATE_MASK: u32 = 7;
pub(crate) const FREE: u32 = 0;
/// Being filled.
pub(crate) const CLAIMED: u32 = 1;
/// Raw, not ended.
pub(crate) const PENDING: u32 = 2;
/// Of two parts, not known to have ended.
pub(crate) const JOINED: u32 = 3;
/// Ended; may be given away again.
pub(crate) const ENDED: u32 = 4;

const _: () = assert!(size_of::<ObjectSlot>() <= 2048);
const _: () = assert!(size_of::<FenceSlot>() == 48);
const _: () = assert!(offset_of!(FenceSlot, owner) == 16);
const _: () = assert!(size_of::<Header>() <= OBJECTS_AT);
