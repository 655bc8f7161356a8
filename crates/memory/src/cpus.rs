//! How many processors this process may keep busy.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Processors that the calling thread may run on, but no more than the control group's time quota
/// pays for. At least 1.
///
/// # Cost
///
/// One system call; the quota is read once.
#[must_use]
pub fn usable() -> usize {
    static QUOTA: OnceLock<Option<usize>> = OnceLock::new();
    let quota = QUOTA.get_or_init(|| {
        let of_process = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        quota(&of_process, Path::new("/sys/fs/cgroup"))
    });
    let affinity = rustix::thread::sched_getaffinity(None)
        .map_or(1, |set| usize::try_from(set.count()).unwrap_or(1));
    affinity.min(quota.unwrap_or(usize::MAX)).max(1)
}

/// The smallest quota at any level above the process, in whole processors, rounded up.
fn quota(of_process: &str, root: &Path) -> Option<usize> {
    let mut least: Option<usize> = None;
    for line in of_process.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let is_first = controllers.split(',').any(|name| name == "cpu");
        if !is_first && !controllers.is_empty() {
            continue;
        }
        let mut folder = if is_first {
            root.join("cpu")
        } else {
            root.to_owned()
        };
        let mut look = |folder: &Path| {
            let found = if is_first {
                first(folder)
            } else {
                second(folder)
            };
            least = match (least, found) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        };
        look(&folder);
        for part in path
            .split('/')
            .filter(|part| !part.is_empty() && *part != "..")
        {
            folder.push(part);
            look(&folder);
        }
    }
    least
}

fn first(folder: &Path) -> Option<usize> {
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    let quota = read("cpu.cfs_quota_us")?.trim().parse().ok()?;
    let period = read("cpu.cfs_period_us")?.trim().parse().ok()?;
    processors(quota, period)
}

fn second(folder: &Path) -> Option<usize> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    processors(quota.parse().ok()?, period.parse().ok()?)
}

fn processors(quota_us: i64, period_us: i64) -> Option<usize> {
    let (quota, period) = (
        usize::try_from(quota_us).ok()?,
        usize::try_from(period_us).ok()?,
    );
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_of_either_generation_limits() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/cpu.max", "max 100000\n");
        assert_eq!(quota("0::/a\n", root.path()), None);
        write("a/cpu.max", "150000 100000\n");
        assert_eq!(quota("0::/a/b\n", root.path()), Some(2));
        write("cpu/cpu.cfs_quota_us", "-1\n");
        write("cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota("1:cpu,cpuacct:/\n", root.path()), None);
        write("cpu/x/cpu.cfs_quota_us", "50000\n");
        write("cpu/x/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota("1:cpu,cpuacct:/x\n", root.path()), Some(1));
        assert!(usable() >= 1);
    }
}
