//! Piece sizes of guest memory.

use serde::Serialize;
use towpath_virgl_client::{Guest, Result};

/// How a guest's memory is cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Pieces {
    /// Bytes of a piece.
    pub(super) bytes: u64,
    /// Whether the memory consists of huge pages.
    pub(super) is_huge: bool,
}

impl Pieces {
    /// Pieces of the usual pages.
    pub(super) const fn plain(bytes: u64) -> Self {
        Self {
            bytes,
            is_huge: false,
        }
    }

    /// Memory for `bytes` bytes in textures, twice as much as needed so that neighbours are rare.
    pub(super) fn guest(self, bytes: u64, seed: u64) -> Result<Guest> {
        let whole = (2 * bytes).max(8 * self.bytes).next_multiple_of(2 << 20);
        if self.is_huge {
            Guest::huge(whole, self.bytes, seed)
        } else {
            Guest::new(whole, self.bytes, seed)
        }
    }

    /// In words.
    pub(super) fn text(self) -> String {
        let size = match self.bytes {
            mib if mib >= 1 << 20 => format!("{} MiB", mib >> 20),
            kib => format!("{} KiB", kib >> 10),
        };
        if self.is_huge {
            format!("{size} hugetlb")
        } else {
            size
        }
    }
}

/// Parses `4K`, `64K`, `2M`, `hugetlb`.
pub(super) fn piece(text: &str) -> Result<Pieces, String> {
    if text == "hugetlb" {
        return Ok(Pieces {
            bytes: 2 << 20,
            is_huge: true,
        });
    }
    let (digits, shift) = match text.chars().last() {
        Some('K' | 'k') => (&text[..text.len() - 1], 10),
        Some('M' | 'm') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|error| format!("{text}: {error}"))?;
    let bytes = number.checked_shl(shift).unwrap_or(0);
    if bytes == 0 || !bytes.is_multiple_of(4096) || bytes > 64 << 20 {
        return Err(format!("{text} is no multiple of 4K up to 64M"));
    }
    Ok(Pieces::plain(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(piece("4K").unwrap().bytes, 4096);
        assert_eq!(piece("2M").unwrap().text(), "2 MiB");
        assert!(piece("hugetlb").unwrap().is_huge);
        for bad in ["", "K", "0", "100", "1G", "99999999999M", "-4K"] {
            assert!(piece(bad).is_err(), "{bad}");
        }
    }
}
