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
fn an_append_keeps_to_the_rate() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(&root.path().join("s")).unwrap();
    folder.set_pace(Pace {
        bytes_per_second_max: Some(32_000_000),
        heeds_pressure: false,
        ..Pace::IN_PLAY
    });
    let store = Store::open(Arc::new(folder), options()).unwrap();
    let began = std::time::Instant::now();
    store.append(Kind::BLOB, b"k", &vec![1; 12 << 20]).unwrap();
    let took = began.elapsed().as_millis();
    // The first MiB goes at once: eleven of twelve wait.
    assert!(took >= (11 << 20) * 1000 / 32_000_000, "{took} ms");
}

const FOLDER: &str = "TOWPATH_TEST_FOLDER";

#[expect(clippy::disallowed_methods, reason = "tests only")]
fn folder_of_the_test() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// This test program again, for one of the tests that are started by others.
fn again(name: &str, folder: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([
        "--ignored",
        "--exact",
        "--nocapture",
        &format!("folders::{name}"),
    ]);
    command.env(FOLDER, folder);
    command
}

fn succeeds(command: &mut std::process::Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{output:?}"
    );
}

/// Nobody, on most systems.
const USER: u32 = 65_534;

/// Run by a user who is not root: rights count there.
#[test]
#[ignore = "started by the test below"]
fn as_another_user() {
    let Some(root) = folder_of_the_test() else {
        return;
    };
    let at = |name: &str| root.join(name);
    // Root's own folder, one that may be read only, a read-only file system: each one line, then the next.
    for name in ["roots", "readable", "mounted"] {
        let found = opened(&[at(name), at("mine")]);
        assert_eq!(found.problems.len(), 1, "{name}: {:?}", found.problems);
        assert!(!found.problems[0].contains('\n'));
        assert_eq!(
            found.folder.as_ref().unwrap().path().parent(),
            Some(&*at("mine")),
            "{name}"
        );
        assert!(goes_on(&found), "{name}");
    }
    // With no other place, what can be read is read, and what cannot be written is said.
    let found = opened(&[at("readable")]);
    assert!(found.store.is_read_only() && has(&found.store, 1));
    append(&found.store, 2).unwrap_err();
    found.store.seal().unwrap();
    let alone = opened(&[at("roots")]);
    assert!(alone.folder.is_none() && !goes_on(&alone));
}

#[test]
fn a_user_without_rights_gets_the_next_place_or_what_can_be_read() {
    use std::os::unix::process::CommandExt as _;
    if !towpath_needs::can_run(&[towpath_needs::Need::Root]) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let chmod = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    chmod(root.path(), 0o755);
    let at = |name: &str| root.path().join(name);
    assert!(goes_on(&opened(&[at("roots")])));
    assert!(goes_on(&opened(&[at("readable")])));
    let store = at("readable").join(identity().folder_name());
    for entry in std::fs::read_dir(&store).unwrap() {
        let file = entry.unwrap().path();
        give(&file);
        chmod(&file, 0o444);
    }
    for (folder, mode) in [(&store, 0o555), (&at("readable"), 0o755)] {
        give(folder);
        chmod(folder, mode);
    }
    std::fs::create_dir(at("mine")).unwrap();
    give(&at("mine"));
    std::fs::create_dir(at("mounted")).unwrap();
    let mounted = at("mounted").to_str().unwrap().to_owned();
    let mount = [
        "-t",
        "tmpfs",
        "-o",
        "ro,size=64k,mode=755",
        "tmpfs",
        &mounted,
    ];
    let mount = std::process::Command::new("mount").args(mount).status();
    assert!(mount.unwrap().success());
    // The program itself must be within that user's reach.
    let program = at("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(again("as_another_user", root.path()).get_args());
    command.env(FOLDER, root.path()).current_dir("/");
    let output = command.uid(USER).gid(USER).output().unwrap();
    let unmount = std::process::Command::new("umount")
        .args(["-l", &mounted])
        .status();
    assert!(unmount.unwrap().success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{output:?}"
    );
}

/// Under a limit of its address space that is smaller than the store.
#[test]
#[ignore = "started by the test below"]
fn in_a_small_address_space() {
    let Some(root) = folder_of_the_test() else {
        return;
    };
    let limit = rustix::process::Rlimit {
        current: Some(700 << 20),
        maximum: Some(700 << 20),
    };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    let found = opened(std::slice::from_ref(&root));
    let there = found.store.entries(Some(Kind::BLOB));
    assert!((1..12).contains(&there.len()), "{} entries", there.len());
    for entry in &there {
        assert!(found.store.lookup(entry.kind, &entry.key).is_some());
    }
    assert!(goes_on(&found));
}

/// Overte PR 2212, azahar #1960: more than a gigabyte crashed at every start.
#[test]
fn a_store_larger_than_the_address_space_is_used_in_part_and_pruned_to_the_cap() {
    let root = tempfile::tempdir().unwrap();
    let mut blob = vec![0_u8; 100 << 20];
    for n in 0..12_u8 {
        let found = opened(&[root.path().to_owned()]);
        blob[0] = n;
        found.store.append(Kind::BLOB, &[n], &blob).unwrap();
        found.store.seal().unwrap();
    }
    // Zeros need no place on the disk: what is left are headers and indexes.
    for entry in std::fs::read_dir(root.path().join(identity().folder_name())).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "seg") {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let flags =
                rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            let _where_it_can = rustix::fs::fallocate(&file, flags, 1 << 20, 98 << 20);
        }
    }
    succeeds(&mut again("in_a_small_address_space", root.path()));
    let found = opened(&[root.path().to_owned()]);
    let cap = 350 << 20;
    let limits = towpath_cache::Limits {
        bytes_max: Some(cap),
        ..towpath_cache::Limits::default()
    };
    let done = found.store.prune(&limits).unwrap();
    assert!(done.bytes_after <= cap, "{done:?}");
    assert_eq!(found.store.entries(Some(Kind::BLOB)).len(), 3);
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
