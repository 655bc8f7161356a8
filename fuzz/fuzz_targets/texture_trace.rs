//! Any text as a recorded stream of attachments and transfers: what is read is written as it was, and laid out.

#![no_main]

use towpath_transfer::textures::trace::{self, Event, HEADER, Layout};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(events) = trace::parse(&format!("{HEADER}\n{text}")) else { return };
    let written: String = events.iter().map(|event| format!("{event}\n")).collect();
    assert_eq!(trace::parse(&format!("{HEADER}\n{written}")).unwrap(), events);
    let _seen = trace::summary(&events);
    let layout = Layout::of(&events);
    for event in &events {
        let Event::Attach(_, entries) = event else { continue };
        for piece in layout.map(entries) {
            assert!(piece.address + piece.len <= layout.bytes(), "{piece:?} of {}", layout.bytes());
        }
    }
});
