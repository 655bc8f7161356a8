//! A peer that scribbles over the memory of shared sync objects while a thread waits.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _made = towpath_sync_programs::scribble(data);
});
