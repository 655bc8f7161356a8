//! Many processes on one folder, killed at random moments while others compact.
//!
//! What must hold: every entry whose acknowledgement was read from a process's output is there, whole.
//! `TOWPATH_TEST_SECONDS` sets how long it goes on (4 otherwise); `cargo xtask deep` sets 60.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use towpath_cache::{Error, Folder, Kind, Store};

use crate::common::options;

const FOLDER: &str = "TOWPATH_TEST_FOLDER";
const NAME: &str = "TOWPATH_TEST_NAME";
const WRITERS: usize = 4;

#[expect(clippy::disallowed_methods, reason = "tests only")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn open(folder: &Path) -> Store {
    Store::open(Arc::new(Folder::open(folder).unwrap()), options()).unwrap()
}

/// The payload under a key: anybody can tell whether it is whole.
fn payload(key: &str) -> Vec<u8> {
    let mut random =
        fastrand::Rng::with_seed(towpath_cache::ContentId::of(key.as_bytes()).0[0].into());
    let len = random.usize(100..30_000);
    let mut bytes = key.as_bytes().to_vec();
    bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(len));
    bytes
}

/// A process that appends until it is killed; prints a key once it is acknowledged.
#[test]
#[ignore = "started by the tests below"]
fn writer_process() {
    let Some(folder) = variable(FOLDER) else {
        return;
    };
    let name = variable(NAME).unwrap();
    let store = open(Path::new(&folder));
    let mut random = fastrand::Rng::new();
    let mut out = std::io::stdout();
    for n in 0_u64.. {
        let mut keys = Vec::new();
        for part in 0..random.u32(1..8) {
            let key = format!("{name} {n} {part}");
            keys.push((
                store
                    .append(Kind::BLOB, key.as_bytes(), &payload(&key))
                    .unwrap(),
                key,
            ));
        }
        store.flush().unwrap();
        for (ticket, key) in keys {
            assert!(store.is_durable(ticket));
            writeln!(out, "acknowledged {key}").unwrap();
        }
        out.flush().unwrap();
        if random.u8(0..10) == 0 {
            store.seal().unwrap();
        }
    }
}

/// A process that compacts until it is killed.
#[test]
#[ignore = "started by the tests below"]
fn compactor_process() {
    let Some(folder) = variable(FOLDER) else {
        return;
    };
    let store = open(Path::new(&folder));
    loop {
        match store.compact_all() {
            Ok(_) | Err(Error::Busy { .. }) => {}
            Err(error) => panic!("{}", error.one_line()),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start(role: &str, folder: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            &format!("many::{role}_process"),
        ])
        .env(FOLDER, folder)
        .env(NAME, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Lets one process run for a random time and kills it; returns what it acknowledged.
fn one_life(role: &str, folder: &Path, name: &str, life: Duration) -> Vec<String> {
    let mut child = start(role, folder, name);
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let lines = output.lines().map_while(Result::ok);
        let key = |line: String| line.strip_prefix("acknowledged ").map(str::to_owned);
        lines.filter_map(key).collect()
    });
    std::thread::sleep(life);
    assert!(
        child.try_wait().unwrap().is_none(),
        "a {role} ended by itself"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn processes_killed_at_random_lose_nothing_acknowledged_and_tear_nothing() {
    let seconds = variable("TOWPATH_TEST_SECONDS")
        .and_then(|s| s.parse().ok())
        .unwrap_or(4);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("store");
    open(&folder);
    let end = Instant::now() + Duration::from_secs(seconds);
    let sure: Mutex<HashSet<String>> = Mutex::default();
    let kills = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (folder, sure, kills) = (&folder, &sure, &kills);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(writer as u64);
                for life in 0.. {
                    if Instant::now() >= end {
                        break;
                    }
                    let time = Duration::from_millis(random.u64(50..700));
                    let name = format!("w{writer}-{life}");
                    let keys = one_life("writer", folder, &name, time);
                    sure.lock().unwrap().extend(keys);
                    kills.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(99);
            while Instant::now() < end {
                let time = Duration::from_millis(random.u64(100..600));
                one_life("compactor", &folder, "c", time);
                kills.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    let sure = sure.into_inner().unwrap();
    assert!(sure.len() > 20, "only {} acknowledged", sure.len());
    let store = open(&folder);
    for key in &sure {
        let blob = store.lookup(Kind::BLOB, key.as_bytes());
        assert!(
            blob.is_some_and(|blob| *blob == *payload(key)),
            "{key} lost"
        );
    }
    // What nobody acknowledged may be there or not, but never in part.
    for entry in store.entries(Some(Kind::BLOB)) {
        if let Some(blob) = store.lookup(Kind::BLOB, &entry.key) {
            assert!(*blob == *payload(std::str::from_utf8(&entry.key).unwrap()));
        }
    }
    let verification = store.verify().unwrap();
    assert!(verification.is_sound(), "{verification:?}");
    println!(
        "{seconds} s: {} processes killed, {} entries acknowledged, {} of them there and whole, {} records sound, {} damaged",
        kills.into_inner(),
        sure.len(),
        sure.len(),
        verification.records_sound(),
        verification.records_damaged()
    );
}
