//! Whole blobs: the seed's own cases, and parts in the store.

use std::sync::Arc;

use crate::common::open;
use towpath_cache::saving::{
    BlobFile, BlobSaver, BlobSource, Fetched, Form, SaveOutcome, SaveReport, load_blob, mesa,
    save_blob,
};
use towpath_cache::{Error, Kind};
use towpath_failing_disk::{FailingDisk, Remains};

/// A driver with a script.
struct Driver {
    blob: Vec<u8>,
    is_whole: bool,
    announces: Option<u64>,
    asked: u32,
    fetched: u32,
}

impl Driver {
    fn of(len: usize) -> Self {
        Self {
            blob: blob(len, 1),
            is_whole: true,
            announces: None,
            asked: 0,
            fetched: 0,
        }
    }
}

impl BlobSource for Driver {
    fn size(&mut self) -> Result<u64, Error> {
        self.asked += 1;
        Ok(self.announces.unwrap_or(self.blob.len() as u64))
    }
    fn data(&mut self) -> Result<Fetched, Error> {
        self.fetched += 1;
        Ok(Fetched {
            bytes: self.blob.clone(),
            is_whole: self.is_whole,
        })
    }
}

fn blob(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut blob = vec![32, 0, 0, 0, 1, 0, 0, 0];
    blob.extend(std::iter::repeat_with(|| random.u8(..)).take(len - 8));
    blob
}

fn saver(disk: &FailingDisk) -> BlobSaver {
    let file = BlobFile::new(Arc::new(disk.clone()), "pipelines.bin");
    let read = file.read().map(|bytes| bytes.len() as u64);
    BlobSaver::new(file, read)
}

/// A save that is asked for until it happens: on a busy machine any query may seem dear, and then it is put off.
fn save(saver: &mut BlobSaver, driver: &mut Driver) -> SaveReport {
    loop {
        let report = saver.save(driver, false);
        if !matches!(report.outcome, SaveOutcome::AskedTooSoon) {
            return report;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn data_of_the_size_read_is_neither_fetched_nor_written() {
    let disk = FailingDisk::new();
    let mut driver = Driver::of(5000);
    assert!(matches!(
        save(&mut saver(&disk), &mut driver).outcome,
        SaveOutcome::Written
    ));
    let before = (disk.counts().bytes_written, driver.fetched);
    let mut saver = saver(&disk);
    for _ in 0..3 {
        let report = save(&mut saver, &mut driver);
        assert!(
            matches!(report.outcome, SaveOutcome::Unchanged),
            "{report:?}"
        );
        assert!(report.line().contains("unchanged"));
    }
    assert_eq!((disk.counts().bytes_written, driver.fetched), before);
    // Forced: written though the size is the same.
    assert!(matches!(
        saver.save(&mut driver, true).outcome,
        SaveOutcome::Written
    ));
}

#[test]
fn a_smaller_blob_is_written_too() {
    let disk = FailingDisk::new();
    let mut saver = saver(&disk);
    let mut driver = Driver::of(5000);
    save(&mut saver, &mut driver);
    driver.blob = blob(4000, 2);
    let report = save(&mut saver, &mut driver);
    assert!(matches!(report.outcome, SaveOutcome::Written));
    assert!(
        report.line().contains("saved (3 KB, +0 KB") || report.line().contains("-0 KB"),
        "{}",
        report.line()
    );
    assert_eq!(disk.files()["pipelines.bin"], driver.blob);
}

#[test]
fn after_any_failed_step_the_old_file_is_whole_and_the_same_data_is_tried_again() {
    for step in 1..=5 {
        let disk = FailingDisk::new();
        let mut driver = Driver::of(5000);
        save(&mut saver(&disk), &mut driver);
        let old = driver.blob.clone();
        driver.blob = blob(6000, 3);
        let mut late = saver(&disk);
        disk.cut_after(step);
        let report = save(&mut late, &mut driver);
        assert!(
            matches!(report.outcome, SaveOutcome::Failed(_)),
            "step {step}: {report:?}"
        );
        assert!(report.line().contains("old file kept"));
        for remains in [Remains::Nothing, Remains::Everything, Remains::Zeros] {
            let after = disk.after_crash(remains);
            let found = after.files()["pipelines.bin"].clone();
            assert!(
                found == old || found == driver.blob,
                "step {step}, {remains:?}"
            );
            let mut again = saver(&after);
            let report = save(&mut again, &mut driver);
            assert!(!matches!(report.outcome, SaveOutcome::Failed(_)));
            assert_eq!(after.files()["pipelines.bin"], driver.blob);
        }
    }
}

#[test]
fn a_full_disk_costs_nothing_but_the_save() {
    let disk = FailingDisk::new();
    let mut late = saver(&disk);
    let mut driver = Driver::of(5000);
    save(&mut late, &mut driver);
    driver.blob = blob(6000, 3);
    disk.set_space(Some(1000));
    assert!(matches!(
        save(&mut late, &mut driver).outcome,
        SaveOutcome::Failed(_)
    ));
    assert_eq!(disk.files().len(), 1, "no temporary file stays");
    disk.set_space(None);
    assert!(matches!(
        save(&mut late, &mut driver).outcome,
        SaveOutcome::Written
    ));
}

#[test]
fn incomplete_data_is_saved_as_returned_and_stays_to_be_saved() {
    let disk = FailingDisk::new();
    let mut saver = saver(&disk);
    let mut driver = Driver {
        is_whole: false,
        announces: Some(9000),
        ..Driver::of(5000)
    };
    let report = save(&mut saver, &mut driver);
    assert!(matches!(report.outcome, SaveOutcome::Written) && !report.is_whole);
    assert_eq!(disk.files()["pipelines.bin"].len(), 5000);
    driver.is_whole = true;
    driver.announces = None;
    assert!(matches!(
        save(&mut saver, &mut driver).outcome,
        SaveOutcome::Written
    ));
    assert!(matches!(
        save(&mut saver, &mut driver).outcome,
        SaveOutcome::Unchanged
    ));
}

#[test]
fn sizes_that_lie_and_drivers_without_data_leave_the_file_alone() {
    let disk = FailingDisk::new();
    let mut saver = saver(&disk);
    let mut driver = Driver::of(5000);
    save(&mut saver, &mut driver);
    let good = disk.files();
    // lavapipe: announces 32, returns 20. AMDVLK #237: returns nothing.
    for (announces, len) in [(5001, 20), (5001, 32), (5001, 8)] {
        driver.announces = Some(announces);
        driver.blob = blob(len.max(8), 1);
        driver.blob.truncate(len);
        let report = save(&mut saver, &mut driver);
        assert!(
            matches!(report.outcome, SaveOutcome::Failed(Error::Driver { .. })),
            "{report:?}"
        );
    }
    for announces in [0, 9, 31, 32] {
        driver.announces = Some(announces);
        let report = save(&mut saver, &mut driver);
        assert!(matches!(report.outcome, SaveOutcome::DriverKeepsItsOwn));
    }
    assert_eq!(disk.files(), good);
}

#[test]
fn chunks_write_only_what_is_new_and_load_to_the_same_bytes() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    let first = blob(3_000_000, 1);
    let saved = save_blob(&store, b"game", &first).unwrap();
    assert_eq!(saved.form, Form::Chunks);
    store.flush().unwrap();
    let before = disk.counts().bytes_written;
    // Nothing new: nothing written.
    save_blob(&store, b"game", &first).unwrap();
    assert_eq!(disk.counts().bytes_written, before);
    // 40 KB appended in two places.
    let mut second = first.clone();
    second.splice(1_000_000..1_000_000, blob(20_000, 2));
    second.extend(blob(20_000, 3));
    save_blob(&store, b"game", &second).unwrap();
    let written = disk.counts().bytes_written - before;
    assert!(written < 90_000, "{written}");
    store.seal().unwrap();
    let store = open(disk);
    assert!(load_blob(&store, b"game").unwrap() == second);
    assert!(load_blob(&store, b"other").is_none());
}

/// A Mesa blob of objects `0..count` in an order by `seed`.
fn mesa_blob(count: u32, seed: u64) -> Vec<u8> {
    let mut objects: Vec<Vec<u8>> = (0..count)
        .map(|n| {
            let mut object = 0_i32.to_le_bytes().to_vec();
            object.extend_from_slice(&20_u32.to_le_bytes());
            object.extend_from_slice(&blob(28, u64::from(n))[8..]);
            object.extend_from_slice(&blob(300 + n as usize % 100, u64::from(n)));
            object
        })
        .collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut objects);
    mesa::rebuild(&blob(32, 9), objects.iter().map(Vec::as_slice)).unwrap()
}

#[test]
fn mesa_objects_are_found_again_in_any_order() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    let saved = save_blob(&store, b"game", &mesa_blob(100, 1)).unwrap();
    assert_eq!((saved.form, saved.parts_new), (Form::MesaObjects, 100));
    let reshuffled = mesa_blob(103, 2);
    let saved = save_blob(&store, b"game", &reshuffled).unwrap();
    assert_eq!((saved.parts, saved.parts_new), (103, 3));
    store.seal().unwrap();
    let store = open(disk);
    let loaded = load_blob(&store, b"game").unwrap();
    let parts = |blob: &[u8]| {
        let mut parts: Vec<_> = mesa::parse(blob)
            .unwrap()
            .iter()
            .map(|o| mesa::detach(blob, o))
            .collect();
        parts.sort();
        parts
    };
    assert_eq!(parts(&loaded), parts(&reshuffled));
}

#[test]
fn a_damaged_mesa_object_costs_that_object() {
    let disk = FailingDisk::new();
    let store = open(disk.clone());
    save_blob(&store, b"game", &mesa_blob(10, 1)).unwrap();
    store.seal().unwrap();
    let mut files = disk.files();
    let bytes = files.values_mut().next().unwrap();
    bytes[64 + 64 + 16 + 40] ^= 4;
    let store = open(FailingDisk::with_files(files));
    let loaded = load_blob(&store, b"game").unwrap();
    assert_eq!(mesa::parse(&loaded).unwrap().len(), 9);
    assert_eq!(store.entries(Some(Kind::OBJECT)).len(), 9);
}
