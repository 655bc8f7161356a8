//! One transfer: backing, plan and copy against the naive model.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _moved = towpath_texture_model::check(data);
});
