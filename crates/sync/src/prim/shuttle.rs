//! Shuttle's primitives under the same names: random schedules of larger programs.

#[path = "model.rs"]
mod model;

use shuttle::sync;

pub(crate) use model::{Futex, Guard, Lock, Token};
pub(crate) use shuttle::sync::Arc;
pub(crate) use shuttle::sync::atomic;
