//! Frame logs: any bytes give frames that are finite and positive, or an error with a place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_measure::frames::{ReadOptions, Source, Target, metrics, read, sketch};

fuzz_target!(|bytes: &[u8]| {
    for source in [Source::Present, Source::Display] {
        let options = ReadOptions { source, ..ReadOptions::default() };
        let Ok(log) = read(bytes, &options) else { continue };
        for run in log.runs {
            assert!(run.average_fps().is_none_or(|fps| fps.is_finite() && fps > 0.0));
            assert!(run.markers.iter().all(|marker| marker.frame <= run.frame_ms.len()));
            assert!(run.frame_ms.iter().all(|frame| frame.is_finite() && *frame > 0.0));
            assert_eq!(
                metrics::evaluate(&run.frame_ms, &Target::default()).is_empty(),
                run.frame_ms.is_empty()
            );
            assert!(sketch::sketch(&run.frame_ms, 100).slices.len() <= 100);
        }
    }
});
