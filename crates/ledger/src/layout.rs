//! The bytes of a ledger, version 2. `docs/ledger.md` shows this table and a test holds it there.
//!
//! The structures are laid over the mapped file; everything that is written after creation is an
//! atomic. All numbers are little-endian.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use crate::{Counter, Histogram, Outcome};

/// Version of the layout. Any change of a size, an offset or a meaning is a new version.
pub const VERSION: u32 = 2;
/// First eight bytes of a ledger.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TOWPLEDG");
/// Length of a ledger, in bytes.
pub const FILE_BYTES: usize = size_of::<Ledger>();

/// Sites told apart; the last one takes what finds no room. 256: darktable's largest history uses
/// under 40, and a table of this size is 256 KiB.
pub(crate) const SITES: usize = 256;
/// The site that takes what finds no room.
pub(crate) const SITE_OTHER: usize = SITES - 1;
/// Modules named.
pub(crate) const MODULES: usize = 64;
/// Slowest calls kept.
pub(crate) const SLOWEST: usize = 64;
/// Presented frames kept: the newest four minutes at 120 frames per second.
pub(crate) const FRAMES: usize = 32_768;
/// Frames of one call stack.
pub(crate) const STACK_FRAMES: usize = 6;
/// Buckets of a histogram: bucket n counts values of n significant bits.
pub(crate) const BUCKETS: usize = 65;
/// Buckets of a site's histogram of wall time; the last one is open (from 2^39 ns, 9 minutes).
pub(crate) const SITE_BUCKETS: usize = 41;

#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// Length of the file, in bytes.
    pub(crate) file_bytes: AtomicU64,
    /// Start of the process in clock ticks since boot: tells a process from a later one of its id.
    pub(crate) process_start: AtomicU64,
    /// Inode of the process's PID namespace; 0 if not known.
    pub(crate) pid_namespace: AtomicU64,
    /// When the ledger was made, in nanoseconds since 1970.
    pub(crate) made_at_ns: AtomicU64,
    /// Process that forked this one, 0 if the ledger was not made after a fork.
    pub(crate) parent_pid: AtomicU32,
    pub(crate) reserved: AtomicU32,
    /// The kernel's boot id: after a reboot every ledger is of a dead process.
    pub(crate) boot_id: [AtomicU8; 16],
    /// The library that writes, UTF-8, filled with zeros.
    pub(crate) library: [AtomicU8; 32],
    /// The program's file name, filled with zeros.
    pub(crate) program: [AtomicU8; 144],
    /// The control word: `Fixes::to_bits`. The only field that a reader writes.
    pub(crate) fixes: AtomicU32,
    /// Frames presented so far; the newest is at `(frames - 1) % FRAMES`.
    pub(crate) frames_reserved: AtomicU32,
    pub(crate) frames: AtomicU64,
    /// Wall time that a call must exceed to enter the slowest, in nanoseconds.
    pub(crate) slowest_above: AtomicU64,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Site {
    /// Identity of the site; 0 while the place is free. Claiming it claims the place.
    pub(crate) hash: AtomicU64,
    /// 1 once the names below are complete.
    pub(crate) is_named: AtomicU32,
    pub(crate) path: AtomicU16,
    pub(crate) stack_len: AtomicU8,
    /// 1 where every call is a wait: the totals of waits are then made of the counts below.
    pub(crate) is_wait: AtomicU8,
    /// Hash of the stack, equal between runs of one program; 0 without a stack.
    pub(crate) stack_hash: AtomicU64,
    pub(crate) call: [AtomicU8; 48],
    pub(crate) device: [AtomicU8; 64],
    /// Module's place in the table of modules plus 1 (upper 16 bits; 0 is none), offset in it.
    pub(crate) stack: [AtomicU64; STACK_FRAMES],
    pub(crate) bytes: AtomicU64,
    pub(crate) wall_ns: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) cold_bytes: AtomicU64,
    /// Calls whose cold bytes are not known.
    pub(crate) cold_unknown: AtomicU64,
    pub(crate) saved_ns: AtomicI64,
    pub(crate) longest_ns: AtomicU64,
    /// Wall time and bytes of the calls whose destination was wholly warm (cold bytes known, 0).
    pub(crate) warm_ns: AtomicU64,
    pub(crate) warm_bytes: AtomicU64,
    /// Calls by outcome, but for those that were only observed: they are the rest of `walls`.
    pub(crate) outcomes: [AtomicU64; Outcome::ROOM],
    /// Calls by significant bits of their wall time in nanoseconds; their sum is the number of calls.
    pub(crate) walls: [AtomicU64; SITE_BUCKETS],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Module {
    /// Hash of the name; 0 while the place is free.
    pub(crate) hash: AtomicU64,
    /// The last 120 bytes of the module's path; the program itself is its file name.
    pub(crate) name: [AtomicU8; 120],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slow {
    /// Odd while it is being written; 0 while the place is free.
    pub(crate) sequence: AtomicU32,
    pub(crate) site: AtomicU16,
    pub(crate) outcome: AtomicU16,
    pub(crate) start_ns: AtomicU64,
    pub(crate) wall_ns: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) cold_bytes: AtomicU64,
    pub(crate) faults: AtomicU64,
}

/// The whole file.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Ledger {
    pub(crate) header: Header,
    pub(crate) sites: [Site; SITES],
    pub(crate) modules: [Module; MODULES],
    pub(crate) slowest: [Slow; SLOWEST],
    pub(crate) counters: [AtomicU64; Counter::ROOM],
    pub(crate) histograms: [[AtomicU64; BUCKETS]; Histogram::ROOM],
    /// Present times by the monotonic clock, in nanoseconds. Last: its pages are touched as frames
    /// come, all before it at creation.
    pub(crate) frames: [AtomicU64; FRAMES],
}

// The table of docs/ledger.md.
const _: () = {
    assert!(size_of::<Header>() == 4096);
    assert!(offset_of!(Header, version) == 8);
    assert!(offset_of!(Header, pid) == 12);
    assert!(offset_of!(Header, file_bytes) == 16);
    assert!(offset_of!(Header, process_start) == 24);
    assert!(offset_of!(Header, pid_namespace) == 32);
    assert!(offset_of!(Header, made_at_ns) == 40);
    assert!(offset_of!(Header, parent_pid) == 48);
    assert!(offset_of!(Header, boot_id) == 56);
    assert!(offset_of!(Header, library) == 72);
    assert!(offset_of!(Header, program) == 104);
    assert!(offset_of!(Header, fixes) == 248);
    assert!(offset_of!(Header, frames) == 256);
    assert!(offset_of!(Header, slowest_above) == 264);

    assert!(size_of::<Site>() == 1024);
    assert!(offset_of!(Site, is_named) == 8);
    assert!(offset_of!(Site, path) == 12);
    assert!(offset_of!(Site, stack_len) == 14);
    assert!(offset_of!(Site, is_wait) == 15);
    assert!(offset_of!(Site, stack_hash) == 16);
    assert!(offset_of!(Site, call) == 24);
    assert!(offset_of!(Site, device) == 72);
    assert!(offset_of!(Site, stack) == 136);
    assert!(offset_of!(Site, bytes) == 184);
    assert!(offset_of!(Site, outcomes) == 256);
    assert!(offset_of!(Site, walls) == 640);

    assert!(size_of::<Module>() == 128);
    assert!(size_of::<Slow>() == 64);
    assert!(offset_of!(Slow, start_ns) == 8);
    assert!(offset_of!(Slow, faults) == 40);

    assert!(offset_of!(Ledger, sites) == 4_096);
    assert!(offset_of!(Ledger, modules) == 266_240);
    assert!(offset_of!(Ledger, slowest) == 274_432);
    assert!(offset_of!(Ledger, counters) == 278_528);
    assert!(offset_of!(Ledger, histograms) == 279_552);
    assert!(offset_of!(Ledger, frames) == 287_872);
    assert!(FILE_BYTES == 552_960);
};

/// Bucket of `value` in a histogram of `buckets` buckets: its significant bits, the last is open.
#[inline]
pub(crate) fn bucket(value: u64, buckets: usize) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    usize::try_from(bits).unwrap_or(usize::MAX).min(buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostPath;
    use std::fmt::Write as _;

    macro_rules! fields {
        ($type:ty: $($field:ident),+) => {
            [$((stringify!($field), offset_of!($type, $field))),+]
        };
    }

    fn table(name: &str, bytes: usize, fields: &[(&str, usize)]) -> String {
        let mut text = format!(
            "### {name}, {bytes} bytes\n\n| offset | bytes | field |\n| --- | --- | --- |\n"
        );
        let ends = fields.iter().skip(1).map(|field| field.1).chain([bytes]);
        for ((field, offset), end) in fields.iter().zip(ends) {
            writeln!(text, "| {offset} | {} | {field} |", end - offset).unwrap();
        }
        text
    }

    fn numbers(name: &str, rows: impl Iterator<Item = (u16, &'static str)>) -> String {
        let mut text = format!("### {name}\n\n| number | meaning |\n| --- | --- |\n");
        for (number, meaning) in rows {
            writeln!(text, "| {number} | {meaning} |").unwrap();
        }
        text
    }

    /// The part of docs/ledger.md that the code knows better.
    fn tables() -> String {
        let header = fields!(Header: magic, version, pid, file_bytes, process_start, pid_namespace,
            made_at_ns, parent_pid, reserved, boot_id, library, program, fixes, frames_reserved,
            frames, slowest_above);
        let site = fields!(Site: hash, is_named, path, stack_len, is_wait, stack_hash, call, device, stack,
            bytes, wall_ns, faults, cold_bytes, cold_unknown, saved_ns, longest_ns, warm_ns,
            warm_bytes, outcomes, walls);
        let slow =
            fields!(Slow: sequence, site, outcome, start_ns, wall_ns, bytes, cold_bytes, faults);
        let whole = fields!(Ledger: header, sites, modules, slowest, counters, histograms, frames);
        [
            table("File", FILE_BYTES, &whole),
            table("Header", size_of::<Header>(), &header),
            table("Site", size_of::<Site>(), &site),
            table("Module", size_of::<Module>(), &fields!(Module: hash, name)),
            table("Slow call", size_of::<Slow>(), &slow),
        ]
        .join("\n")
    }

    /// Names of numbers, which grow with the layers.
    fn names() -> String {
        [
            numbers(
                "Host paths",
                HostPath::ALL.iter().map(|n| (n.number(), n.name())),
            ),
            numbers(
                "Outcomes",
                Outcome::ALL.iter().map(|n| (n.number(), n.text())),
            ),
            numbers(
                "Counters",
                Counter::ALL.iter().map(|n| (n.number(), n.name())),
            ),
            numbers(
                "Histograms",
                Histogram::ALL.iter().map(|n| (n.number(), n.name())),
            ),
        ]
        .join("\n")
    }

    #[test]
    fn every_number_of_the_document_means_what_the_code_means() {
        const DOCUMENT: &str = include_str!("../../../docs/ledger.md");
        let (_, part) = DOCUMENT.split_once("### Host paths").unwrap();
        let names = names();
        let rows = part.lines().filter(|line| line.starts_with("| "));
        let mut count = 0;
        for row in rows {
            assert!(
                names.lines().any(|known| known == row),
                "{row} is not in\n{names}"
            );
            count += 1;
        }
        assert!(count > 40, "{count}");
    }

    #[test]
    fn the_document_holds_the_layout_as_it_is() {
        const DOCUMENT: &str = include_str!("../../../docs/ledger.md");
        let tables = tables();
        assert!(
            DOCUMENT.contains(&tables),
            "docs/ledger.md must hold:\n{tables}"
        );
    }

    #[test]
    fn buckets_are_significant_bits_and_the_last_is_open() {
        assert_eq!(bucket(0, 65), 0);
        assert_eq!(bucket(1, 65), 1);
        assert_eq!(bucket(1023, 65), 10);
        assert_eq!(bucket(1024, 65), 11);
        assert_eq!(bucket(u64::MAX, 65), 64);
        assert_eq!(bucket(u64::MAX, 41), 40);
    }
}
