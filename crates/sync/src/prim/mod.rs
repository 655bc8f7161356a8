//! The one place that chooses between the machine's primitives and a model checker's.
//!
//! Nothing outside this folder names `std::sync` or a futex. The model tests include the in-process
//! engine's files beside `loom.rs` or `shuttle.rs` under this module's name, so the code that is
//! checked is the code that ships.

#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod native;

#[cfg(loom)]
pub(crate) use loom::{Arc, Futex, Guard, Lock, Token, atomic};
#[cfg(not(loom))]
pub(crate) use native::{Arc, Futex, Guard, Lock, Token, atomic};
