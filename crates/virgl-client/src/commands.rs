//! Words of a guest's command stream (`virgl_protocol.h`).

/// Scales a box of one texture onto a box of another, all channels, nearest texel.
#[must_use]
pub fn blit(
    source: u32,
    source_format: u32,
    from: [u32; 2],
    target: u32,
    to: [u32; 4],
) -> Vec<u32> {
    let [width, height] = from;
    let [x, y, across, down] = to;
    let mut words = vec![header(BLIT, 21), 0xf, 0, 0];
    words.extend([target, 0, TARGET_FORMAT, x, y, 0, across, down, 1]);
    words.extend([source, 0, source_format, 0, 0, 0, width, height, 1]);
    words
}

/// Moves a box between a texture and its own pieces.
#[must_use]
pub fn transfer(resource: u32, size: [u32; 2], stride: u32, is_upload: bool) -> Vec<u32> {
    let [width, height] = size;
    let direction = if is_upload { 1 } else { 2 };
    let mut words = vec![header(TRANSFER3D, 13), resource, 0, 0, stride, 0];
    words.extend([0, 0, 0, width, height, 1, 0, direction]);
    words
}

const fn header(number: u32, words: u32) -> u32 {
    number | words << 16
}

const BLIT: u32 = 16;
const TRANSFER3D: u32 = 43;
/// `VIRGL_FORMAT_R8G8B8A8_UNORM`.
const TARGET_FORMAT: u32 = 67;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_headers() {
        assert_eq!(blit(1, 67, [4, 4], 2, [0, 0, 1, 1]).len(), 22);
        assert_eq!(transfer(1, [4, 4], 16, true).len(), 14);
    }
}
