//! The one place that names the machine's primitives: atomics, the lock, the futex.
//!
//! Nothing of the in-process engine names `std::sync` or a futex outside this folder. The model tests
//! include the engine's files beside `loom.rs` or `shuttle.rs` under this module's name, so the code
//! that is checked is the code that ships.

mod native;

pub(crate) use native::{Arc, Futex, Guard, Lock, Token, atomic, wait_restarted};
