//! The page cache: takes a folder's files out of it, and counts what is left of them in it.
#![expect(unsafe_code, reason = "mincore on maps of files")]

use std::fs::File;
use std::path::Path;

use rustix::fs::Advice;

/// Writes everything out, takes the files below `folder` out of the page cache, and gives the KiB of them
/// that stayed there: 0 where it worked.
pub(crate) fn evict(folder: &Path) -> u64 {
    rustix::fs::sync();
    let mut stayed = 0;
    each_file(folder, &mut |file| {
        let _only_a_hint = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        stayed += resident_kib(file);
    });
    stayed
}

/// KiB of the files below `folder` that are in the page cache.
pub(crate) fn resident(folder: &Path) -> u64 {
    let mut kib = 0;
    each_file(folder, &mut |file| kib += resident_kib(file));
    kib
}

fn each_file(folder: &Path, work: &mut impl FnMut(&File)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_file(&path, work);
        } else if let Ok(file) = File::open(path) {
            work(&file);
        }
    }
}

fn resident_kib(file: &File) -> u64 {
    if file.metadata().map_or(0, |meta| meta.len()) == 0 {
        return 0;
    }
    // SAFETY: the map is only asked about, no byte of it is read.
    let Ok(map) = (unsafe { memmap2::Mmap::map(file) }) else {
        return 0;
    };
    let mut pages = vec![0_u8; map.len().div_ceil(4096)];
    let start = map.as_ptr().cast_mut().cast();
    // SAFETY: the range is the map's; there is a byte for each of its pages.
    let code = unsafe { libc::mincore(start, map.len(), pages.as_mut_ptr()) };
    if code != 0 {
        return 0;
    }
    4 * pages.iter().map(|page| u64::from(page & 1)).sum::<u64>()
}
