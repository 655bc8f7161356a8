//! What a ledger survives: fork, SIGKILL, closed descriptors, full file systems.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "forks, and fills file systems, on purpose"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use towpath_ledger::{
    Call, Counter, Error, HostPath, LedgerFile, Operation, SiteId, SiteKey, Stack, Writer,
    read_folder,
};
use towpath_measure::Nanos;
use towpath_needs::{Need, can_run};
use towpath_settings::{Fix, Fixes, Mode};

fn site(writer: &Writer, call: &str) -> SiteId {
    writer.site(&SiteKey {
        path: HostPath::Readback,
        call,
        device: "d",
        stack: Stack::NONE,
    })
}

fn record(writer: &Writer, site: SiteId) {
    let wall = Nanos(10);
    writer.record(
        site,
        &Call {
            wall,
            ..Call::default()
        },
    );
}

/// Runs `body` in a forked child and gives its exit status.
fn in_child(body: impl FnOnce()) -> i32 {
    // SAFETY: the child uses only what this thread owns, and ends without running destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

fn calls(ledger: &LedgerFile) -> Vec<(String, u64)> {
    ledger
        .sites()
        .into_iter()
        .map(|site| (site.call, site.calls))
        .collect()
}

#[test]
fn a_forked_child_never_writes_into_its_parents_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    let before_fork = site(&writer, "before");
    record(&writer, before_fork);
    let status = in_child(|| {
        for _ in 0..5 {
            record(&writer, before_fork);
        }
        record(&writer, site(&writer, "child's own"));
        writer.count(Counter::Contexts, 1);
    });
    assert_eq!(status, 0);
    record(&writer, before_fork);

    let (ledgers, problems) = read_folder(folder.path());
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(ledgers.len(), 2);
    let me = std::process::id();
    let parents = ledgers.iter().find(|ledger| ledger.pid() == me).unwrap();
    let childs = ledgers.iter().find(|ledger| ledger.pid() != me).unwrap();
    assert_eq!(calls(parents), vec![("before".to_owned(), 2)]);
    assert_eq!(parents.counter(Counter::Contexts), 0);
    let mut found = calls(childs);
    found.sort();
    // The site known from before the fork keeps its id and its name.
    assert_eq!(
        found,
        vec![("before".to_owned(), 5), ("child's own".to_owned(), 1)]
    );
    assert_eq!(childs.parent_pid(), Some(me));
    assert!(parents.is_alive() && !childs.is_alive());
}

#[test]
fn a_child_that_records_nothing_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    assert_eq!(in_child(|| ()), 0);
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_child_without_room_goes_without_and_lives() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let fixes = Fixes::none().with(Fix::Waits, Mode::Forced);
    let writer = Writer::create(&inner, "l", fixes).unwrap();
    let known = site(&writer, "a");
    fs::remove_dir_all(&inner).unwrap();
    let status = in_child(|| {
        record(&writer, known);
        record(&writer, site(&writer, "b"));
        assert_eq!(writer.fixes(), fixes);
    });
    assert_eq!(status, 0);
    record(&writer, known);
}

#[test]
fn fixes_that_were_switched_before_a_fork_are_the_childs_too() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    read_folder(folder.path())
        .0
        .remove(0)
        .set_fixes(Fixes::auto())
        .unwrap();
    let status = in_child(|| assert_eq!(writer.fixes(), Fixes::auto()));
    assert_eq!(status, 0);
}

#[test]
fn grandchildren_have_their_own_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    let known = site(&writer, "a");
    let status = in_child(|| {
        record(&writer, known);
        let inner = in_child(|| record(&writer, known));
        assert_eq!(inner, 0);
    });
    assert_eq!(status, 0);
    let (ledgers, _) = read_folder(folder.path());
    assert_eq!(ledgers.len(), 3);
    let with_calls = ledgers
        .iter()
        .filter(|ledger| calls(ledger) == [("a".to_owned(), 1)]);
    assert_eq!(with_calls.count(), 2);
}

#[test]
fn what_was_recorded_survives_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let status = in_child(|| {
        let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
        for _ in 0..1_000 {
            record(&writer, site(&writer, "a"));
        }
        let me = i32::try_from(std::process::id()).unwrap();
        // SAFETY: takes no pointer; ends this process.
        unsafe { libc::kill(me, libc::SIGKILL) };
    });
    assert!(libc::WIFSIGNALED(status));
    let (ledgers, problems) = read_folder(folder.path());
    assert!(problems.is_empty());
    assert_eq!(calls(&ledgers[0]), vec![("a".to_owned(), 1_000)]);
    assert!(!ledgers[0].is_alive());
}

/// A small tmpfs of its own, gone at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, bytes: &str) -> Self {
        let option = format!("size={bytes}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "tmpfs"])
            .arg(at)
            .status();
        assert!(mounted.unwrap().success());
        Self(at.to_owned())
    }

    /// Leaves not one free page.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("ballast")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_tmpfs_neither_kills_a_program_nor_leaves_a_stump() {
    if !can_run(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(folder.path(), "1m");
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    disk.fill();
    // Without room allocated beforehand the first of these is SIGBUS, and this test program dies.
    touch_every_page(&writer);
    let error = Writer::create(folder.path(), "second", Fixes::none()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Io {
                operation: Operation::Allocate,
                ..
            }
        ),
        "{error}"
    );
    let ledgers = fs::read_dir(folder.path()).unwrap().flatten();
    let ledgers = ledgers.filter(|file| file.file_name().to_string_lossy().ends_with(".ledger"));
    assert_eq!(ledgers.count(), 1, "the second one's file is gone again");
}

fn touch_every_page(writer: &Writer) {
    for number in 0..400 {
        record(writer, site(writer, &format!("call {number}")));
    }
    for time in 0..40_000 {
        writer.frame(Nanos(time));
    }
}

#[test]
fn a_read_only_folder_is_an_error_and_nothing_more() {
    if !can_run(&[Need::Root]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(folder.path(), "1m");
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(folder.path())
        .status();
    assert!(remounted.unwrap().success());
    let error = Writer::create(folder.path(), "l", Fixes::none()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Io {
                operation: Operation::Create,
                ..
            }
        ),
        "{error}"
    );
    drop(disk);
}

/// A program may forbid itself files beyond a size (`ulimit -f`): then it goes without a ledger, and lives. A
/// signal of its own stays its own.
#[test]
fn a_limit_on_the_size_of_files_costs_the_ledger_and_not_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let limits = |bytes| libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    let (low, high) = (limits(1024), limits(libc::RLIM_INFINITY));
    let status = in_child(|| {
        // SAFETY: a valid limit; only this child has it.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const low) };
        let is_refused = Writer::create(folder.path(), "l", Fixes::none()).is_err();
        // SAFETY: a wider limit again, so that only what came before can kill.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const high) };
        let is_made = Writer::create(folder.path(), "l", Fixes::none()).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if is_refused && is_made { 33 } else { 34 }) };
    });
    assert!(
        libc::WIFEXITED(status),
        "killed by {}",
        libc::WTERMSIG(status)
    );
    assert_eq!(libc::WEXITSTATUS(status), 33);
    let left = fs::read_dir(folder.path()).unwrap();
    assert_eq!(left.count(), 1, "the refused file is gone");
}
