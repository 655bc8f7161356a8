//! The rules, by suite.

mod basic;
mod eventfd;
mod external;
mod extra;
mod named;
mod states;
mod timeline;
mod vulkan;

use crate::ops::{Answer, Ops};
use crate::{Outcome, Rule, Target};

/// All rules.
#[must_use]
pub fn all() -> Vec<Rule> {
    let mut rules = Vec::new();
    basic::add(&mut rules);
    named::add(&mut rules);
    states::add(&mut rules);
    timeline::add(&mut rules);
    eventfd::add(&mut rules);
    vulkan::add(&mut rules);
    external::add(&mut rules);
    extra::add(&mut rules);
    rules
}

/// A binary object's only point, or point one of a timeline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// WAIT, SIGNAL, sync files.
    Binary,
    /// The same families at point one.
    Timeline,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Binary, Self::Timeline];

    pub(crate) fn suite(self) -> &'static str {
        match self {
            Self::Binary => "syncobj_wait",
            Self::Timeline => "syncobj_timeline",
        }
    }

    pub(crate) fn point(self) -> u64 {
        u64::from(self == Self::Timeline)
    }

    pub(crate) fn wait(
        self,
        ops: Ops<'_>,
        handles: &[u32],
        timeout: i64,
        flags: u32,
    ) -> (Answer<()>, u32) {
        match self {
            Self::Binary => ops.wait(handles, timeout, flags),
            Self::Timeline => {
                let points = vec![1; handles.len()];
                ops.timeline_wait(handles, Some(&points), timeout, flags)
            }
        }
    }

    pub(crate) fn signal(self, ops: Ops<'_>, handles: &[u32]) -> Answer<()> {
        match self {
            Self::Binary => ops.signal(handles, 0),
            Self::Timeline => ops.timeline_signal(handles, &vec![1; handles.len()], 0),
        }
    }
}

/// Adds one rule.
pub(crate) fn rule(
    rules: &mut Vec<Rule>,
    name: impl Into<String>,
    check: impl Fn(&dyn Target) -> Outcome + Send + Sync + 'static,
) {
    rules.push(Rule {
        name: name.into(),
        is_slow: false,
        check: Box::new(check),
    });
}

/// Adds one rule that takes an opened device.
pub(crate) fn ops_rule(
    rules: &mut Vec<Rule>,
    name: impl Into<String>,
    check: impl Fn(Ops<'_>) -> Outcome + Send + Sync + 'static,
) {
    rule(rules, name, move |target| {
        let client = target.open()?;
        check(Ops(&*client))
    });
}

/// Turns a failure of a rule's preparations into its text.
pub(crate) fn ready<T>(answer: Answer<T>, what: &str) -> Result<T, String> {
    answer.map_err(|code| format!("{what}: code {code}"))
}

/// Compares what was seen with the rule.
#[expect(
    clippy::needless_pass_by_value,
    reason = "called with fresh values everywhere"
)]
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(got: T, want: T, what: &str) -> Outcome {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: {got:?}, not {want:?}"))
    }
}

/// Objects with nothing in them.
pub(crate) fn empty<const N: usize>(ops: Ops<'_>) -> Result<[u32; N], String> {
    let mut handles = [0; N];
    for handle in &mut handles {
        *handle = ready(ops.create(0), "create")?;
    }
    Ok(handles)
}
