//! Result files: any bytes are refused or can be judged, joined and shown in every form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_report::judging::FailOn;
use towpath_report::{ResultFile, csv, html, junit, markdown, merge, terminal};

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = ResultFile::from_json(bytes) else { return };
    let Ok(Some(mut file)) = merge::merge(vec![file]) else { return };
    if file.judge().is_err() {
        return;
    }
    let _code = file.exit_code(FailOn::Regression);
    let _ = terminal::render(&file, terminal::Style::default());
    assert!(markdown::render(&file, 1_000).len() <= 1_000);
    let _ = (csv::render(&file), junit::render(&file, FailOn::Regression), html::render(&file));
});
