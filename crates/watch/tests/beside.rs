//! What is watched beside a program: writes below folders, the disk.

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
