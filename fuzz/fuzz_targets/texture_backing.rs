//! A list of pieces against the plain list of its bytes' addresses.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _visited = towpath_texture_model::backing::check(data);
});
