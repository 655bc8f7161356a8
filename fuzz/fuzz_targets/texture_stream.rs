//! A stream of a guest's commands against a device model.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| towpath_texture_model::stream::play(data));
