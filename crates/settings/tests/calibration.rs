//! Calibration files: kept whole, damage found, hostile bytes survived.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use std::path::Path;

use towpath_settings::calibration::{Entry, Error, FILE_BYTES_MAX, Key, Snapshot, Store};
use towpath_settings::{Settings, calibration};

fn entry(device: &str) -> Entry {
    let key = Key::of_this_machine("readback", device, "driver 1.2");
    Entry::new(key, &vec![(1_u64, 0.1_f64), (2, 3.5e-9)]).unwrap()
}

#[test]
fn a_saved_calibration_comes_back_and_another_key_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("made/on/demand"));
    let saved = entry("GPU of ours");
    assert_eq!(store.load(&saved.key).unwrap(), None);
    store.save(&saved).unwrap();
    let found = store.load(&saved.key).unwrap().unwrap();
    assert_eq!(found, saved);
    assert_eq!(
        found.values::<Vec<(u64, f64)>>().unwrap(),
        vec![(1, 0.1), (2, 3.5e-9)]
    );
    assert!(found.values::<String>().is_err());
    assert_eq!(store.load(&entry("another").key).unwrap(), None);
}

#[test]
fn saving_again_replaces_and_leaves_nothing_beside() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let mut saved = entry("a");
    store.save(&saved).unwrap();
    saved.made_at_s = 7;
    store.save(&saved).unwrap();
    assert_eq!(store.load(&saved.key).unwrap().unwrap().made_at_s, 7);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_snapshot_is_the_store_at_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("store"));
    store.save(&entry("a")).unwrap();
    store.save(&entry("b")).unwrap();
    let (snapshot, problems) = store.snapshot();
    assert!(problems.is_empty(), "{problems:?}");
    let path = folder.path().join("frozen");
    snapshot.write(&path).unwrap();
    store.save(&entry("c")).unwrap();
    let read = Snapshot::read(&path).unwrap();
    assert_eq!(read, snapshot);
    assert!(read.find(&entry("a").key).is_some());
    assert!(read.find(&entry("c").key).is_none());
}

#[test]
fn any_flipped_bit_and_any_cut_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frozen");
    Snapshot::new(vec![entry("a")]).write(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Snapshot::parse(&damaged, &path).is_err(), "bit {bit}");
    }
    for length in 0..whole.len() {
        assert!(
            Snapshot::parse(&whole[..length], &path).is_err(),
            "cut at {length}"
        );
    }
}

#[test]
fn a_damaged_file_is_told_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let (good, bad) = (entry("good"), entry("bad"));
    store.save(&good).unwrap();
    store.save(&bad).unwrap();
    fs::write(folder.path().join(bad.key.file_name()), b"{}").unwrap();
    fs::write(folder.path().join("of-somebody-else.txt"), b"?").unwrap();
    let (entries, problems) = store.all();
    assert_eq!(entries, vec![good]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(matches!(store.load(&bad.key), Err(Error::Damaged { .. })));
}

#[test]
fn random_bytes_behind_a_true_head_are_refused() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for length in 0..300 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u8::try_from(state & 0x7f).unwrap()
        })
        .take(length)
        .collect();
        assert!(Snapshot::parse(&bytes, Path::new("random")).is_err());
    }
}

#[test]
fn an_endless_or_huge_file_takes_no_memory_and_no_time() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        Snapshot::read(Path::new("/dev/zero")),
        Err(Error::Damaged { .. })
    ));
    assert!(Snapshot::read(folder.path()).is_err());
    let huge = folder.path().join("huge");
    fs::File::create(&huge)
        .unwrap()
        .set_len(FILE_BYTES_MAX + 1)
        .unwrap();
    assert!(matches!(Snapshot::read(&huge), Err(Error::Damaged { .. })));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let store = Store::new("/proc/no-such-folder/calibration");
    let error = store.save(&entry("a")).unwrap_err();
    assert!(
        error.to_string().contains("/proc/no-such-folder"),
        "{error}"
    );
    assert!(store.all().0.is_empty());
}

#[test]
fn the_state_folder_follows_the_base_directory_rules() {
    let with = |state: Option<&str>, home: Option<&str>| {
        let (settings, _) = Settings::read(|name| match name {
            "XDG_STATE_HOME" => state.map(Into::into),
            "HOME" => home.map(Into::into),
            _ => None,
        });
        calibration::default_folder(&settings).ok()
    };
    let text = |path: Option<std::path::PathBuf>| path.map(|p| p.display().to_string());
    assert_eq!(
        text(with(Some("/s"), Some("/h"))).unwrap(),
        "/s/towpath/calibration"
    );
    assert_eq!(
        text(with(None, Some("/h"))).unwrap(),
        "/h/.local/state/towpath/calibration"
    );
    // A relative path is to be ignored, says the base directory specification.
    assert_eq!(
        text(with(Some("s"), Some("/h"))).unwrap(),
        "/h/.local/state/towpath/calibration"
    );
    assert_eq!(with(None, None), None);
    assert_eq!(with(None, Some("")), None);
}
