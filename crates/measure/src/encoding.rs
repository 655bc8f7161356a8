//! Bytes that are no UTF-8 text: UTF-16, as `>` of PowerShell writes it, is read; archives are named and refused.

use std::io::{self, Read};

/// Bytes decoded at once.
const CHUNK: usize = 1 << 16;

/// Which archive begins so, in words, with a way to unpack it.
pub(crate) fn archive(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, ..] => Some("compressed by gzip: unpack it first, as zcat does"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Some("compressed by zstd: unpack it first, as zstdcat does")
        }
        [0xfd, b'7', b'z', b'X', ..] => Some("compressed by xz: unpack it first, as xzcat does"),
        [b'P', b'K', 3 | 5, 4 | 6, ..] => Some("a zip archive: unpack it first"),
        _ => None,
    }
}

/// Whether the text is UTF-16, and then whether the higher byte comes first.
fn utf16(start: &[u8]) -> Option<bool> {
    match start {
        [0xff, 0xfe, ..] => Some(false),
        [0xfe, 0xff, ..] => Some(true),
        _ => None,
    }
}

/// A reader that gives UTF-8 for UTF-16, and everything else as it is.
pub(crate) struct Decoded<R> {
    reader: R,
    /// Read or decoded, and not given yet.
    waiting: Vec<u8>,
    given: usize,
    is_big: Option<bool>,
    /// A byte of half a unit, or units of half a character.
    half: Option<u8>,
    surrogate: Option<u16>,
    is_over: bool,
}

impl<R: Read> Decoded<R> {
    /// Looks at the first bytes.
    ///
    /// # Errors
    ///
    /// The reader's.
    pub(crate) fn new(mut reader: R) -> io::Result<Self> {
        let mut start = Vec::with_capacity(4);
        (&mut reader).take(4).read_to_end(&mut start)?;
        let is_big = utf16(&start);
        let mut decoded = Self {
            reader,
            waiting: Vec::new(),
            given: 0,
            is_big,
            half: None,
            surrogate: None,
            is_over: false,
        };
        match is_big {
            Some(is_big) => decoded.decode(start.get(2..).unwrap_or_default(), is_big),
            None => decoded.waiting = start,
        }
        Ok(decoded)
    }

    /// The first bytes of the file, if it is not UTF-16.
    pub(crate) fn start(&self) -> &[u8] {
        &self.waiting
    }

    fn decode(&mut self, bytes: &[u8], is_big: bool) {
        let mut units = Vec::with_capacity(bytes.len() / 2 + 2);
        units.extend(self.surrogate.take());
        for &byte in bytes {
            match self.half.take() {
                None => self.half = Some(byte),
                Some(first) => {
                    let (first, second) = (u16::from(first), u16::from(byte));
                    units.push(if is_big {
                        first << 8 | second
                    } else {
                        second << 8 | first
                    });
                }
            }
        }
        if units
            .last()
            .is_some_and(|unit| (0xd800..0xdc00).contains(unit))
        {
            self.surrogate = units.pop();
        }
        let mut buffer = [0; 4];
        for letter in char::decode_utf16(units) {
            let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.waiting
                .extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
        }
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.waiting.get(self.given..).unwrap_or_default();
            if !left.is_empty() {
                let take = left.len().min(out.len());
                for (to, from) in out.iter_mut().zip(left) {
                    *to = *from;
                }
                self.given += take;
                return Ok(take);
            }
            let Some(is_big) = self.is_big else {
                return self.reader.read(out);
            };
            if self.is_over || out.is_empty() {
                return Ok(0);
            }
            self.waiting.clear();
            self.given = 0;
            let mut bytes = vec![0; CHUNK];
            let count = self.reader.read(&mut bytes)?;
            if count == 0 {
                self.is_over = true;
            }
            self.decode(bytes.get(..count).unwrap_or_default(), is_big);
        }
    }
}

/// The whole of `bytes` as text; what is no text becomes replacement characters.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(bytes.len());
    // A slice cannot fail to be read.
    let read = Decoded::new(bytes).and_then(|mut reader| reader.read_to_end(&mut decoded));
    if read.is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);
    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let (Some((first, rest)), Some(to)) = (self.0.split_first(), out.first_mut()) else {
                return Ok(0);
            };
            *to = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn encoded(text: &str, is_big: bool) -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        let low = |unit: u16| unit.to_le_bytes();
        let high = |unit: u16| {
            let [a, b] = unit.to_le_bytes();
            [b, a]
        };
        units
            .flat_map(|unit| if is_big { high(unit) } else { low(unit) })
            .collect()
    }

    #[test]
    fn both_orders_of_bytes_are_read_in_any_steps_and_other_text_is_left_alone() {
        let wanted = "fps,frametime\r\n60,16.7 \u{1d11e}\u{e4}\n".repeat(3_000);
        for is_big in [false, true] {
            let bytes = encoded(&wanted, is_big);
            assert_eq!(text(&bytes), wanted);
            let mut slow = String::new();
            let mut reader = Decoded::new(Slow(&bytes[..2_001])).unwrap();
            reader.read_to_string(&mut slow).unwrap();
            assert!(wanted.starts_with(&slow) && slow.len() > 900);
        }
        for plain in ["", "a", "\u{feff}abc", "abcdef"] {
            assert_eq!(text(plain.as_bytes()), plain);
        }
        assert_eq!(text(&[0xff, 0xfe, 0x00, 0xdc]), "\u{fffd}");
    }

    #[test]
    fn archives_are_known_by_their_first_bytes() {
        assert!(archive(b"\x1f\x8b\x08").unwrap().contains("gzip"));
        assert!(archive(b"PK\x03\x04").unwrap().contains("zip"));
        assert_eq!(archive(b"PKfps"), None);
        assert_eq!(archive(b""), None);
    }
}
