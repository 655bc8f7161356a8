//! Texture uploads for unmodified users of libvirglrenderer: QEMU, crosvm's virgl, vtest.
//!
//! Preloaded (`LD_PRELOAD`) before the library, it stands between the program and
//! `virgl_renderer_*`. It watches which textures are transferred and what that costs, and replaces the
//! list of pieces behind a texture by one piece when `towpath-transfer` says that it pays: the renderer
//! then lets GL read the guest's memory at once instead of copying it twice.
//!
//! # What it does not do
//!
//! - It decides nothing: `towpath_transfer::textures::attached` does.
//! - It never touches buffers (the renderer copies some of them when a list is taken away, and the guest
//!   may write meanwhile), blobs, memory that is private to the process or a driver's, or transfers that
//!   bring their own list.
//! - It prints nothing, and no panic leaves it.
//!
//! # Invariants
//!
//! - **The program's call is forwarded exactly once**, and its answer is the library's.
//! - The program gets back the list that it attached, never ours.
//! - Without a ledger and with the upload fix off, every call is a jump to the library.
//! - A transfer that cannot gain anything yet (no list, one piece, not used often enough) is passed on
//!   after one load or, while it is counted, a load and two stores: no lock, no clock, no allocation. One
//!   that may costs two clock reads and a look into a table; a list is replaced once per texture.
//!
//! # Limits
//!
//! - A program that puts other memory behind an attached texture, or takes away the right to write to it, is noticed
//!   where it asks the C library for that (`remap`). By a system call of its own, `shmdt`, `shmat` or a userfaultfd it
//!   is not noticed until it detaches. Holes punched into the memory (balloons) are seen by both mappings alike.
//!
//! # Modules
//!
//! `real` finds the library; `entry` and `transfer` hold the exported functions; `watch` tells by one load whether a
//! transfer must be looked at; `remap` and `changes` notice memory that is replaced; `table` and `resource` hold what is known; `shape` says what is understood;
//! `stream` finds transfers in a guest's command stream; `state` settings and ledger.

mod changes;
mod entry;
mod real;
mod remap;
mod resource;
mod shape;
mod state;
pub mod stream;
mod table;
mod transfer;
mod watch;
