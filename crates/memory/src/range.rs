//! A range of addresses, as a pair of numbers: it owns nothing and promises nothing.

/// `len` bytes from `address`. May lie anywhere, mapped or not; its end never overflows.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Range {
    /// First address.
    pub address: usize,
    /// Length in bytes.
    pub len: usize,
}

impl Range {
    /// Makes a range; `None` if its end is not an address.
    #[must_use]
    pub const fn new(address: usize, len: usize) -> Option<Self> {
        match address.checked_add(len) {
            Some(_) => Some(Self { address, len }),
            None => None,
        }
    }

    /// The range between two addresses; empty if they are in the wrong order.
    #[must_use]
    pub const fn between(start: usize, end: usize) -> Self {
        Self {
            address: start,
            len: end.saturating_sub(start),
        }
    }

    /// The range of a slice.
    #[must_use]
    pub fn of<T>(slice: &[T]) -> Self {
        Self {
            address: slice.as_ptr().addr(),
            len: size_of_val(slice),
        }
    }

    /// Address after the last byte.
    #[must_use]
    pub const fn end(self) -> usize {
        self.address.saturating_add(self.len)
    }

    /// Whether it has no byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// All pages that hold a byte of the range.
    #[must_use]
    pub fn pages(self) -> Self {
        if self.is_empty() {
            return self;
        }
        let page = page_size();
        let start = self.address - self.address % page;
        let end = self.end();
        Self::between(
            start,
            end.checked_next_multiple_of(page)
                .unwrap_or(end - end % page),
        )
    }

    /// The whole blocks of `block` bytes inside the range; empty if there is none.
    #[must_use]
    pub const fn whole_blocks(self, block: usize) -> Self {
        if block == 0 {
            return Self::between(self.address, self.address);
        }
        let Some(start) = self.address.checked_next_multiple_of(block) else {
            return Self::between(self.address, self.address);
        };
        let end = self.end() - self.end() % block;
        Self::between(start, end)
    }

    /// The bytes that both ranges have.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self::between(self.address.max(other.address), self.end().min(other.end()))
    }

    /// Whether every byte of `other` lies in this range.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        other.address >= self.address && other.end() <= self.end()
    }
}

/// The system's page size in bytes. No system call.
#[must_use]
pub fn page_size() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_round_outwards_and_blocks_inwards() {
        let page = page_size();
        let range = Range::new(page + 1, page).unwrap();
        assert_eq!(range.pages(), Range::between(page, 3 * page));
        assert!(range.whole_blocks(page).is_empty());
        let range = Range::new(page - 1, 2 * page + 2).unwrap();
        assert_eq!(range.whole_blocks(page), Range::between(page, 3 * page));
    }

    #[test]
    fn the_edge_of_the_address_space_does_not_overflow() {
        assert_eq!(Range::new(usize::MAX, 2), None);
        let last = Range::new(usize::MAX - 1, 1).unwrap();
        assert!(last.pages().len < page_size());
        assert!(last.whole_blocks(1 << 21).is_empty());
        assert!(Range::between(5, 3).is_empty());
    }
}
