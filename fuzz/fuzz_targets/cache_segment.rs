//! Segments with damage at places that the input names, and segments that are the input: whatever the
//! store hands out must be what was appended. With the checksums made good again after the damage, no field
//! may do harm, though what is handed out may then be another entry's.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use towpath_cache::{ContentId, Kind, Limits, Options, Store};
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

/// Makes every checksum fit the bytes as they are.
fn repair(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let salt = crc32c::crc32c_append(crc32c::crc32c(&bytes[16..24]), &bytes[24..40]);
    for at in (64..bytes.len() - 63).step_by(8) {
        if bytes[at..].starts_with(b"TPREC\x01\r\n") {
            repair_record(&mut bytes[at..], salt);
        }
    }
    let footer = bytes.len() - 64;
    if bytes[footer..].starts_with(b"TPEND\x01\r\n") {
        let crc = crc32c::crc32c_append(salt, &bytes[footer..footer + 60]);
        bytes[footer + 60..].copy_from_slice(&crc.to_le_bytes());
    }
}

fn repair_record(bytes: &mut [u8], salt: u32) {
    let key_end = 64 + usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    let Some(key) = bytes.get(64..key_end).map(<[u8]>::to_vec) else { return };
    let payload_len = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    let payload_end = usize::try_from(payload_len).unwrap().saturating_add(key_end);
    // 0xf0 and 0xf1: the index and uses, whose payload the store itself reads.
    if let (Some(payload), 0xf0 | 0xf1) = (bytes.get(key_end..payload_end), bytes[12]) {
        let id = ContentId::of(payload);
        bytes[40..56].copy_from_slice(&id.0);
    }
    let crc = crc32c::crc32c_append(salt, &bytes[..8]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc, &bytes[12..64]), &key);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let mut files = sound().clone();
    let which = usize::from(mode >> 1 & 0x3f) % files.len();
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
    let is_repaired = mode & 0x80 != 0;
    if is_repaired {
        repair(bytes);
    }
    let disk = FailingDisk::with_files(files);
    let store = open(&disk);
    for n in 0..ENTRIES {
        if let Some(blob) = store.lookup(Kind::BLOB, &[n]) {
            assert!(is_repaired || blob[..] == payload(n), "{n}");
        }
    }
    let _report = store.verify().unwrap();
    store.prune(&Limits { bytes_max: Some(2000), unused_days_max: None }).unwrap();
    store.compact_all().unwrap();
    store.append(Kind::BLOB, b"new", b"new").unwrap();
    store.seal().unwrap();
    assert!(open(&disk).lookup(Kind::BLOB, b"new").is_some());
});
