//! Any bytes as a ledger: alone, and behind a true head with the right length.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use towpath_ledger::{FILE_BYTES, LedgerFile, VERSION};

fn read_all(bytes: Vec<u8>) {
    let Ok(ledger) = LedgerFile::parse(bytes, Path::new("fuzz")) else {
        return;
    };
    for site in ledger.sites() {
        let texts = [&site.call, &site.device];
        assert!(texts.iter().all(|text| !text.contains(char::is_control)));
        let _median = site.walls.quantile_at_most(0.5);
    }
    let _all = (ledger.slowest(), ledger.frames(), ledger.histograms(), ledger.counters());
    let _texts = (ledger.program(), ledger.library(), ledger.fixes().to_string());
}

fuzz_target!(|data: &[u8]| {
    read_all(data.to_vec());
    let mut whole = b"TOWPLEDG".to_vec();
    whole.extend_from_slice(&VERSION.to_le_bytes());
    // The input goes round until the file is full, so that a short one reaches every table. Copied in blocks: byte by
    // byte through an instrumented iterator, half a megabyte took four fifths of each case.
    let rounds = FILE_BYTES.div_ceil(data.len().max(1));
    whole.extend_from_slice(&data.repeat(rounds));
    whole.resize(FILE_BYTES, 0);
    read_all(whole);
});
