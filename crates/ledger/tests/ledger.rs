//! A ledger as its two sides see it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests; helpers stand outside of test functions"
)]

use std::fs;
use std::path::{Path, PathBuf};

use towpath_ledger::{
    Call, Counter, Error, FILE_BYTES, Histogram, HostPath, LedgerFile, Outcome, SiteKey, Stack,
    Writer, read_folder, remove_dead,
};
use towpath_measure::{Nanos, SignedNanos};
use towpath_settings::{Fix, Fixes, Mode};

fn key<'a>(call: &'a str, device: &'a str) -> SiteKey<'a> {
    SiteKey {
        path: HostPath::Readback,
        call,
        device,
        stack: Stack::NONE,
    }
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

fn filled(folder: &Path) -> Writer {
    let writer = Writer::create(folder, "opencl-layer", Fixes::none()).unwrap();
    let site = writer.site(&SiteKey {
        stack: Stack::capture(0),
        ..key("clEnqueueReadImage", "a GPU")
    });
    writer.record(
        site,
        &Call {
            start: Nanos(5),
            bytes: 4096,
            wall: Nanos(1000),
            faults: 3,
            cold_bytes: 4096,
            saved: SignedNanos(-7),
            outcome: Outcome::Prefaulted,
        },
    );
    writer.count(Counter::Contexts, 2);
    writer.histogram(Histogram::WaitNanos, 1023);
    writer.frame(Nanos(11));
    writer.frame(Nanos(22));
    writer
}

#[test]
fn what_was_recorded_is_read_and_survives_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path()));
    let (ledgers, problems) = read_folder(folder.path());
    assert!(problems.is_empty(), "{problems:?}");
    let ledger = &ledgers[0];
    assert_eq!(ledger.pid(), std::process::id());
    assert_eq!(ledger.library(), "opencl-layer");
    assert!(
        ledger.program().starts_with("ledger-"),
        "{}",
        ledger.program()
    );
    assert!(ledger.is_alive());
    assert_eq!(ledger.parent_pid(), None);
    let sites = ledger.sites();
    assert_eq!(sites.len(), 1);
    let site = &sites[0];
    assert_eq!(site.path, Some(HostPath::Readback));
    assert_eq!(
        (site.call.as_str(), site.device.as_str()),
        ("clEnqueueReadImage", "a GPU")
    );
    assert_eq!((site.calls, site.bytes, site.faults), (1, 4096, 3));
    assert_eq!((site.wall, site.saved), (Nanos(1000), SignedNanos(-7)));
    assert_eq!((site.cold_bytes, site.cold_unknown_calls), (4096, 0));
    assert_eq!(site.outcomes[0].outcome, Some(Outcome::Prefaulted));
    assert_eq!(site.walls.quantile_at_most(1.0), Some(1023));
    assert_eq!(site.stack.len(), 6);
    assert!(
        site.stack[0].module.starts_with("ledger-"),
        "{:?}",
        site.stack
    );
    assert_eq!(ledger.counters(), vec![(Counter::Contexts, 2)]);
    assert_eq!(ledger.histograms()[0].1.total(), 1);
    assert_eq!(ledger.frames().times, vec![Nanos(11), Nanos(22)]);
    let slowest = ledger.slowest();
    assert_eq!(slowest.len(), 1);
    assert_eq!(
        (slowest[0].site_hash, slowest[0].wall),
        (site.hash, Nanos(1000))
    );
}

#[test]
fn the_same_key_is_the_same_site_and_unknown_cold_bytes_stay_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    assert_eq!(writer.site(&key("a", "d")), writer.site(&key("a", "d")));
    assert_ne!(writer.site(&key("a", "d")), writer.site(&key("b", "d")));
    let call = Call {
        cold_bytes: Call::COLD_UNKNOWN,
        bytes: 9,
        ..Call::default()
    };
    writer.record(writer.site(&key("a", "d")), &call);
    let site = LedgerFile::open(&only_file(folder.path())).unwrap().sites()[0].clone();
    assert_eq!(
        (site.cold_bytes, site.cold_unknown_calls, site.warm_bytes),
        (0, 1, 0)
    );
}

#[test]
fn what_finds_no_room_is_counted_under_other() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    for number in 0..400 {
        let name = format!("call {number}");
        writer.record(writer.site(&key(&name, "d")), &Call::default());
    }
    let ledger = LedgerFile::open(&only_file(folder.path())).unwrap();
    let sites = ledger.sites();
    assert_eq!(sites.len(), 256);
    assert_eq!(sites.iter().map(|site| site.calls).sum::<u64>(), 400);
    let other = sites.iter().find(|site| site.is_overflow).unwrap();
    assert_eq!((other.call.as_str(), other.calls), ("other", 145));
    assert_eq!(ledger.counter(Counter::SitesOverflowed), 145);
}

#[test]
fn long_and_foreign_names_are_cut_between_characters() {
    let folder = tempfile::tempdir().unwrap();
    let library = "\u{1f6a2}../../x".repeat(9);
    let writer = Writer::create(folder.path(), &library, Fixes::none()).unwrap();
    let long = "\u{e4}".repeat(100);
    writer.record(writer.site(&key(&long, "\u{1b}[31mred")), &Call::default());
    let site = LedgerFile::open(&only_file(folder.path())).unwrap().sites()[0].clone();
    assert_eq!(site.call, "\u{e4}".repeat(23));
    assert_eq!(
        site.device, "?[31mred",
        "a terminal must not obey a device's name"
    );
}

#[test]
fn the_slowest_calls_are_kept_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    let site = writer.site(&key("a", "d"));
    for wall in (0..1000_u64).map(|n| n * 7919 % 1000) {
        let wall = Nanos(wall);
        writer.record(
            site,
            &Call {
                wall,
                ..Call::default()
            },
        );
    }
    let slowest = LedgerFile::open(&only_file(folder.path()))
        .unwrap()
        .slowest();
    let walls: Vec<u64> = slowest.iter().map(|call| call.wall.0).collect();
    assert_eq!(walls, (936..1000).rev().collect::<Vec<_>>());
}

#[test]
fn the_control_word_switches_fixes_in_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    assert_eq!(writer.fixes(), Fixes::none());
    let ledger = LedgerFile::open(&only_file(folder.path())).unwrap();
    let wanted = Fixes::none().with(Fix::Readback, Mode::Forced);
    ledger.set_fixes(wanted).unwrap();
    assert_eq!(writer.fixes(), wanted);
}

#[test]
fn frames_beyond_the_ring_keep_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    for time in 0..40_000 {
        writer.frame(Nanos(time));
    }
    let frames = LedgerFile::open(&only_file(folder.path()))
        .unwrap()
        .frames();
    assert_eq!(frames.presented, 40_000);
    assert_eq!(
        frames.times,
        (40_000 - 32_768..40_000).map(Nanos).collect::<Vec<_>>()
    );
}

#[test]
fn threads_that_enter_sites_at_once_lose_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let writer = &writer;
            scope.spawn(move || {
                for round in 0..2_000_usize {
                    let name = format!("call {}", (round * (thread + 1)) % 300);
                    let call = Call {
                        wall: Nanos(u64::try_from(round).unwrap()),
                        ..Call::default()
                    };
                    writer.record(writer.site(&key(&name, "d")), &call);
                }
            });
        }
    });
    let ledger = LedgerFile::open(&only_file(folder.path())).unwrap();
    let sites = ledger.sites();
    assert_eq!(sites.iter().map(|site| site.calls).sum::<u64>(), 8_000);
    let mut hashes: Vec<u64> = sites.iter().map(|site| site.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), sites.len(), "one site per key");
    assert_eq!(ledger.slowest()[0].wall, Nanos(1999));
}

#[test]
fn any_cut_is_told_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let writer = filled(folder.path());
    let whole = fs::read(only_file(folder.path())).unwrap();
    drop(writer);
    assert_eq!(whole.len(), FILE_BYTES);
    let lengths = (0..300).chain((300..FILE_BYTES).step_by(4099));
    for length in lengths {
        let error = LedgerFile::parse(whole[..length].to_vec(), Path::new("cut")).unwrap_err();
        let expected = match length {
            1..12 => matches!(error, Error::NotALedger { .. }),
            _ => matches!(error, Error::Truncated { found, .. } if found == length),
        };
        assert!(expected, "{length}: {error}");
    }
}

/// Everything that a reader offers.
fn read_all(ledger: &LedgerFile) -> usize {
    let sites: usize = ledger
        .sites()
        .iter()
        .map(|site| format!("{site:?}").len())
        .sum();
    sites
        + format!("{:?}", ledger.slowest()).len()
        + ledger.frames().times.len()
        + format!("{:?}", ledger.histograms()).len()
        + format!("{:?}", ledger.counters()).len()
        + ledger.program().len()
        + ledger.library().len()
        + usize::from(ledger.is_alive())
}

#[test]
fn flipped_bits_give_other_numbers_or_an_error_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let writer = filled(folder.path());
    let whole = fs::read(only_file(folder.path())).unwrap();
    drop(writer);
    // Some bits of every byte that is not zero, and of some that are.
    let used = whole
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte != 0)
        .map(|(at, _)| at);
    let places: Vec<usize> = used.chain((0..FILE_BYTES).step_by(9_973)).collect();
    for place in places {
        for bit in [0, 7] {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            if let Ok(ledger) = LedgerFile::parse(damaged, Path::new("flipped")) {
                assert!(read_all(&ledger) > 0);
            }
        }
    }
}

#[test]
fn random_bytes_behind_a_true_head_are_read_without_panic() {
    let folder = tempfile::tempdir().unwrap();
    let writer = filled(folder.path());
    let whole = fs::read(only_file(folder.path())).unwrap();
    drop(writer);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..4 {
        let mut hostile = whole.clone();
        for byte in &mut hostile[16..] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = u8::try_from(state & 0xff).unwrap();
        }
        let ledger = LedgerFile::parse(hostile, Path::new("random")).unwrap();
        assert!(read_all(&ledger) > 0);
        let texts = ledger
            .sites()
            .into_iter()
            .flat_map(|site| [site.call, site.device]);
        assert!(
            texts
                .into_iter()
                .all(|text| !text.contains(char::is_control))
        );
    }
}

#[test]
fn foreign_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    drop(filled(folder.path()));
    let mut other_version = fs::read(only_file(folder.path())).unwrap();
    other_version[8] = 99;
    fs::rename(only_file(folder.path()), path("0-good.ledger")).unwrap();
    fs::write(path("1-version.ledger"), &other_version).unwrap();
    fs::write(path("2-text.ledger"), "I am no ledger at all").unwrap();
    fs::write(path("3-empty.ledger"), "").unwrap();
    fs::create_dir(path("4-folder.ledger")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path("5-link.ledger")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path("6-pipe.ledger"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    fs::write(path("readme.txt"), "not asked for").unwrap();
    let (ledgers, problems) = read_folder(folder.path());
    assert_eq!(ledgers.len(), 1);
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 6, "{texts:?}");
    assert!(
        matches!(problems[0].error, Error::WrongVersion { found: 99, .. }),
        "{texts:?}"
    );
    assert!(
        matches!(problems[1].error, Error::NotALedger { .. }),
        "{texts:?}"
    );
    assert!(
        matches!(problems[2].error, Error::Truncated { found: 0, .. }),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .zip(1..)
            .all(|(text, n)| text.contains(&format!("/{n}-"))),
        "{texts:?}"
    );
}

#[test]
fn only_ledgers_of_dead_processes_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let writer = filled(folder.path());
    let mine = only_file(folder.path());
    let mut dead = fs::read(&mine).unwrap();
    // Another start of the process: its id is in use, by another one.
    dead[24] ^= 1;
    fs::write(folder.path().join("1-dead.ledger"), &dead).unwrap();
    fs::write(folder.path().join("4294967295-cut.ledger"), &dead[..50]).unwrap();
    let me = std::process::id();
    fs::write(folder.path().join(format!("{me}-cut.ledger")), &dead[..50]).unwrap();
    fs::write(folder.path().join("note.txt"), "").unwrap();
    let (removed, problems) = remove_dead(folder.path());
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(removed, 2);
    assert!(mine.exists() && folder.path().join("note.txt").exists());
    drop(writer);
}

#[test]
fn a_folder_that_is_not_there_gives_an_error_that_names_it() {
    let error = Writer::create(Path::new("/no/such/folder"), "l", Fixes::none()).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    let (ledgers, problems) = read_folder(Path::new("/no/such/folder"));
    assert!(ledgers.is_empty() && problems.is_empty());
}

#[test]
fn waits_are_totals_whether_their_site_found_room_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    let of = |nanos, outcome| Call {
        wall: Nanos(nanos),
        outcome,
        ..Call::default()
    };
    let wait = |site| {
        writer.wait(site, &of(100, Outcome::Observed), 0, false);
        writer.wait(site, &of(100, Outcome::Observed), 1, true);
        writer.wait(site, &of(1 << 41, Outcome::Observed), 1, false);
        writer.wait(site, &of(7, Outcome::WaitSkipped), 3, true);
    };
    let first = writer.wait_site(&key("wait", "d"));
    wait(first);
    // Another site's calls are no waits.
    writer.record(writer.site(&key("read", "d")), &Call::default());
    let check = |times: u64| {
        let ledger = LedgerFile::open(&only_file(folder.path())).unwrap();
        assert_eq!(ledger.counter(Counter::WaitsEntered), 3 * times);
        assert_eq!(ledger.counter(Counter::WaitsRepeated), 2 * times);
        let histograms = ledger.histograms();
        let find = |wanted| histograms.iter().find(|(found, _)| *found == wanted);
        let walls = &find(Histogram::WaitNanos).unwrap().1;
        assert_eq!((walls.0[7], walls.0[3]), (2 * times, times));
        assert_eq!((walls.0[42], walls.total()), (times, 4 * times));
        let objects = &find(Histogram::WaitMoreObjects).unwrap().1;
        assert_eq!((objects.0[0], objects.0[2]), (3 * times, times));
        assert_eq!(objects.total(), 4 * times);
    };
    check(1);
    for number in 0..400 {
        let _room = writer.site(&key(&format!("call {number}"), "d"));
    }
    let other = writer.wait_site(&key("late", "d"));
    assert_ne!(other, first);
    wait(other);
    check(2);
}

#[test]
fn calls_that_were_only_observed_are_the_rest_of_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), "l", Fixes::none()).unwrap();
    let site = writer.site(&key("a", "d"));
    for outcome in [Outcome::Observed, Outcome::Off, Outcome::Observed] {
        let call = Call {
            outcome,
            ..Call::default()
        };
        writer.record(site, &call);
    }
    let site = LedgerFile::open(&only_file(folder.path())).unwrap().sites()[0].clone();
    assert_eq!(site.calls, 3);
    let counts: Vec<_> = site.outcomes.iter().map(|o| (o.outcome, o.calls)).collect();
    let expected = [(Some(Outcome::Observed), 2), (Some(Outcome::Off), 1)];
    assert_eq!(counts, expected);
}
