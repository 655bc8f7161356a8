//! What is watched beside a program: writes below folders, the disk.

#![expect(
    clippy::unwrap_used,
    reason = "tests; helpers stand outside of test functions"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use towpath_measure::Nanos;
use towpath_watch::{DiskProbe, Known, Pressure, WriteWatch};

#[test]
fn writes_below_a_folder_are_counted_with_their_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("there")).unwrap();
    fs::write(path("before"), "not counted").unwrap();
    let watch = WriteWatch::start(&[folder.path().to_owned()]).unwrap();
    fs::write(path("a"), [0; 100]).unwrap();
    fs::write(path("there/b"), [0; 7]).unwrap();
    fs::write(path("a"), [0; 50]).unwrap();
    fs::write(path("there/b.new"), [0; 9]).unwrap();
    fs::rename(path("there/b.new"), path("there/b")).unwrap();
    fs::read(path("before")).unwrap();
    let seen = watch.end();
    let names: Vec<String> = seen
        .writes
        .iter()
        .map(|write| {
            write
                .path
                .strip_prefix(folder.path())
                .unwrap()
                .display()
                .to_string()
        })
        .collect();
    assert_eq!(names, ["a", "there/b", "a", "there/b.new", "there/b"]);
    assert!(!seen.is_incomplete);
    assert!(seen.writes.is_sorted_by_key(|write| write.at));
    // A length is that at the time of looking, which for a file written twice at once may be the later one.
    assert!(seen.bytes() <= 100 + 100 + 9 + 9 + 9, "{:?}", seen.writes);
}

#[test]
fn folders_made_meanwhile_are_watched_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let watch = WriteWatch::start(&[folder.path().to_owned()]).unwrap();
    let deep = folder.path().join("new/deeper");
    fs::create_dir_all(&deep).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    fs::write(deep.join("file"), [0; 11]).unwrap();
    let seen = watch.end();
    assert!(
        seen.writes.iter().any(|write| write.bytes == Some(11)),
        "{:?}",
        seen.writes
    );
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    assert!(WriteWatch::start(&["/no/such/folder".into()]).is_err());
    assert!(DiskProbe::start(Path::new("/no/such/folder"), 1 << 20).is_err());
    assert!(DiskProbe::start(Path::new("/tmp"), 100).is_err());
}

#[test]
fn the_probe_reads_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let probe = DiskProbe::start(folder.path(), 1 << 20).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    std::thread::sleep(Duration::from_millis(100));
    let seen = probe.end();
    assert!(!seen.reads.is_empty() && seen.failed == 0, "{seen:?}");
    assert_eq!(seen.over(Nanos::MAX), 0);
    assert_eq!(seen.over(Nanos::ZERO), seen.reads.len());
    assert_eq!(seen.quantile(1.0), seen.worst());
    assert!(seen.quantile(0.5) <= seen.worst());
}

#[test]
fn pressure_is_a_number_or_a_reason() {
    let passed = Pressure::now().since(&Pressure::now());
    for known in [passed.cpu, passed.memory, passed.io] {
        if let Known::Unavailable(reason) = known {
            assert!(!reason.is_empty());
        }
    }
}

/// Seconds of frames of a small program that computes and touches a file, as a game's loop does.
fn frames(folder: &Path) -> f64 {
    let path = folder.join("level");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    let start = std::time::Instant::now();
    let mut sum = 0_u64;
    for frame in 0..60_u64 {
        let bytes = fs::read(&path).unwrap();
        for round in 0..40_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(frame ^ round));
        }
        sum = sum.wrapping_add(bytes.len() as u64);
    }
    std::hint::black_box(sum);
    start.elapsed().as_secs_f64()
}

/// A/A: the same frames with the probe and without, alternated. The probe must not cost what it measures.
#[test]
fn frames_are_no_slower_beside_the_probe() {
    let folder = tempfile::tempdir().unwrap();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    frames(folder.path());
    for order in towpath_measure::design::order(5, 10) {
        for arm in order {
            if arm == towpath_measure::Arm::A {
                without.push(frames(folder.path()));
            } else {
                let probe = DiskProbe::start(folder.path(), 4 << 20).unwrap();
                with.push(frames(folder.path()));
                let seen = probe.end();
                assert!(!seen.reads.is_empty());
            }
        }
    }
    // Other tests run beside this one: a slowdown must be proven and beyond a tenth to count.
    let question = towpath_measure::judge::Question::lower_is_better().with_margin(0.1);
    let judged = towpath_measure::judge::paired(&without, &with, &question).unwrap();
    assert!(!judged.is_regression(), "{judged:?}");
}
