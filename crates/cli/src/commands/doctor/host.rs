//! The kernel, the C library and the memory of this machine: probed and measured, not guessed.

use std::fs;
use std::process::Command;
use std::time::Duration;

use towpath_measure::{Clock, MonotonicClock};
use towpath_memory::{Huge, Mapping, Prefault, margin, page_size, prefault, residency};

use super::finding::Finding;

/// Touched once with small and once with huge pages: enough to tell them apart, too little to hurt.
const PROBE_BYTES: usize = 64 << 20;

/// All of them, in the order of the report.
pub(super) fn findings() -> Vec<Finding> {
    let mut all = vec![machine(), scan(), populate(), available()];
    all.extend(page_cost());
    all
}

fn machine() -> Finding {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    let usable = towpath_memory::cpus::usable();
    Finding::good(
        "machine",
        "kernel and processor",
        format!("Linux {}, {model}, {usable} usable", kernel.trim()),
    )
}

fn scan() -> Finding {
    let what = "residency";
    if residency::has_scan() {
        return Finding::good(
            "readback",
            what,
            "PAGEMAP_SCAN answers: exact, in microseconds",
        );
    }
    Finding::unavailable(
        "readback",
        what,
        "no PAGEMAP_SCAN (Linux 6.7): pages are sampled instead",
    )
}

fn populate() -> Finding {
    let what = "prefault";
    let outcome = Mapping::anonymous(page_size())
        .and_then(|mapping| prefault(mapping.range(), &Prefault::default()));
    match outcome {
        Ok(_) => Finding::good("readback", what, "MADV_POPULATE_WRITE works"),
        Err(error) => Finding::unavailable("readback", what, format!("{error}"))
            .advise("needs Linux 5.14 and a sandbox that lets madvise through"),
    }
}

fn available() -> Finding {
    let bytes = margin::available();
    Finding::good("machine", "memory to spare", format!("{} MiB", bytes >> 20))
}

/// What a cold page costs, small and huge, and whether the C library's own switch would do as well.
fn page_cost() -> Vec<Finding> {
    let what = "cost of cold memory";
    let measured = [Huge::Never, Huge::WholeBlocks].map(|huge| {
        // A virtual machine's host may have taken the memory away: have it at hand, then measure the best
        // of three, since the question is what the kernel needs and not what else ran.
        towpath_memory::warm_host(PROBE_BYTES * 4).ok()?;
        (0..3)
            .filter_map(|_| populate_seconds(huge))
            .min_by(f64::total_cmp)
    });
    let [Some(small), Some(huge)] = measured else {
        return vec![Finding::unavailable(
            "readback",
            what,
            "memory could not be touched",
        )];
    };
    let per_gib = |seconds: f64| seconds * 1e3 * (1_u64 << 30) as f64 / PROBE_BYTES as f64;
    let cost = Finding::good(
        "readback",
        what,
        format!(
            "{:.0} ms/GiB in 4 KiB pages, {:.0} ms/GiB in huge pages",
            per_gib(small),
            per_gib(huge)
        ),
    );
    vec![cost, tunables(small / huge)]
}

fn populate_seconds(huge: Huge) -> Option<f64> {
    let clock = MonotonicClock;
    let mapping = Mapping::anonymous(PROBE_BYTES).ok()?;
    let how = Prefault {
        huge,
        limit: Duration::from_secs(3),
        ..Prefault::default()
    };
    let start = clock.now();
    prefault(mapping.range(), &how).ok()?;
    let spent = clock.now().0.saturating_sub(start.0);
    Some(spent as f64 / 1e9)
}

/// `glibc.malloc.hugetlb=1` is the strongest rival of our readback fix, and free: say so where it works.
fn tunables(gain: f64) -> Finding {
    let what = "glibc tunables";
    let Some((major, minor)) = glibc_version() else {
        return Finding::unavailable("readback", what, "the C library is not glibc");
    };
    if (major, minor) < (2, 35) {
        return Finding::unavailable(
            "readback",
            what,
            format!("glibc {major}.{minor} is before 2.35"),
        );
    }
    let mode =
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let found = Finding::good("readback", what, format!("glibc {major}.{minor}"));
    if mode.contains("[madvise]") && gain > 1.5 {
        return found.advise(format!(
            "for programs that read into malloc'ed memory, GLIBC_TUNABLES=glibc.malloc.hugetlb=1 makes \
             cold pages about {gain:.1} x cheaper without towpath; it does not help other allocators, \
             nor a driver that charges for cold pages"
        ));
    }
    found
}

fn glibc_version() -> Option<(u32, u32)> {
    let out = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
