//! Mapped memory: what is present, what it would cost to bring in, and how to bring it in.
//!
//! # What this crate does
//!
//! - [`residency`] says how much of a range would fault on a write, and where.
//! - [`prefault`](mod@prefault) brings pages in with 1 to n threads, in huge pages where that is safe
//!   and fast, and never changes a byte.
//! - [`vma`] says what kind of mapping a range lies in; [`margin`] how much memory may still be used;
//!   [`cpus`] how many processors.
//! - [`stream`] copies past the caches, [`lanes`] several runs in turn, [`host`] warms the machine's memory before a measurement,
//!   [`map`] owns a private mapping, [`keep`] keeps some of them warm between uses.
//! - [`memfd`] makes memory files, [`view`] maps pieces of them one after the other, [`volatile`] reaches
//!   bytes that somebody else writes too.
//!
//! # What it does not do
//!
//! - It decides nothing: whether a prefault is worth it is the business of `transfer`.
//! - It never reads settings, prints, or keeps a thread alive after a call.
//!
//! # Invariants
//!
//! - No function of this crate that takes a bare [`Range`] changes the content of memory.
//! - After a fork, pages shared copy-on-write are never called warm ([`fork`]).

pub mod cpus;
pub mod error;
pub mod faults;
pub mod fork;
pub mod host;
pub mod keep;
pub mod lanes;
pub mod map;
pub mod margin;
pub mod memfd;
pub mod prefault;
pub mod range;
pub mod residency;
pub mod stream;
pub mod threads;
pub mod view;
pub mod vma;
pub mod volatile;

pub use error::{Error, Result};
pub use host::warm_host;
pub use map::Mapping;
pub use prefault::{Huge, Prefault, Prefaulted, prefault, prefault_all};
pub use range::{Range, page_size};
