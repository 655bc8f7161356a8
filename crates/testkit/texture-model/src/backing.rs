//! A list of pieces against the plain list of its bytes' addresses.

use std::sync::Arc;

use towpath_memory::Range;
use towpath_transfer::textures::attached::Survey;
use towpath_transfer::textures::{Backing, Entry, Memory, Ram};

use crate::{Input, RAM_BYTES};

/// Decodes `data` into a list and visits of it, and panics where the library's answer is not the list's. Returns
/// the bytes visited, or `None` if the list was refused.
pub fn check(data: &[u8]) -> Option<u64> {
    let mut input = Input::new(data);
    let entries = input.entries();
    let ram = Arc::new(Ram::new(RAM_BYTES).expect("memory"));
    let base = ram.bytes().as_ptr().addr();
    let memory: Arc<dyn Memory> = ram;
    let is_good = entries.iter().filter(|entry| entry.len > 0).all(inside);
    let backing = match Backing::attach(&memory, &entries) {
        Ok(backing) => backing,
        Err(error) => {
            assert!(!is_good, "a good list was refused: {error}");
            return None;
        }
    };
    assert!(is_good, "a list outside the memory was taken");
    let places: Vec<usize> = entries
        .iter()
        .filter(|entry| entry.len > 0)
        .flat_map(|entry| entry.address..entry.address + entry.len)
        .map(|address| base + usize::try_from(address).expect("64 KiB"))
        .collect();
    assert_eq!(backing.len(), places.len() as u64);
    assert_eq!(backing.entries(), entries.len());
    runs(&backing, &entries, base, &places);

    let mut visited = 0;
    let mut cursor = backing.cursor();
    for _visit in 0..8 {
        let (offset, len) = (input.u64(60_000), input.u64(9000));
        let mut seen = Vec::new();
        let fits = cursor.visit(offset, len, |part| {
            let start = part.bytes.as_ptr().addr();
            seen.extend(start..start + part.bytes.len());
            if let Some(file) = part.file {
                assert_eq!(file.offset, (start - base) as u64, "its place in the file");
            }
        });
        let wanted = offset
            .checked_add(len)
            .filter(|end| *end <= backing.len())
            .map(|end| {
                let narrow = |value| usize::try_from(value).expect("64 bits");
                &places[narrow(offset)..narrow(end)]
            });
        assert_eq!(fits, wanted.is_some(), "{offset} {len}");
        assert_eq!(seen, wanted.unwrap_or_default(), "{offset} {len}");
        let span = backing.span(offset, len);
        assert!(span.runs <= backing.runs().len());
        let counted = backing.runs_in(offset, len);
        assert!(counted <= backing.runs().len());
        assert!(!fits || counted == span.runs, "{offset} {len}");
        visited += seen.len() as u64;
    }
    Some(visited)
}

/// Merging leaves no two neighbours apart, and loses nothing.
fn runs(backing: &Backing, entries: &[Entry], base: usize, places: &[usize]) {
    let all: Vec<usize> = backing
        .runs()
        .iter()
        .flat_map(|run| run.address()..run.address() + run.len())
        .collect();
    assert_eq!(all, places);
    let breaks = places.windows(2).filter(|pair| pair[0] + 1 != pair[1]);
    let count = breaks.count() + usize::from(!places.is_empty());
    assert_eq!(backing.runs().len(), count, "neighbours are merged");
    let survey = Survey::of(entries.iter().map(|entry| Range {
        address: base.wrapping_add(usize::try_from(entry.address).unwrap_or(0)),
        len: usize::try_from(entry.len).unwrap_or(0),
    }));
    assert_eq!(survey.runs, count as u64);
    assert_eq!(survey.bytes, places.len() as u64);
}

fn inside(entry: &Entry) -> bool {
    let end = entry.address.checked_add(entry.len);
    end.is_some_and(|end| end <= RAM_BYTES)
}
