//! Layouts and numbers fixed by others.
//!
//! # What this crate does
//!
//! - Declares the structures and numbers that the kernel fixes, one module per interface.
//! - Makes the raw calls on them; each call's contract stands at its head.
//!
//! # What it does not do
//!
//! - It takes no decision, keeps no state and hides no error code.

pub mod dma_buf;
pub mod drm;
pub mod madvise;
pub mod pagemap;
pub mod process;
pub mod procmap;
pub mod udmabuf;
pub mod vulkan;
