//! Drives libvirglrenderer by its public C interface, as a virtual machine's device would.
//!
//! For benches and tests: textures whose bytes lie in scattered pieces of a guest's memory, transfers,
//! command streams, readback. The functions come from the library itself or from a library that stands in
//! front of it, so that both can be compared in one process on one renderer.
//!
//! # What it does not do
//!
//! - It is no device: it emulates nothing, and every number it sends is its own.
//! - It is for one thread, as the library is.

mod api;
pub mod commands;
mod guest;
mod renderer;

pub use api::Api;
pub use guest::{Guest, Piece};
pub use renderer::{Attached, Format, Renderer, Spec};

use std::path::PathBuf;

/// Why the library does not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library or a function of it is not there.
    #[error("cannot load {}", path.display())]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's words.
        source: libloading::Error,
    },
    /// A call failed.
    #[error("{call} failed: {code}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its answer.
        code: i32,
    },
    /// Guest memory could not be made.
    #[error("cannot make guest memory")]
    Memory {
        /// Why.
        source: towpath_transfer::textures::Error,
    },
    /// The guest's memory has no room for a texture.
    #[error("{bytes} bytes in pieces of {piece} do not fit the guest's memory")]
    GuestFull {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of a piece.
        piece: u64,
    },
}

/// An answer of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
