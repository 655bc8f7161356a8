//! `towpath cache` from outside: a store made by the library, looked at and changed by the program.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use towpath_cache::{Identity, Kind, Options, open_or_memory};

struct Place {
    folder: tempfile::TempDir,
    store: PathBuf,
}

fn blob(seed: u8) -> Vec<u8> {
    let mut blob = vec![32, 0, 0, 0, 1, 0, 0, 0, 0xde, 0x10, 0, 0, 7, 0, 0, 0];
    blob.extend([9; 16]);
    blob.extend(std::iter::repeat_n(seed, 5000));
    blob
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity {
        vendor: 0x10de,
        device: 7,
        ..Identity::default()
    };
    let root = folder.path().join("root");
    let options = Options::new(identity.hash());
    let opened = open_or_memory(std::slice::from_ref(&root), &identity, &options);
    for seed in 0..5 {
        opened
            .store
            .append(Kind::OVERLAY, &[seed], &blob(seed))
            .unwrap();
    }
    opened.store.seal().unwrap();
    let store = root.join(identity.folder_name());
    Place { folder, store }
}

fn towpath(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.arg("cache").args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_sound_store_is_verified_and_a_damaged_one_is_exit_code_2() {
    let place = place();
    let report = place.folder.path().join("report.json");
    let good = towpath(&["verify", text(&place.store), "--json", text(&report)]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert_eq!(json(&report)["schema"], "towpath.cache-verify/1");
    assert_eq!(
        json(&report)["stores"][0]["segments"][0]["records_sound"],
        5
    );
    let listed = std::fs::read_dir(&place.store).unwrap();
    let mut files = listed.map(|entry| entry.unwrap().path());
    let segment = files
        .find(|p| p.extension().is_some_and(|e| e == "seg"))
        .unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let bad = towpath(&["verify", text(&place.store), "--json", text(&report)]);
    assert_eq!(bad.status.code(), Some(2), "{bad:?}");
    assert_eq!(
        json(&report)["stores"][0]["segments"][0]["records_damaged"],
        1
    );
}

#[test]
fn what_is_exported_comes_back_byte_by_byte() {
    let place = place();
    let out = place.folder.path().join("out");
    let done = towpath(&["export", text(&place.store), "--out", text(&out)]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let empty = place.folder.path().join("empty");
    let identity = Identity {
        vendor: 1,
        ..Identity::default()
    };
    let options = Options::new(identity.hash());
    drop(open_or_memory(
        std::slice::from_ref(&empty),
        &identity,
        &options,
    ));
    let into = empty.join(identity.folder_name());
    let done = towpath(&["import", text(&out), "--into", text(&into)]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let (store, _folder) = towpath_cache::open_existing(&into, true).unwrap();
    for seed in 0..5 {
        assert_eq!(
            &store.lookup(Kind::OVERLAY, &[seed]).unwrap()[..],
            blob(seed)
        );
    }
    // A changed file is refused.
    std::fs::write(out.join("000000.overlay"), b"other").unwrap();
    let done = towpath(&["import", text(&out), "--into", text(&into)]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("is not what was exported"));
}

#[test]
fn a_file_of_another_program_is_inspected_imported_and_diffed() {
    let place = place();
    let path = |name: &str| place.folder.path().join(name);
    let yuzu = [&b"yuzuvkch"[..], &11_u32.to_le_bytes(), &blob(77)].concat();
    std::fs::write(path("vulkan.bin"), &yuzu).unwrap();
    let seen = towpath(&["inspect", text(&path("vulkan.bin"))]);
    assert!(
        String::from_utf8_lossy(&seen.stdout).contains("behind yuzu's header"),
        "{seen:?}"
    );
    for extra in [None, Some("--as-overlay")] {
        let file = path("vulkan.bin");
        let mut arguments = vec!["import", text(&file), "--into", text(&place.store)];
        arguments.extend(extra);
        let done = towpath(&arguments);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }
    let (store, _folder) = towpath_cache::open_existing(&place.store, true).unwrap();
    assert_eq!(&store.lookup(Kind::BLOB, b"vulkan.bin").unwrap()[..], yuzu);
    assert_eq!(store.entries(Some(Kind::OVERLAY)).len(), 6);
    std::fs::write(path("longer.bin"), [&yuzu[..], &[1; 99]].concat()).unwrap();
    let seen = towpath(&[
        "inspect",
        "--diff",
        text(&path("vulkan.bin")),
        text(&path("longer.bin")),
    ]);
    assert!(
        String::from_utf8_lossy(&seen.stdout).contains("append-only"),
        "{seen:?}"
    );
    std::fs::write(path("junk"), "junk").unwrap();
    let seen = towpath(&["inspect", text(&path("junk"))]);
    assert_eq!(seen.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&seen.stderr).contains("no known form"));
}

#[test]
fn merging_and_pruning_say_what_they_did() {
    let (place, other) = (place(), place());
    let report = place.folder.path().join("report.json");
    let extra = towpath_cache::open_existing(&other.store, false).unwrap().0;
    extra.append(Kind::OVERLAY, b"new", &blob(50)).unwrap();
    extra.seal().unwrap();
    drop(extra);
    let done = towpath(&[
        "merge",
        text(&place.store),
        text(&other.store),
        "--json",
        text(&report),
    ]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(json(&report)["merged"][0]["copied"], 1);
    assert_eq!(json(&report)["merged"][0]["known"], 5);
    let arguments = [
        "prune",
        text(&place.store),
        "--max-bytes",
        "16KiB",
        "--json",
        text(&report),
    ];
    let done = towpath(&arguments);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let after = json(&report)["stores"][0]["bytes_after"].as_u64().unwrap();
    assert!(after <= 16 << 10, "{after}");
    let seen = towpath(&["stats", text(&place.store)]);
    assert!(
        String::from_utf8_lossy(&seen.stdout).contains("overlay"),
        "{seen:?}"
    );
}

#[test]
fn blobs_are_tried_on_the_driver_in_a_child_process() {
    if !towpath_needs::can_run(&[towpath_needs::Need::Lavapipe]) {
        return;
    }
    let place = place();
    let done = towpath(&["verify", "--driver", text(&place.store)]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("5 blobs, 0 put into quarantine"));
    // A device that is not there must not put everything into quarantine.
    let done = towpath(&["verify", "--driver", "--device", "99", text(&place.store)]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
}

/// The Vulkan layer keeps a folder per program, and in it one per driver: `stats` without a path, and with
/// any folder above, finds what the layer wrote.
#[test]
fn the_stores_that_the_vulkan_layer_makes_are_found() {
    let place = place();
    let home = place.folder.path().join("home");
    let game = home.join(".cache/towpath/vulkan/game");
    std::fs::create_dir_all(&game).unwrap();
    std::fs::rename(&place.store, game.join("10de-7-aa")).unwrap();
    std::os::unix::fs::symlink(&home, game.join("loop")).unwrap();
    let stats = |variable: &str, value: &Path, folder: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.env_remove("TOWPATH_CACHE_DIR");
        command.env_remove("XDG_CACHE_HOME");
        command
            .args(["cache", "stats"])
            .args(folder)
            .env(variable, value);
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        told.matches("1 segments").count()
    };
    assert_eq!(stats("HOME", &home, None), 1);
    assert_eq!(stats("XDG_CACHE_HOME", &home.join(".cache"), None), 1);
    assert_eq!(stats("TOWPATH_CACHE_DIR", game.parent().unwrap(), None), 1);
    assert_eq!(stats("HOME", Path::new("/nowhere"), Some(&game)), 1);
}
