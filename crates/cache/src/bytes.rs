//! Little-endian fields read from and put into byte strings, without a panic for any input.

/// Four bytes at `at`, or `None` past the end.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(array_at(bytes, at)?))
}

/// Four bytes at `at`, or `None` past the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(array_at(bytes, at)?))
}

/// Eight bytes at `at`, or `None` past the end.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(array_at(bytes, at)?))
}

/// `N` bytes at `at`, or `None` past the end.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// `len` bytes at `at`, or `None` past the end.
pub(crate) fn slice_at(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(at).ok()?;
    let end = usize::try_from(at.checked_add(len)?).ok()?;
    bytes.get(start..end)
}

/// Puts `field` into `target` at `at`; what does not fit is left out (callers use constants).
pub(crate) fn put(target: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = target.get_mut(at..at.saturating_add(field.len())) {
        place.copy_from_slice(field);
    }
}

/// A length as it stands in a format.
pub(crate) const fn len64(len: usize) -> u64 {
    len as u64
}

/// The bytes that take `len` to the next multiple of `step` (a power of two).
pub(crate) const fn padding(len: u64, step: u64) -> u64 {
    len.wrapping_neg() & (step - 1)
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_past_the_end_are_none_and_not_a_panic() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(u64_at(&bytes, 0), Some(0x0807_0605_0403_0201));
        assert_eq!(u64_at(&bytes, 1), None);
        assert_eq!(u32_at(&bytes, usize::MAX), None);
        assert_eq!(u16_at(&bytes, 6), Some(0x0807));
        assert_eq!(slice_at(&bytes, u64::MAX, 2), None);
        assert_eq!(padding(1, 8), 7);
        assert_eq!(padding(8, 8), 0);
        assert_eq!(hex(&[0xab, 1]), "ab01");
    }
}
