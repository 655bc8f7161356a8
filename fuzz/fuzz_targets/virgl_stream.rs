//! The virgl layer's reading of a guest's command stream: it ends, and claims no more than there is.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let words: Vec<u32> = data
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let found = towpath_virgl_layer::stream::transfers(&words).count();
    assert!(found * 13 <= words.len());
});
