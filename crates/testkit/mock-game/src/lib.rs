//! Vulkan programs for tests: the steps that a test asks for, and a game that saves its pipeline cache.
//!
//! # What this crate does
//!
//! - [`game`]: the game.
//! - [`gpu`]: a device with the few objects that the programs need, over the system's loader.
//! - [`scene`]: runs these programs on a driver, with or without layers, and reads what came of it.
//! - [`screen`]: a virtual X server.
//! - [`shader`]: valid compute shaders, as many different ones as wanted.
//! - `towpath-vulkan-steps`: runs the steps on its command line and says what came of each.
//! - `towpath-mock-game`: start, pipelines, frames and saves of a game with its own cache file.
//!
//! # What it does not do
//!
//! - It never draws. On a real driver only the compute steps make sense.

pub mod game;
pub mod gpu;
pub mod scene;
pub mod screen;
pub mod shader;
