//! How much memory may still be used before the kernel starts killing.
//!
//! Bringing in more than a control group allows is answered by SIGKILL, not by an error. So a prefault
//! asks first. Both generations of control groups are read, at every level above the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes that may still be used: the least of the machine's available memory and of what each control
/// group above this process has left, page cache that can be dropped included.
///
/// # Cost
///
/// About 50 microseconds, up to 200 where a control group has a limit; allocates.
#[must_use]
pub fn available() -> usize {
    machine().min(
        groups()
            .iter()
            .map(Group::available)
            .min()
            .unwrap_or(usize::MAX),
    )
}

/// Whether `bytes` more may be used with a margin of as much again and 64 MiB.
///
/// # Cost
///
/// A few microseconds where memory is plentiful: one `sysinfo` and one small file per limited group;
/// otherwise as [`available`].
#[must_use]
pub fn allows(bytes: usize) -> bool {
    let wanted = bytes.saturating_mul(2).saturating_add(MARGIN_BYTES);
    let machine_allows = free() >= wanted || machine() >= wanted;
    machine_allows && groups().iter().all(|group| group.allows(wanted))
}

/// Free memory, without what could be freed.
fn free() -> usize {
    let info = rustix::system::sysinfo();
    let unit = usize::try_from(info.mem_unit).unwrap_or(1);
    usize::try_from(info.freeram)
        .unwrap_or(0)
        .saturating_mul(unit)
}

/// `MemAvailable`, or free memory where that line is missing.
fn machine() -> usize {
    fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemAvailable:"))?;
            let kib: usize = line.split_whitespace().next()?.parse().ok()?;
            kib.checked_mul(1024)
        })
        .unwrap_or_else(free)
}

/// One control group with a memory limit file.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Group {
    folder: PathBuf,
    limit: &'static str,
    usage: &'static str,
    reclaimable: &'static [&'static str],
}

impl Group {
    /// Limit in bytes; `None` where there is none.
    fn limit(&self) -> Option<usize> {
        let limit = number(&self.folder.join(self.limit))?;
        // Version 1 says "no limit" by a number near 2^63.
        (limit < (1 << 60)).then_some(limit)
    }

    fn left(&self, limit: usize) -> usize {
        limit.saturating_sub(number(&self.folder.join(self.usage)).unwrap_or(0))
    }

    fn available(&self) -> usize {
        self.limit().map_or(usize::MAX, |limit| {
            self.left(limit)
                .saturating_add(self.reclaimable())
                .min(limit)
        })
    }

    fn allows(&self, wanted: usize) -> bool {
        // The statistics are slow to read: only where the plain difference does not do.
        self.limit()
            .is_none_or(|limit| self.left(limit) >= wanted || self.available() >= wanted)
    }

    /// Page cache on the inactive list: dropped before anything is killed.
    fn reclaimable(&self) -> usize {
        let text = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| self.reclaimable.contains(name))
            .filter_map(|(_, value)| value.trim().parse::<usize>().ok())
            .max()
            .unwrap_or(0)
    }
}

fn number(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The groups above this process that may have a limit. Found once: programs seldom move.
fn groups() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let of_process = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        find(&of_process, Path::new("/sys/fs/cgroup"))
    })
}

/// Finds the groups named in `of_process` (the text of `/proc/self/cgroup`) below `root`.
fn find(of_process: &str, root: &Path) -> Vec<Group> {
    let mut found = Vec::new();
    for line in of_process.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (top, limit, usage, reclaimable): (_, _, _, &[&str]) = if controllers.is_empty() {
            (
                root.to_owned(),
                "memory.max",
                "memory.current",
                &["inactive_file"],
            )
        } else if controllers.split(',').any(|name| name == "memory") {
            let top = root.join("memory");
            (
                top,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                &["total_inactive_file"],
            )
        } else {
            continue;
        };
        for folder in levels(&top, path) {
            if folder.join(limit).exists() {
                found.push(Group {
                    folder,
                    limit,
                    usage,
                    reclaimable,
                });
            }
        }
    }
    found
}

/// `top` and each folder from it down to `path`. In a container the path may be the host's and not
/// exist; then only `top` counts, which is the container's own group.
fn levels(top: &Path, path: &str) -> Vec<PathBuf> {
    let mut folders = vec![top.to_owned()];
    let mut folder = top.to_owned();
    for part in path
        .split('/')
        .filter(|part| !part.is_empty() && *part != "..")
    {
        folder.push(part);
        if folder.is_dir() {
            folders.push(folder.clone());
        }
    }
    folders
}

/// 64 MiB: what a program may allocate while the pages come in.
const MARGIN_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_not_all_that_was_ever_made() {
        assert!(available() > 1 << 20);
        assert!(allows(4096));
        assert!(!allows(1 << 60));
    }

    #[test]
    fn both_generations_of_groups_are_found_and_limits_of_parents_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "5\n");
        write("a/memory.max", "1000000\n");
        write("a/memory.current", "900000\n");
        write(
            "a/memory.stat",
            "anon 7\ninactive_file 50000\nactive_file 9\n",
        );
        let v2 = find("0::/a/b\n", root.path());
        assert_eq!(v2.len(), 2);
        assert_eq!(v2.iter().map(Group::available).min(), Some(150_000));
        assert!(v2.iter().all(|group| group.allows(150_000)));
        assert!(!v2.iter().all(|group| group.allows(150_001)));

        write("memory/x/memory.limit_in_bytes", "4096\n");
        write("memory/x/memory.usage_in_bytes", "4000\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        let v1 = find("3:cpu:/\n4:memory:/x\n", root.path());
        assert_eq!(v1.len(), 2);
        assert_eq!(v1.iter().map(Group::available).min(), Some(96));
    }

    #[test]
    fn nonsense_is_no_group() {
        let root = tempfile::tempdir().unwrap();
        assert!(find("\n:\n::\nx:y\n0::/../..\n", root.path()).is_empty());
    }
}
