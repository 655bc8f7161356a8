//! Any bytes as a snapshot of calibrations, alone and as the body behind a true head; any text as a list
//! of fixes.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use towpath_settings::calibration::{Entry, Snapshot};
use towpath_settings::{Fixes, Mode};
use towpath_transfer::policy::{Calibration, Direction, Policy, Warmth};
use towpath_transfer::textures::cost::{Job, Kind, Mapped, Model};

/// The body in the envelope that the library writes, so that the checksum does not end every case.
fn sealed(body: &[u8]) -> Vec<u8> {
    let checksum = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let head = format!(
        "{{\"schema\":\"towpath.calibration-snapshot/1\",\"checksum\":\"{checksum:016x}\",\"body\":"
    );
    [head.as_bytes(), body, b"}\n"].concat()
}

/// What a layer would do with the entry.
fn choose(entry: &Entry) {
    if let Ok(model) = entry.values::<Model>()
        && model.is_sane()
    {
        for by_device in [false, true] {
            let mapped = Mapped { runs: u64::MAX, pages: 3, by_device };
            let _price = model.price(mapped, Kind::Stitched);
            let job = Job { bytes: 1 << 40, runs: 7, by_device };
            let _saving = model.saving(job, Kind::Udmabuf);
        }
    }
    let Ok(calibration) = entry.values::<Calibration>() else { return };
    if !calibration.is_sane() {
        return;
    }
    let policy = Policy::new(Some(calibration));
    let _rules = policy.rules();
    for bytes in [0, 1, 4096, 1 << 20, usize::MAX] {
        for direction in [Direction::Read, Direction::Write] {
            for mode in [Mode::Auto, Mode::Forced] {
                if let Some(shape) = policy.choose(mode, direction, Warmth::Cold, bytes).shape() {
                    assert!(shape.pinned_bytes() < 1 << 40 && shape.chunk_bytes > 0);
                }
            }
            policy.took(direction, Warmth::Warm, bytes, 1000);
            let _text = policy.text(direction, Warmth::Cold, bytes);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let _snapshot = Snapshot::parse(data, Path::new("fuzz"));
    assert!(Snapshot::parse(&sealed(b"[]"), Path::new("fuzz")).is_ok());
    if let Ok(snapshot) = Snapshot::parse(&sealed(data), Path::new("fuzz")) {
        for entry in snapshot.entries() {
            choose(entry);
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(fixes) = Fixes::parse(text)
    {
        assert_eq!(Fixes::parse(&fixes.to_string()), Ok(fixes));
    }
});
