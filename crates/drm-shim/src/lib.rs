//! Sync ioctls of unmodified programs: observed on a real render node, answered where there is none.
//!
//! Preloaded (`LD_PRELOAD`), it stands before the C library's `ioctl`, through which libdrm's and
//! Mesa's calls go as well.
//!
//! - **Observe** (`TOWPATH_LEDGER`): how many objects a wait has, waits that only look, waits for
//!   points that were seen done, eventfds made and registered, time asleep and late.
//! - **Emulate** (`TOWPATH_DRM_EMULATE=local|shared`): opening the render node
//!   (`TOWPATH_DRM_NODE`) or the kernel's `sw_sync` file gives descriptors that
//!   `towpath_sync::kernel` answers for, with the kernel's codes. Both together work too.
//!
//! # What it does not do
//!
//! - It does not see system calls that go past the C library, and no call of a program that is linked
//!   statically: such a one finds no node.
//! - Emulated, it lists no folder `/dev/dri` and has no buffers: it is for sync objects alone.
//!   Objects pass between processes with `shared` only; sync files, timelines and opened nodes do not, and
//!   after `exec` an inherited descriptor of them stands for nothing.
//!
//! # Invariants
//!
//! - Observed, a call is passed on once, unchanged, and its answer and `errno` are the kernel's.
//! - Nothing is printed, no panic leaves, and without a ledger and emulation each call is a jump.
//! - Observing costs two clock reads: no lock, no allocation, no system call.

mod entry;
mod observe;
mod real;
mod state;
