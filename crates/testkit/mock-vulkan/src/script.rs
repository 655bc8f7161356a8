//! What the driver is told to do: `MOCK_VULKAN` (pairs divided by `;`) over `MOCK_VULKAN_SCRIPT`
//! (a file of lines `key = value`, `#` begins a comment).
//!
//! | key | default | what |
//! | --- | --- | --- |
//! | `journal` | none | file to which every call is appended, a line each |
//! | `policy` | `append` | what cache data looks like, see [`Policy`] |
//! | `entry_bytes` | 1000 | mean size of one pipeline's compiled code |
//! | `compile_us` | 0 | time that one compile takes |
//! | `hit_us` | 0 | time that a pipeline found in a cache takes |
//! | `load_us` | 0 | time that creation of a cache with data takes |
//! | `mark` | 0 | which compile (from 1) yields code that policy `aborting` dies of |
//! | `fail` | 0 | which compile (from 1) is answered with `ERROR_OUT_OF_HOST_MEMORY` |
//! | `identity` | `A` | driver: changes UUIDs, version text and compiled code, not the GPU's ids |
//! | `devices` | 1 | physical devices of the same ids and identities `identity`, `identity`+`2`, ... |
//! | `cache_control` | 1 | whether `pipelineCreationCacheControl` is offered |
//! | `refuse_control` | 0 | whether no device is made with that feature all the same |
//! | `binaries` | 0 | whether `VK_KHR_pipeline_binary` is offered |
//! | `internal_cache` | 0 | whether the driver keeps every compile of this process itself |
//! | `gpu_us` | 0 | time that one submission runs on the queue |
//! | `lost_after` | 0 | submission (from 1) at which the device is lost; 0 never |
//! | `reuse` | 0 | whether values of destroyed handles are given out again |
//! | `strict` | `note` | what a wrong handle does: `note` it or `abort` |

#![expect(
    clippy::disallowed_methods,
    reason = "a test driver has its own variables, outside the product's settings"
)]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// What the data of a pipeline cache looks like, and how creation with data behaves.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Policy {
    /// Entries in the order in which they came.
    #[default]
    Append,
    /// Entries in an order that changes with each new one, as of a hash set.
    Shuffled,
    /// One entry more at each fetch than the size query announced.
    Growing,
    /// The fetch says that it wrote 20 bytes, after announcing more (lavapipe).
    LyingSmall,
    /// The fetch says that it wrote 4096 bytes more than the buffer holds.
    LyingLarge,
    /// The fetch writes the data and leaves the size alone (AMDVLK).
    LyingUnset,
    /// Data handed to creation is ignored without a word.
    Rejecting,
    /// Creation with data is an error.
    Failing,
    /// Creation with data that holds a marked entry ends the process.
    Aborting,
    /// Data is always 0 bytes.
    Empty,
    /// Data is always the bare header (lavapipe).
    HeaderOnly,
}

impl Policy {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "append" => Self::Append,
            "shuffled" => Self::Shuffled,
            "growing" => Self::Growing,
            "lying-small" => Self::LyingSmall,
            "lying-large" => Self::LyingLarge,
            "lying-unset" => Self::LyingUnset,
            "rejecting" => Self::Rejecting,
            "failing" => Self::Failing,
            "aborting" => Self::Aborting,
            "empty" => Self::Empty,
            "header-only" => Self::HeaderOnly,
            _ => return None,
        })
    }
}

/// All that the driver is told; fields are the keys of the module's table.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the table in the module's documentation")]
pub struct Script {
    pub journal: Option<PathBuf>,
    pub policy: Policy,
    pub entry_bytes: usize,
    pub compile: Duration,
    pub hit: Duration,
    pub load: Duration,
    pub mark: u64,
    pub fail: u64,
    pub identity: String,
    pub devices: u32,
    pub cache_control: bool,
    pub refuse_control: bool,
    pub binaries: bool,
    pub internal_cache: bool,
    pub gpu: Duration,
    pub lost_after: u64,
    pub reuse: bool,
    pub abort_on_fault: bool,
    /// Lines that made no sense; they go to the journal.
    pub problems: Vec<String>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            journal: None,
            policy: Policy::Append,
            entry_bytes: 1000,
            compile: Duration::ZERO,
            hit: Duration::ZERO,
            load: Duration::ZERO,
            mark: 0,
            fail: 0,
            identity: "A".to_owned(),
            devices: 1,
            cache_control: true,
            refuse_control: false,
            binaries: false,
            internal_cache: false,
            gpu: Duration::ZERO,
            lost_after: 0,
            reuse: false,
            abort_on_fault: false,
            problems: Vec::new(),
        }
    }
}

impl Script {
    /// Applies pairs divided by `;` or newlines on top of `self`.
    pub fn apply(&mut self, text: &str) {
        for line in text.split(['\n', ';']) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let done = line
                .split_once('=')
                .and_then(|(key, value)| self.set(key.trim(), value.trim()));
            if done.is_none() {
                self.problems.push(line.to_owned());
            }
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let micros = || value.parse().ok().map(Duration::from_micros);
        let flag = || match value {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        };
        match key {
            "journal" => self.journal = Some(PathBuf::from(value)),
            "policy" => self.policy = Policy::parse(value)?,
            "entry_bytes" => self.entry_bytes = value.parse().ok()?,
            "compile_us" => self.compile = micros()?,
            "hit_us" => self.hit = micros()?,
            "load_us" => self.load = micros()?,
            "mark" => self.mark = value.parse().ok()?,
            "fail" => self.fail = value.parse().ok()?,
            "identity" => value.clone_into(&mut self.identity),
            "devices" => self.devices = value.parse().ok().filter(|n| (1..=8).contains(n))?,
            "cache_control" => self.cache_control = flag()?,
            "refuse_control" => self.refuse_control = flag()?,
            "binaries" => self.binaries = flag()?,
            "internal_cache" => self.internal_cache = flag()?,
            "gpu_us" => self.gpu = micros()?,
            "lost_after" => self.lost_after = value.parse().ok()?,
            "reuse" => self.reuse = flag()?,
            "strict" => {
                self.abort_on_fault = match value {
                    "note" => false,
                    "abort" => true,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// The process's script, read at the first call.
pub fn script() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        let mut script = Script::default();
        if let Some(path) = std::env::var_os("MOCK_VULKAN_SCRIPT") {
            match std::fs::read_to_string(&path) {
                Ok(text) => script.apply(&text),
                Err(_) => script
                    .problems
                    .push(format!("cannot read {}", path.display())),
            }
        }
        if let Ok(text) = std::env::var("MOCK_VULKAN") {
            script.apply(&text);
        }
        script
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_pairs_win_and_nonsense_is_kept_as_a_problem() {
        let mut script = Script::default();
        script.apply("policy = shuffled # as Mesa\nentry_bytes=88000\n");
        script.apply("policy=growing;no_such=1;devices=99;compile_us=soon");
        assert_eq!(script.policy, Policy::Growing);
        assert_eq!(script.entry_bytes, 88_000);
        assert_eq!(
            script.problems,
            ["no_such=1", "devices=99", "compile_us=soon"]
        );
    }
}
