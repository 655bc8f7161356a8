//! An initrd in the kernel's `newc` cpio format.
//!
//! Each entry: magic `070701`, thirteen 8-digit hexadecimal fields (ino, mode, uid, gid, nlink, mtime,
//! filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check), the name with a NUL, padding
//! to 4 bytes, the data, padding to 4 bytes. The archive ends with an entry named `TRAILER!!!`.

use std::path::Path;

use crate::{Result, at};

/// The bytes of an initrd in the making.
#[derive(Debug, Default)]
pub struct Initrd {
    bytes: Vec<u8>,
    entries: u32,
}

impl Initrd {
    /// An initrd without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder; `name` has no leading slash.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    /// Adds a file that may be executed.
    pub fn file(&mut self, name: &str, data: &[u8]) {
        self.entry(name, 0o100_755, data);
    }

    /// Adds a file of the host.
    ///
    /// # Errors
    ///
    /// [`Error::File`](crate::Error::File) if it cannot be read.
    pub fn host_file(&mut self, name: &str, path: &Path) -> Result<()> {
        let data = std::fs::read(path).map_err(at(path))?;
        self.file(name, &data);
        Ok(())
    }

    /// Ends the archive and returns it.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            u32::try_from(data.len()).unwrap_or(u32::MAX),
            0,
            0,
            0,
            0,
            u32::try_from(name.len() + 1).unwrap_or(u32::MAX),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_kernels_layout() {
        let mut initrd = Initrd::new();
        initrd.file("a", b"xyz");
        let bytes = initrd.finish();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.starts_with("07070100000001000081ed"));
        assert_eq!(&bytes[54..62], b"00000003", "file size");
        assert_eq!(&bytes[94..102], b"00000002", "name size");
        assert_eq!(&bytes[110..112], b"a\0");
        assert_eq!(&bytes[112..116], b"xyz\0");
        assert_eq!(&bytes[116..122], b"070701");
        assert!(text.contains("TRAILER!!!"));
        assert_eq!(bytes.len() % 4, 0);
    }
}
