//! Frame logs of every generation, the values of the research note's tables, and bad input.

#![expect(clippy::unwrap_used, reason = "a fixture that does not fit must fail")]

mod cells;
mod common;
mod mangohud;
mod metrics;
mod presentmon;
mod tools;
