//! Every call and event, counted and (where the script names a file) written as a line.
//!
//! A line is `NAME key=value ...`. Lines are whole: each is one append. Events are in lower case
//! (`compile`, `hit`, `fault`, `blob-foreign`, ...), calls carry Vulkan's name.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::script::script;

static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = script().journal.as_ref()?;
        OpenOptions::new().append(true).create(true).open(path).ok()
    })
    .as_ref()
}

/// Counts `name` and writes its line.
pub(crate) fn note(name: &'static str, details: Arguments<'_>) {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry(name).or_insert(0) += 1;
    drop(counts);
    if let Some(mut file) = file() {
        let line = format!("{name} {details}\n");
        // A journal that cannot be written shows as lines that tests miss.
        let _written = file.write_all(line.as_bytes()).is_ok();
    }
}

/// Notes that the application did what Vulkan forbids.
pub(crate) fn fault(call: &'static str, details: Arguments<'_>) {
    note("fault", format_args!("in={call} {details}"));
    if script().abort_on_fault {
        std::process::abort();
    }
}

/// How often `name` was called or happened in this process so far.
pub fn count(name: &str) -> u64 {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    counts.get(name).copied().unwrap_or(0)
}

macro_rules! call {
    ($name:literal) => { $crate::journal::note($name, format_args!("")) };
    ($name:literal, $($details:tt)+) => { $crate::journal::note($name, format_args!($($details)+)) };
}
pub(crate) use call;
