//! Any bytes as a snapshot of calibrations, and any text as a list of fixes.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use towpath_settings::Fixes;
use towpath_settings::calibration::Snapshot;

fuzz_target!(|data: &[u8]| {
    let _snapshot = Snapshot::parse(data, Path::new("fuzz"));
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(fixes) = Fixes::parse(text)
    {
        assert_eq!(Fixes::parse(&fixes.to_string()), Ok(fixes));
    }
});
