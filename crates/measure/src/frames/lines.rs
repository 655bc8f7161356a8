//! Lines of a reader in a buffer of fixed size, and the numbers in them.

use std::io::Read;

use super::LogError;

/// Bytes read at once. Longer lines make the buffer grow, up to [`LINE_MAX`].
const CHUNK: usize = 1 << 18;

/// A longer line is no row of a log.
pub(super) const LINE_MAX: usize = 1 << 24;

/// A line, its number, and whether it ended with a line feed.
pub(super) type Row<'a> = (&'a [u8], usize, bool);

/// A reader cut into lines.
pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_over: bool,
    /// Number of the line that was given last, from 1.
    pub(super) number: usize,
    /// Whether the line that was given last ended with a line feed.
    pub(super) is_whole: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        let buffer = vec![0; CHUNK];
        Self {
            reader,
            buffer,
            start: 0,
            end: 0,
            is_over: false,
            number: 0,
            is_whole: true,
        }
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> Result<bool, LogError> {
        if self.is_over {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            if self.buffer.len() >= LINE_MAX {
                return Err(LogError::Unusable {
                    line: self.number + 1,
                    column: 1,
                    why: "a line of more than 16 MiB".to_owned(),
                });
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let space = self.buffer.get_mut(self.end..).unwrap_or_default();
        loop {
            match self.reader.read(space) {
                Ok(0) => {
                    self.is_over = true;
                    return Ok(false);
                }
                Ok(read) => {
                    self.end += read;
                    return Ok(true);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(LogError::Read {
                        line: self.number,
                        source,
                    });
                }
            }
        }
    }

    /// The next line without its end; `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, LogError> {
        Ok(self.next_row()?.map(|(line, _, _)| line))
    }

    /// Where the next line lies in the buffer: start and length.
    fn advance(&mut self) -> Result<Option<(usize, usize)>, LogError> {
        let mut searched = 0;
        let length = loop {
            let waiting = self.buffer.get(self.start..self.end).unwrap_or_default();
            let fresh = waiting.get(searched..).unwrap_or_default();
            if let Some(place) = memchr::memchr(b'\n', fresh) {
                self.is_whole = true;
                break searched + place;
            }
            searched = waiting.len();
            if !self.fill()? {
                if searched == 0 {
                    return Ok(None);
                }
                self.is_whole = false;
                break searched;
            }
        };
        let from = self.start;
        self.start = (from + length + 1).min(self.end);
        self.number += 1;
        Ok(Some((from, length)))
    }

    /// The next line with its number, and whether it ended with a line feed.
    pub(super) fn next_row(&mut self) -> Result<Option<Row<'_>>, LogError> {
        let Some((from, length)) = self.advance()? else {
            return Ok(None);
        };
        let line = self.buffer.get(from..from + length).unwrap_or_default();
        Ok(Some((
            line.strip_suffix(b"\r").unwrap_or(line),
            self.number,
            self.is_whole,
        )))
    }

    /// Whether the file is JSON; skips a BOM.
    pub(super) fn starts_with_brace(&mut self) -> Result<bool, LogError> {
        while self.end < 64 && self.fill()? {}
        let head = self.buffer.get(..self.end).unwrap_or_default();
        if head.starts_with(b"\xef\xbb\xbf") {
            self.start = 3;
        }
        let head = self.buffer.get(self.start..self.end).unwrap_or_default();
        Ok(head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
    }

    /// The reader, and what was read of it and not given yet.
    pub(super) fn into_rest(self) -> (R, Vec<u8>) {
        let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
        let rest = rest.to_vec();
        (self.reader, rest)
    }

    /// Everything that has not been given yet.
    pub(super) fn rest(&mut self) -> Result<Vec<u8>, LogError> {
        let mut rest = self
            .buffer
            .get(self.start..self.end)
            .unwrap_or_default()
            .to_vec();
        self.reader
            .read_to_end(&mut rest)
            .map_err(|source| LogError::Read {
                line: self.number,
                source,
            })?;
        Ok(rest)
    }
}

/// The cells of a row. Quotes may hold delimiters; rows without quotes take the fast way.
pub(super) fn cells<'a>(
    line: &'a [u8],
    delimiter: u8,
    mut each: impl FnMut(usize, &'a [u8]) -> bool,
) {
    if memchr::memchr(b'"', line).is_none() {
        let mut from = 0;
        let mut column = 0;
        for place in memchr::memchr_iter(delimiter, line) {
            if !each(column, line.get(from..place).unwrap_or_default()) {
                return;
            }
            from = place + 1;
            column += 1;
        }
        each(column, line.get(from..).unwrap_or_default());
        return;
    }
    let (mut from, mut column, mut is_quoted) = (0, 0, false);
    for (place, &byte) in line.iter().enumerate() {
        if byte == b'"' {
            is_quoted = !is_quoted;
        } else if byte == delimiter && !is_quoted {
            if !each(column, line.get(from..place).unwrap_or_default()) {
                return;
            }
            from = place + 1;
            column += 1;
        }
    }
    each(column, line.get(from..).unwrap_or_default());
}

/// Powers of ten that a `f64` holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A decimal number; with a comma for a point if `comma`. Exact: digits below 2^53 over an exact power of ten
/// are rounded once, everything else goes the standard library's way.
pub(super) fn number(cell: &[u8], comma: bool) -> Option<f64> {
    let cell = cell.trim_ascii();
    let cell = cell
        .strip_prefix(b"\"")
        .and_then(|cell| cell.strip_suffix(b"\""))
        .unwrap_or(cell);
    let (is_negative, digits) = match cell.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, cell),
    };
    let point = if comma { b',' } else { b'.' };
    let (mut mantissa, mut count, mut decimals) = (0_u64, 0_usize, None::<usize>);
    for &byte in digits {
        if byte.is_ascii_digit() && count < 18 {
            mantissa = mantissa * 10 + u64::from(byte - b'0');
            count += 1;
            decimals = decimals.map(|decimals| decimals + 1);
        } else if byte == point && decimals.is_none() {
            decimals = Some(0);
        } else {
            return slow(cell, comma);
        }
    }
    if count == 0 || mantissa >= 1 << 53 {
        return slow(cell, comma);
    }
    let value = mantissa as f64 / POWERS.get(decimals.unwrap_or(0))?;
    Some(if is_negative { -value } else { value })
}

#[cold]
fn slow(cell: &[u8], comma: bool) -> Option<f64> {
    let text = std::str::from_utf8(cell).ok()?;
    if comma && text.contains(',') {
        text.replace(',', ".").parse().ok()
    } else {
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_numbers_are_those_of_the_standard_library() {
        let mut random = crate::random::Random::new(9);
        for _ in 0..20_000 {
            let value = libm::exp(random.normal() * 8.0);
            let text = format!("{value:.*}", random.below(17));
            let want: f64 = text.parse().unwrap();
            assert_eq!(
                number(text.as_bytes(), false).unwrap().to_bits(),
                want.to_bits(),
                "{text}"
            );
        }
        for (text, want) in [
            ("16.67", Some(16.67)),
            ("-3", Some(-3.0)),
            (" 1e3 ", Some(1e3)),
            ("", None),
            ("NA", None),
            (".", None),
            ("1.2.3", None),
        ] {
            assert_eq!(number(text.as_bytes(), false), want, "{text}");
        }
        assert_eq!(number(b"16,67", true), Some(16.67));
        assert_eq!(number(b"\"5\"", false), Some(5.0));
        assert!(
            number(b"nan", false).unwrap().is_nan(),
            "callers check for finite numbers"
        );
    }

    #[test]
    fn lines_survive_any_chunking() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                let take = self.0.len().min(out.len()).min(3);
                out[..take].copy_from_slice(&self.0[..take]);
                self.0 = &self.0[take..];
                Ok(take)
            }
        }
        let mut lines = Lines::new(Slow(b"\xef\xbb\xbfone\r\n\ntwo,\"a,b\",c"));
        assert!(!lines.starts_with_brace().unwrap());
        assert_eq!(lines.next().unwrap(), Some(&b"one"[..]));
        assert_eq!(lines.next().unwrap(), Some(&b""[..]));
        let last = lines.next().unwrap().unwrap().to_vec();
        let mut found = Vec::new();
        cells(&last, b',', |column, cell| {
            found.push((column, cell));
            true
        });
        assert_eq!(
            found,
            [(0, &b"two"[..]), (1, &b"\"a,b\""[..]), (2, &b"c"[..])]
        );
        assert!(!lines.is_whole);
        assert_eq!(lines.next().unwrap(), None);
    }
}
