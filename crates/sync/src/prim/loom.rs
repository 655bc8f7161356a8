//! Loom's primitives under the same names: a lock and a futex that loom explores.

#[path = "model.rs"]
mod model;

use loom::sync;

pub(crate) use loom::sync::atomic;
pub(crate) use model::{Futex, Guard, Lock, Token};
/// Std's: methods take it as `self`, which only std's can be.
pub(crate) use std::sync::Arc;
