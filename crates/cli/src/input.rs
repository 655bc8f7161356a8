//! Files that the user names, read whole; what has no end is refused before it fills the memory.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// 4 GiB: several times the largest pipeline cache known, and ten times a file of ten million numbers.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// 1 GiB, for what tells no size: a pipe, or a device such as `/dev/zero`.
const STREAM_BYTES_MAX: u64 = 1 << 30;

/// All bytes of a file or pipe.
///
/// # Errors
///
/// It cannot be read, or is longer than any file of its kind.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(failed)?;
    let known = file.metadata().with_context(failed)?;
    let most = if known.is_file() {
        FILE_BYTES_MAX
    } else {
        STREAM_BYTES_MAX
    };
    read_up_to(file, most).with_context(failed)
}

fn read_up_to(file: File, most: u64) -> Result<Vec<u8>> {
    let known = file.metadata()?.len();
    let mut bytes = Vec::new();
    // Files of `/proc` and pipes say 0; a sparse file says more than there is memory for.
    if known <= most {
        bytes.try_reserve(usize::try_from(known)?)?;
        file.take(most + 1).read_to_end(&mut bytes)?;
    }
    if known > most || bytes.len() as u64 > most {
        bail!("it has more than {most} bytes");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused_and_what_has_one_is_read_whole() {
        let zeros = || File::open("/dev/zero").unwrap();
        let error = read_up_to(zeros(), 9_000).unwrap_err().to_string();
        assert!(error.contains("9000 bytes"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, [7; 9_000]).unwrap();
        let read_it = |most| read_up_to(File::open(&path).unwrap(), most);
        assert_eq!(read_it(9_000).unwrap(), [7; 9_000]);
        assert!(read_it(8_999).is_err());
        assert_eq!(read(&path).unwrap().len(), 9_000);
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = format!("{:#}", read(&path).unwrap_err());
        assert!(error.contains("more than 4294967296 bytes"), "{error}");
        assert!(!read(Path::new("/proc/self/status")).unwrap().is_empty());
        assert!(read(folder.path()).is_err());
    }
}
