//! Bad folders, bad files, and the real disk's own counters.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use towpath_cache::storage::ProcessIo;
use towpath_cache::{Folder, Identity, Kind, Options, Pace, Store, open_or_memory};

use crate::common::{append, has, options};

/// A name, and what makes the thing in the way.
type Way = (&'static str, fn(&Path));

fn identity() -> Identity {
    Identity {
        vendor: 0x10de,
        device: 7,
        ..Identity::default()
    }
}

fn opened(roots: &[PathBuf]) -> towpath_cache::Opened {
    let options = Options {
        identity: identity().hash(),
        ..options()
    };
    open_or_memory(roots, &identity(), &options)
}

/// The program runs: appends are refused or work, and nothing panics.
fn goes_on(opened: &towpath_cache::Opened) -> bool {
    let worked = append(&opened.store, 1).is_ok();
    let _either = opened.store.flush();
    let _either = opened.store.seal();
    worked
}

#[test]
fn missing_folders_are_made_for_this_user_alone() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("a/b/c");
    let found = opened(std::slice::from_ref(&deep));
    assert_eq!(found.problems, Vec::<String>::new());
    assert!(goes_on(&found));
    for path in [
        root.path().join("a"),
        deep.clone(),
        deep.join(identity().folder_name()),
    ] {
        assert_eq!(
            std::fs::metadata(&path).unwrap().mode() & 0o7777,
            0o700,
            "{}",
            path.display()
        );
    }
    let text = deep.join(identity().folder_name()).join("identity.txt");
    assert!(
        std::fs::read_to_string(text)
            .unwrap()
            .contains("vendor = 0x10de")
    );
}

#[test]
fn whatever_is_in_the_way_gives_one_line_and_the_next_place() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name).join(identity().folder_name());
    let ways: [Way; 5] = [
        ("file", |p| std::fs::write(p, "x").unwrap()),
        ("link", |p| symlink("/tmp", p).unwrap()),
        ("dangling", |p| symlink("/nowhere/at/all", p).unwrap()),
        ("fifo", make_fifo),
        ("open", |p| {
            std::fs::create_dir(p).unwrap();
            std::fs::set_permissions(p, std::fs::Permissions::from_mode(0o777)).unwrap();
        }),
    ];
    for (name, make) in ways {
        std::fs::create_dir(root.path().join(name)).unwrap();
        make(&path(name));
        let found = opened(&[root.path().join(name), root.path().join("good")]);
        assert_eq!(found.problems.len(), 1, "{name}: {:?}", found.problems);
        assert!(!found.problems[0].contains('\n'));
        assert!(goes_on(&found), "{name}");
        let alone = opened(&[root.path().join(name)]);
        assert!(alone.folder.is_none() && !goes_on(&alone), "{name}");
    }
    let long = root.path().join("x".repeat(300));
    let found = opened(&[long, PathBuf::from("/proc/no")]);
    assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    assert!(!goes_on(&found));
}

fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn a_segment_that_is_a_fifo_a_link_or_another_users_is_left_out_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let found = opened(&[root.path().to_owned()]);
    assert!(goes_on(&found));
    let folder = root.path().join(identity().folder_name());
    make_fifo(&folder.join("0000000000000001.seg"));
    symlink("/etc/passwd", folder.join("0000000000000002.seg")).unwrap();
    std::fs::write(folder.join("0000000000000003.seg"), "").unwrap();
    std::fs::write(folder.join("0000000000000004.seg"), vec![7; 5000]).unwrap();
    let theirs = folder.join("0000000000000005.seg");
    std::fs::write(&theirs, "x").unwrap();
    let is_root = std::os::unix::fs::chown(&theirs, Some(12345), None).is_ok();
    let found = opened(&[root.path().to_owned()]);
    assert!(has(&found.store, 1));
    found.store.compact_all().unwrap();
    assert!(has(&opened(&[root.path().to_owned()]).store, 1));
    assert!(folder.join("0000000000000001.seg").exists());
    assert!(!is_root || theirs.exists());
}

#[test]
fn another_users_folder_is_not_used() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(identity().folder_name());
    std::fs::create_dir(&folder).unwrap();
    if std::os::unix::fs::chown(&folder, Some(12345), None).is_err() {
        return;
    }
    let found = opened(&[root.path().to_owned()]);
    assert!(
        found.problems[0].contains("user 12345"),
        "{:?}",
        found.problems
    );
}

#[test]
fn a_start_with_nothing_new_writes_no_byte_by_our_count_and_the_kernels() {
    let root = tempfile::tempdir().unwrap();
    let found = opened(&[root.path().to_owned()]);
    let blob = vec![5; 100_000];
    for n in 0..100_u32 {
        let mut blob = blob.clone();
        blob.extend_from_slice(&n.to_le_bytes());
        found
            .store
            .append(Kind::OVERLAY, &n.to_le_bytes(), &blob)
            .unwrap();
    }
    found.store.seal().unwrap();
    drop(found);
    let before = ProcessIo::now();
    let found = opened(&[root.path().to_owned()]);
    let folder = found.folder.as_ref().unwrap();
    for n in 0..100_u32 {
        assert_eq!(
            found
                .store
                .lookup(Kind::OVERLAY, &n.to_le_bytes())
                .unwrap()
                .len(),
            100_004
        );
    }
    found.store.seal().unwrap();
    let io = ProcessIo::now().since(&before);
    assert_eq!(folder.counts().bytes_written, 0);
    assert_eq!(folder.counts().syncs, 0);
    // Other tests' threads would count here: each test is a process of its own under nextest only.
    if std::env::args().any(|argument| argument == "--exact") {
        assert_eq!((io.wchar, io.write_bytes), (0, 0));
    }
}

#[test]
fn a_large_append_keeps_within_the_window() {
    let root = tempfile::tempdir().unwrap();
    let folder = Arc::new(Folder::open(&root.path().join("s")).unwrap());
    folder.set_pace(Pace {
        bytes_per_second_max: None,
        ..Pace::IN_PLAY
    });
    let disk: Arc<dyn towpath_cache::Disk> = Arc::<Folder>::clone(&folder);
    let store = Store::open(disk, options()).unwrap();
    let blob: Vec<u8> = (0..24 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    store.append(Kind::BLOB, b"big", &blob).unwrap();
    store.seal().unwrap();
    let counts = folder.counts();
    assert!(counts.in_flight_bytes_max <= 4 << 20, "{counts:?}");
    assert_eq!(&store.lookup(Kind::BLOB, b"big").unwrap()[..], blob);
}

#[test]
fn a_real_full_disk_keeps_the_old_data_and_says_so() {
    // /dev/full has no folder; a tiny tmpfs needs superuser rights.
    if !towpath_needs::can_run(&[towpath_needs::Need::Root]) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mount = |arguments: &[&str]| {
        std::process::Command::new("mount")
            .args(arguments)
            .status()
            .is_ok_and(|s| s.success())
    };
    let place = root.path().to_str().unwrap();
    if !mount(&["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", place]) {
        return;
    }
    let found = opened(&[root.path().to_owned()]);
    append(&found.store, 1).unwrap();
    found.store.seal().unwrap();
    let error = found
        .store
        .append(Kind::BLOB, b"big", &vec![1; 400_000])
        .unwrap_err();
    assert!(
        error.one_line().contains("No space left"),
        "{}",
        error.one_line()
    );
    assert!(has(&opened(&[root.path().to_owned()]).store, 1));
    drop(found);
    let unmounted = std::process::Command::new("umount")
        .args(["-l", place])
        .status();
    assert!(unmounted.unwrap().success());
}

#[test]
fn going_back_and_forth_between_two_drivers_stays_warm() {
    let root = tempfile::tempdir().unwrap();
    let drivers = [1, 2].map(|version| Identity {
        driver_version: version,
        ..identity()
    });
    for visit in 0..20 {
        let driver = &drivers[visit % 2];
        let options = Options {
            identity: driver.hash(),
            ..options()
        };
        let found = open_or_memory(&[root.path().to_owned()], driver, &options);
        let blob = vec![u8::try_from(driver.driver_version).unwrap(); 500];
        for n in 0..50_u32 {
            let key = n.to_le_bytes();
            if let Some(found) = found.store.lookup(Kind::BINARY, &key) {
                // Both write the same keys: what comes back must be the own driver's.
                assert_eq!(&found[..], blob);
            } else {
                assert!(visit < 2, "cold at visit {visit}");
                found.store.append(Kind::BINARY, &key, &blob).unwrap();
            }
        }
        found.store.seal().unwrap();
        if visit >= 2 {
            assert_eq!(found.folder.unwrap().counts().bytes_written, 0);
        }
    }
}

#[test]
fn a_file_that_is_far_too_large_is_left_out_at_once() {
    let root = tempfile::tempdir().unwrap();
    let found = opened(&[root.path().to_owned()]);
    assert!(goes_on(&found));
    let folder = root.path().join(identity().folder_name());
    let sparse = std::fs::File::create(folder.join("00000000000000aa.seg")).unwrap();
    // Eight tebibytes of nothing: mapping it may work, looking through it would take an hour.
    if sparse.set_len(1 << 43).is_err() {
        return;
    }
    let found = opened(&[root.path().to_owned()]);
    assert_eq!(found.store.stats().segments_skipped, 1);
    assert!(has(&found.store, 1));
    assert!(append(&found.store, 2).is_ok());
    found.store.seal().unwrap();
}
