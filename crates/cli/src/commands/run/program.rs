//! The program's file: where it is, and whether the loader treats it specially.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The file that starting `program` executes, by the rules of exec.
pub(super) fn resolve(program: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    std::env::split_paths(path?)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Why the loader ignores layers for this file, if it does.
pub(super) fn secure_reason(file: &Path) -> Option<&'static str> {
    let meta = fs::metadata(file).ok()?;
    let mode = meta.permissions().mode();
    let mut capabilities = [0_u8; 64];
    let has_capabilities =
        rustix::fs::getxattr(file, "security.capability", &mut capabilities[..]).is_ok();
    // For the superuser a file of the superuser changes nothing, and the loader stays as it is.
    let owner_differs = {
        use std::os::unix::fs::MetadataExt as _;
        meta.uid() != rustix::process::getuid().as_raw()
    };
    match mode {
        _ if mode & 0o4000 != 0 && owner_differs => Some("setuid"),
        _ if mode & 0o2000 != 0 => Some("setgid"),
        _ if has_capabilities && !rustix::process::getuid().is_root() => Some("given capabilities"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_exec_finds_them() {
        let path = Some(OsStr::new("/no/such:/bin:/usr/bin"));
        assert_eq!(resolve(OsStr::new("sh"), path), Some("/bin/sh".into()));
        assert_eq!(resolve(OsStr::new("./sh"), path), Some("./sh".into()));
        assert_eq!(resolve(OsStr::new("no-such-program-of-ours"), path), None);
    }

    #[test]
    fn a_setgid_file_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(secure_reason(file.path()), None);
        let mode = fs::Permissions::from_mode(0o2755);
        fs::set_permissions(file.path(), mode).unwrap();
        assert_eq!(secure_reason(file.path()), Some("setgid"));
    }
}
