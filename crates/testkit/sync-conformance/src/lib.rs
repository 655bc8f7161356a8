//! The rules of DRM sync objects, written once, run over anything that takes the requests.
//!
//! Names are those of intel-gpu-tools (`syncobj_basic`, `syncobj_wait`, `syncobj_timeline`,
//! `syncobj_eventfd`) and of the Vulkan conformance tests where a rule is theirs; `extra` is what
//! both leave out. The rules are ours: each states the answer that the kernel gives.

#![expect(
    clippy::missing_errors_doc,
    reason = "every rule's error is the text of what went wrong"
)]
#![expect(clippy::too_many_lines, reason = "lists of rules, one after the other")]
#![expect(
    clippy::indexing_slicing,
    reason = "a rule past the end of its own arrays has failed"
)]

mod ops;
pub mod rules;
pub mod target;

pub use ops::{Answer, Ops, POLL, in_ms};
pub use target::{Client, Fences, Target};

/// A rule's outcome; the error is what was seen and what should have been.
pub type Outcome = Result<(), String>;

/// A rule's check.
pub type Check = Box<dyn Fn(&dyn Target) -> Outcome + Send + Sync>;

/// One rule.
pub struct Rule {
    /// `suite/name`.
    pub name: String,
    /// Whether it takes seconds.
    pub is_slow: bool,
    /// The check.
    pub check: Check,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Rule")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Runs all rules, slow ones if asked for; returns the number run and what failed.
#[must_use]
pub fn run(target: &dyn Target, slow: bool, only: Option<&str>) -> (usize, Vec<String>) {
    let mut count = 0;
    let mut failed = Vec::new();
    for rule in rules::all() {
        if (rule.is_slow && !slow) || only.is_some_and(|only| !rule.name.contains(only)) {
            continue;
        }
        count += 1;
        if let Err(text) = (rule.check)(target) {
            failed.push(format!("{}: {text}", rule.name));
        }
    }
    (count, failed)
}
