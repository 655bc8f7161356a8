//! Segments with damage at places that the input names, and segments that are the input: whatever the
//! store hands out must be what was appended.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use towpath_cache::{Kind, Limits, Options, Store};
use towpath_failing_disk::FailingDisk;

const ENTRIES: u8 = 12;

fn payload(n: u8) -> Vec<u8> {
    vec![n ^ 0x5a; usize::from(n) * 37 + 1]
}

fn open(disk: &FailingDisk) -> Store {
    Store::open(Arc::new(disk.clone()), Options::new([1; 16])).unwrap()
}

fn sound() -> &'static BTreeMap<String, Vec<u8>> {
    static FILES: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = FailingDisk::new();
        let store = open(&disk);
        for n in 0..ENTRIES {
            store.append(Kind::BLOB, &[n], &payload(n)).unwrap();
            if n == 7 {
                store.remove(Kind::BLOB, &[3]).unwrap();
                store.seal().unwrap();
            }
        }
        store.flush().unwrap();
        disk.files()
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let mut files = sound().clone();
    let which = usize::from(mode >> 1) % files.len();
    let bytes = files.values_mut().nth(which).unwrap();
    if mode & 1 == 0 {
        for damage in rest.chunks_exact(4) {
            let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % bytes.len();
            match damage[2] % 4 {
                0 => bytes[at] = damage[3],
                1 => bytes.truncate(at.max(1)),
                2 => {
                    let end = (at + usize::from(damage[3])).min(bytes.len());
                    bytes[at..end].fill(0);
                }
                _ => bytes.insert(at, damage[3]),
            }
        }
    } else {
        *bytes = rest.to_vec();
    }
    let disk = FailingDisk::with_files(files);
    let store = open(&disk);
    for n in 0..ENTRIES {
        if let Some(blob) = store.lookup(Kind::BLOB, &[n]) {
            assert_eq!(&blob[..], payload(n));
        }
    }
    let _report = store.verify().unwrap();
    store.prune(&Limits { bytes_max: Some(2000), unused_days_max: None }).unwrap();
    store.compact_all().unwrap();
    store.append(Kind::BLOB, b"new", b"new").unwrap();
    store.seal().unwrap();
    assert!(open(&disk).lookup(Kind::BLOB, b"new").is_some());
});
