//! The store at the boundary to ash: a base cache, what was saved this session, and a session overlay.
//!
//! A create call takes one VkPipelineCache. [`Overlay`] has three, asked in order:
//!
//! 1. *base*: everything the store had at start. Never modified by creation, so never fetched again.
//! 2. *saved*: what earlier saves of this session wrote.
//! 3. *session*: what is new since the last save. Its blob is one record; after a save a fresh one
//!    takes its place, so that each save writes only what is new.
//!
//! 1 and 2 are tried with `FAIL_ON_PIPELINE_COMPILE_REQUIRED`, which costs microseconds on a miss.
//! Merging needs its destination unused by others: it happens at load, and into new caches that are
//! then swapped in.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use ash::vk;
//! # use towpath_cache::{Identity, Options, open_or_memory, vulkan};
//! # fn program(instance: &ash::Instance, physical: vk::PhysicalDevice, device: ash::Device,
//! #            info: vk::ComputePipelineCreateInfo<'_>) -> towpath_cache::Result<()> {
//! // SAFETY: the physical device is the instance's.
//! let identity = unsafe { vulkan::identity(instance, physical) };
//! let root = std::path::PathBuf::from("/home/me/.cache/mygame");
//! let opened = open_or_memory(&[root], &identity, &Options::new(identity.hash()));
//! // SAFETY: the device outlives the overlay, which is dropped before vkDestroyDevice.
//! let overlay = unsafe { vulkan::Overlay::load(device.clone(), opened.store, &identity, None) }?;
//! let mut pipeline = vk::Pipeline::null();
//! let made = overlay.create(|cache, extra_flags| {
//!     let info = info.flags(info.flags | extra_flags);
//!     // SAFETY: the create info is valid.
//!     match unsafe { device.create_compute_pipelines(cache, &[info], None) } {
//!         Ok(made) => { pipeline = made[0]; vk::Result::SUCCESS }
//!         Err((_, code)) => code,
//!     }
//! });
//! overlay.save()?; // now and then, from a thread of your own: writes only what is new
//! overlay.store().seal()?; // at exit
//! # Ok(())
//! # }
//! ```
#![expect(unsafe_code, reason = "Vulkan calls through ash")]

mod binaries;
mod boundary;
mod overlay;

pub use binaries::{Binaries, Loaded};
pub use boundary::{CacheSource, identity, offers, raw_data};
pub use overlay::{LoadReport, Made, Overlay, Saved};
