//! What the kernel says this process read and wrote.

/// Fields of `/proc/self/io`; zero where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ProcessIo {
    /// Bytes asked for by read calls, from the page cache or not.
    pub rchar: u64,
    /// Bytes given to write calls.
    pub wchar: u64,
    /// Bytes fetched from a disk.
    pub read_bytes: u64,
    /// Bytes of pages made dirty, by write calls or through a map.
    pub write_bytes: u64,
}

impl ProcessIo {
    /// The counts now, of all threads.
    #[must_use]
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/io").unwrap_or_default())
    }

    /// What happened between `before` and this.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            rchar: self.rchar.saturating_sub(before.rchar),
            wchar: self.wchar.saturating_sub(before.wchar),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
        }
    }

    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        };
        Self {
            rchar: field("rchar:"),
            wchar: field("wchar:"),
            read_bytes: field("read_bytes:"),
            write_bytes: field("write_bytes:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart_and_nonsense_is_zero() {
        let io = ProcessIo::parse("rchar: 5\nwchar: 6\nread_bytes: 7\nwrite_bytes: 8\n");
        assert_eq!(
            (io.rchar, io.wchar, io.read_bytes, io.write_bytes),
            (5, 6, 7, 8)
        );
        assert_eq!(ProcessIo::parse("rchar: x"), ProcessIo::default());
    }
}
