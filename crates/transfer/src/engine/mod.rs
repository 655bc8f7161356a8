//! Copies between device and host through a ring of pinned chunks, with worker threads.
//!
//! A driver copies to and from ordinary ("pageable") memory with one thread, through its own small
//! pinned buffer. Here the device fills pinned chunks at the speed of the link while several threads
//! carry them on with streaming stores, and bring the destination's pages in themselves, in parallel.
//!
//! ```text
//!           start_read                 is over         store
//! device ---------------> pinned slot --------> helper ------> destination rows
//!            ^                                    |
//!            +-------- next chunk, same slot <----+
//! ```
//!
//! The caller's thread alone talks to the device (`course`); helpers sleep until a chunk is there for
//! them (`relay`).
//!
//! Everything of a GPU API is behind [`Backend`]; [`null`] is the one without a
//! device.

mod backend;
mod chunks;
mod course;
mod error;
mod host;
pub mod null;
mod pool;
mod prim;
mod relay;
mod shape;
mod shuttle;
mod side;

pub use backend::{Backend, Pinned};
pub use chunks::Chunks;
pub use error::{Error, Result};
pub use host::{Bytes, HostBuffer, HostKind, Rows};
pub use pool::Pool;
pub use shape::Shape;
pub use shuttle::{Engine, Moved};
pub use side::{Bring, Destination, Source};
