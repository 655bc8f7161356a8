//! Arguments of transfer calls never make a footprint that overflows or reaches out of its envelope.

#![no_main]

use libfuzzer_sys::fuzz_target;
use towpath_transfer::readback::{Footprint, ImageShape};

fuzz_target!(|input: (u8, usize, [usize; 3], [usize; 3], usize, usize, usize)| {
    let (kind, address, origin, region, row_pitch, slice_pitch, element) = input;
    let shape = match kind % 5 {
        0 => ImageShape::D1,
        1 => ImageShape::D1Array,
        2 => ImageShape::D2,
        3 => ImageShape::D2Array,
        _ => ImageShape::D3,
    };
    let made = match kind / 5 % 3 {
        0 => Footprint::buffer(address, element),
        1 => Footprint::rect(address, origin, region, row_pitch, slice_pitch),
        _ => Footprint::image(address, shape, element, region, row_pitch, slice_pitch),
    };
    let Ok(footprint) = made else { return };
    let envelope = footprint.envelope();
    assert!(envelope.len > 0 && footprint.bytes() > 0);
    for span in footprint.spans().take(64) {
        assert!(envelope.contains(span));
    }
    for row in footprint.rows().take(64) {
        assert!(envelope.contains(row));
    }
    let run = footprint.run_at(element % footprint.bytes(), row_pitch);
    assert!(envelope.contains(run));
});
