//! The text files of the packages, and the names that they share.

use anyhow::{Result, bail};

/// The version of everything.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The number in the library's name that programs are bound to; `crates/capi/build.rs` sets the same.
pub(crate) const SONAME: &str = "libtowpath.so.0";

/// There is no address to write to.
const MAINTAINER: &str = "The towpath developers <towpath@invalid>";

const ONE_LINE: &str = "finds, fixes and proves the host-side cost of GPU work";

/// The machine that the packages are for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Target {
    /// Rust's and the kernel's name.
    pub(crate) machine: &'static str,
    /// Debian's name.
    pub(crate) debian: &'static str,
}

impl Target {
    /// Of a name of Rust's.
    ///
    /// # Errors
    ///
    /// For machines whose name at Debian is not known here.
    pub(crate) fn new(machine: &'static str) -> Result<Self> {
        let debian = match machine {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => bail!("no package for the machine {other}"),
        };
        Ok(Self { machine, debian })
    }

    /// The tree's folder, and the archive's name without its ending.
    pub(crate) fn tree_name(&self) -> String {
        format!("towpath-{VERSION}-linux-{}", self.machine)
    }
}

/// For pkg-config. The prefix is found from the file's own place, so the tree can be put anywhere.
pub(crate) fn pkg_config() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         \n\
         Name: towpath\n\
         Description: towpath {ONE_LINE}\n\
         Version: {VERSION}\n\
         License: MIT OR Apache-2.0\n\
         Libs: -L${{libdir}} -ltowpath\n\
         Libs.private: -lpthread -ldl\n\
         Cflags: -I${{includedir}}\n"
    )
}

/// Debian's control file. `glibc` is the version that the files ask for, `kib` what they take installed.
pub(crate) fn control(target: &Target, glibc: &str, kib: u64) -> String {
    format!(
        "Package: towpath\n\
         Version: {VERSION}\n\
         Architecture: {}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\n\
         Depends: libc6 (>= {glibc}), libgcc-s1\n\
         Suggests: ocl-icd-libopencl1, libvulkan1, libvirglrenderer1\n\
         Section: utils\n\
         Priority: optional\n\
         Description: {ONE_LINE}\n \
         Program, layers for OpenCL, Vulkan, virglrenderer and DRM sync objects, and\n \
         the C library libtowpath. The layers are loaded only where they are asked for.\n",
        target.debian
    )
}

/// By what packages that are built against the library depend on this one: name, number of the soname, dependency.
pub(crate) fn shlibs() -> String {
    let (name, number) = SONAME.split_once(".so.").unwrap_or((SONAME, "0"));
    format!("{name} {number} towpath (>= {VERSION})\n")
}

/// Debian's list of changes; `date` in mail's form.
pub(crate) fn changes(date: &str) -> String {
    format!(
        "towpath ({VERSION}) unstable; urgency=medium\n\n  \
         * Built by cargo xtask dist; what has changed is in the repository's history.\n\n \
         -- {MAINTAINER}  {date}\n"
    )
}

/// Debian's copyright file.
pub(crate) fn copyright() -> String {
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
     Upstream-Name: towpath\n\
     \n\
     Files: *\n\
     Copyright: 2026 The towpath developers\n\
     License: MIT or Apache-2.0\n \
     The texts are in LICENSE-MIT and LICENSE-APACHE beside this file; those of the\n \
     libraries that are linked in are in THIRD-PARTY.\n"
        .to_owned()
}

/// The newest version of glibc in what `readelf -V` prints: "2.34".
pub(crate) fn newest_glibc(readelf: &str) -> Option<String> {
    let versions = readelf.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let text = end.map_or(rest, |end| rest.split_at(end).0);
        let (major, minor) = text.split_once('.')?;
        // "2.2.5": the third number says nothing to Debian.
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    versions
        .max()
        .map(|(major, minor)| format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkg_config_takes_its_paths_from_the_files_own_place() {
        let text = pkg_config();
        assert!(text.starts_with("prefix=${pcfiledir}/../..\n"));
        assert!(text.contains("\nLibs: -L${libdir} -ltowpath\n"));
        assert!(text.contains("\nCflags: -I${includedir}\n"));
        assert!(text.contains(&format!("\nVersion: {VERSION}\n")));
        for line in text.lines() {
            assert!(!line.contains("=/") && !line.ends_with(' '), "{line}");
        }
    }

    #[test]
    fn the_control_file_has_what_dpkg_asks_for() {
        let target = Target::new("x86_64").unwrap();
        let text = control(&target, "2.34", 12_345);
        for line in [
            "Package: towpath",
            "Architecture: amd64",
            "Depends: libc6 (>= 2.34), libgcc-s1",
            "Installed-Size: 12345",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        // Lines of the long description are continued by one blank; fields never are.
        let (fields, long) = text.split_once("Description: ").unwrap();
        assert!(
            fields
                .lines()
                .all(|line| line.contains(": ") && !line.starts_with(' '))
        );
        assert!(
            long.lines()
                .skip(1)
                .all(|line| line.starts_with(' ') && line.len() <= 80)
        );
        assert!(text.ends_with(".\n"));
    }

    #[test]
    fn debian_finds_the_library_and_the_changes_in_their_forms() {
        assert_eq!(shlibs(), format!("libtowpath 0 towpath (>= {VERSION})\n"));
        let changes = changes("Tue, 1 Dec 2026 11:00:00 +0000");
        let lines: Vec<&str> = changes.lines().collect();
        assert_eq!(
            lines[0],
            format!("towpath ({VERSION}) unstable; urgency=medium")
        );
        assert!(lines[2].starts_with("  * "), "{changes}");
        // Two blanks before the date.
        let end = " -- The towpath developers <towpath@invalid>  Tue, 1 Dec 2026 11:00:00 +0000";
        assert_eq!(lines[4], end);
    }

    #[test]
    fn the_newest_glibc_is_by_number_not_by_letter() {
        let text = "Name: GLIBC_2.9  Flags: none\n 0x20: Name: GLIBC_2.34\nName: GLIBC_2.2.5 \nGLIBC_PRIVATE";
        assert_eq!(newest_glibc(text).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("Name: GCC_3.0"), None);
    }

    #[test]
    fn the_library_has_the_name_that_its_build_gives_it() {
        let build = include_str!("../../../crates/capi/build.rs");
        assert!(build.contains(&format!("-soname,{SONAME}\"")));
    }

    #[test]
    fn unknown_machines_get_no_package() {
        assert!(Target::new("riscv64").is_err());
        assert_eq!(
            Target::new("aarch64").unwrap().tree_name(),
            format!("towpath-{VERSION}-linux-aarch64")
        );
    }
}
