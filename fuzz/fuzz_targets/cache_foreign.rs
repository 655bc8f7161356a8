//! Files of other programs: every range lies in the file, what is rebuilt has the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_cache::{foreign, safety, saving::mesa};

fuzz_target!(|input: &[u8]| {
    if let Some(contents) = foreign::read(input) {
        for item in &contents.items {
            assert!(input.get(item.payload.clone()).is_some());
        }
        if let Some(blob) = contents.blob {
            let _any = safety::BlobHeader::read(&input[blob]);
        }
    }
    if let Some(range) = foreign::blob_range(input) {
        let again = foreign::wrap(input, &input[range]).unwrap();
        assert_eq!(again.len(), input.len());
    }
    if let Some(objects) = mesa::parse(input) {
        let parts: Vec<Vec<u8>> = objects.iter().map(|o| mesa::detach(input, o)).collect();
        assert_eq!(mesa::rebuild(input, parts.iter().map(Vec::as_slice)).unwrap(), input);
    }
    let (old, new) = input.split_at(input.len() / 2);
    let found = foreign::diff(old, new);
    assert!(found.bytes_known <= found.bytes_new && found.prefix <= found.bytes_old);
});
