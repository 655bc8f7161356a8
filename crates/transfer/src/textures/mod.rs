//! Textures and buffers whose bytes lie scattered over a guest's memory.
//!
//! - [`attached`]: the same for a renderer that cannot be changed.
//! - [`backing`]: the list of memory pieces behind a texture or buffer.
//! - [`shape`] and [`plan`]: one checked computation of every address of a transfer.
//! - [`gather`]: copies between a backing and linear memory, without a buffer in between.
//! - [`views`]: contiguous mappings of backings, made when they pay, kept within a budget.
//! - [`cost`]: what copying and mapping cost on this machine.
//! - [`calibrate`]: measures these costs; [`baseline`]: the temporary copy that everything here replaces.
//! - [`engine`]: one transfer: plan, choice, copy, count; over a [`backend`].
//! - [`trace`]: streams of a real guest, to be played again.
//! - [`null`]: the backend that keeps images in memory; `vulkan`: the one with a device.
//!
//! Guest memory is only reached through
//! [`VolatileBytes`](towpath_memory::volatile::VolatileBytes): the guest may write at any moment.

pub mod attached;
pub mod backend;
pub mod backing;
pub mod baseline;
pub mod calibrate;
pub mod cost;
pub mod engine;
pub mod error;
pub mod gather;
pub mod null;
pub mod plan;
pub mod ram;
pub mod shape;
pub mod trace;
pub mod views;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use backend::{Backend, Copied, Source};
pub use backing::{Backing, Entry, Memory, Run};
pub use cost::Model;
pub use engine::{Done, Path, Transfers};
pub use error::{Error, Result};
pub use plan::{Direction, Lines, Plan, Region, Request};
pub use ram::Ram;
pub use shape::{Dimension, Format, Texture};
