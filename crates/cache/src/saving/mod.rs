//! Ways to keep a blob that a driver hands out whole, writing little.
//!
//! - [`BlobSaver`]: one file, as programs have it today, written only when it changed.
//! - [`save_pipeline`]: pipelines as the driver's own binaries, each once.
//! - [`save_blob`]: only the new parts go to the store: Mesa's objects where the blob is Mesa's and
//!   rebuilds byte by byte, content-defined chunks otherwise.
//!
//! A session overlay ([`crate::vulkan`]) needs neither: there the blob itself is all new.

mod binaries;
mod blob;
mod chunks;
mod delta;
pub mod mesa;

pub use binaries::{Binary, load_pipeline, save_pipeline};
pub use blob::{BlobFile, BlobSaver, BlobSource, Fetched, SaveOutcome, SaveReport};
pub use chunks::{Chunker, chunks};
pub use delta::{DeltaSaved, Form, load_blob, save_blob};
