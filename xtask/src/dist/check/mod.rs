//! Trying what was made, as the person who installs it would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::texts::{SONAME, VERSION};
use super::tree;
use crate::run::{has_program, run, say};

mod programs;
mod shells;

/// libtowpath.so must stay a library that a game can ship: 3 MiB, stripped.
const LIBRARY_LIMIT: u64 = 3 << 20;

/// What libtowpath.so may need: the C library, the unwinder, and the loader for thread-local variables. Drivers are
/// opened at run time.
const NEEDED: [&str; 4] = [
    "libc.so.6",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libgcc_s.so.1",
];

/// Tries an installed tree: what must be there, the library, the program, and C programs against it.
///
/// # Errors
///
/// With the first thing that is not as it must be.
pub(crate) fn tree(tree: &Path, is_stripped: bool) -> Result<()> {
    files(tree)?;
    shells::pages(&tree.join("share/man"))?;
    shells::completions(&tree.join("share"))?;
    library(&tree.join("lib"), is_stripped)?;
    program(tree)?;
    programs::built(tree, &tree.with_file_name("try"))
}

fn files(tree: &Path) -> Result<()> {
    let pages = tree::files_of(&tree.join("share/man/man1"))?;
    ensure!(
        pages.len() > 10 && pages.iter().any(|page| page.starts_with("towpath-ab.1")),
        "man pages: {pages:?}"
    );
    for name in [
        "bin/towpath",
        "include/towpath.h",
        "lib/libtowpath.a",
        "lib/pkgconfig/towpath.pc",
        "share/bash-completion/completions/towpath",
        "share/zsh/site-functions/_towpath",
        "share/fish/vendor_completions.d/towpath.fish",
        "share/doc/towpath/THIRD-PARTY",
        "share/doc/towpath/LICENSE-MIT",
        "share/doc/towpath/LICENSE-APACHE",
    ] {
        let path = tree.join(name);
        let bytes = fs::metadata(&path).with_context(|| format!("no {}", path.display()))?;
        ensure!(bytes.len() > 0, "{} is empty", path.display());
    }
    Ok(())
}

fn library(folder: &Path, is_stripped: bool) -> Result<()> {
    let path = folder.join("libtowpath.so");
    // What the linker looks for leads to what the loader looks for, and that to the one file.
    let full = format!("libtowpath.so.{VERSION}");
    ensure!(fs::read_link(&path)? == Path::new(SONAME));
    ensure!(fs::read_link(folder.join(SONAME))? == Path::new(&full));
    let bytes = fs::metadata(&path)?.len();
    say(&format!("libtowpath.so: {bytes} bytes."));
    if is_stripped && bytes > LIBRARY_LIMIT {
        bail!("libtowpath.so has {bytes} bytes stripped, more than {LIBRARY_LIMIT}");
    }
    let dynamic = dynamic_section(&path)?;
    let soname = entries(&dynamic, "SONAME");
    ensure!(soname == [SONAME], "the library's name is {soname:?}");
    for name in entries(&dynamic, "NEEDED") {
        ensure!(
            NEEDED.contains(&name.as_str()),
            "libtowpath.so needs {name}"
        );
    }
    Ok(())
}

/// What `readelf -d` prints.
fn dynamic_section(path: &Path) -> Result<String> {
    let shown = Command::new("readelf")
        .args(["-d", "-W"])
        .arg(path)
        .output()
        .context("cannot start readelf (package binutils)")?;
    Ok(String::from_utf8_lossy(&shown.stdout).into_owned())
}

/// The values of one kind in what `readelf -d` prints: `0x1 (NEEDED) Shared library: [libc.so.6]`.
fn entries(dynamic: &str, kind: &str) -> Vec<String> {
    let kind = format!("({kind})");
    dynamic
        .lines()
        .filter(|line| line.contains(&kind))
        .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()))
        .collect()
}

/// The installed program must find the installed layers.
fn program(tree: &Path) -> Result<()> {
    let status = Command::new(tree.join("bin/towpath"))
        .args(["layers", "status"])
        .output()
        .context("cannot start the installed program")?;
    let text = String::from_utf8_lossy(&status.stdout);
    let folder = tree.join("lib/towpath").canonicalize()?;
    let found = text.matches(&folder.display().to_string()).count();
    if !status.status.success() || found < 2 {
        bail!("the installed program does not find its layers:\n{text}");
    }
    Ok(())
}

/// Tries a Debian package: installed into a root of its own, used there, and removed again; unpacked only, where we may
/// not install.
///
/// # Errors
///
/// As [`tree()`].
pub(crate) fn package(file: &Path, out: &Path) -> Result<()> {
    lint(file)?;
    let root = out.join("try-root");
    super::clear(&root)?;
    let [unpacked, installed] = ["unpacked", "installed"].map(|name| root.join(name));
    let deb = file.display().to_string();
    if !is_root() {
        say("Not root: the package is unpacked, not installed.");
        fs::create_dir_all(&unpacked)?;
        run("dpkg-deb", &["-x", &deb, &unpacked.display().to_string()])?;
        tree(&unpacked.join("usr"), true)?;
        return super::clear(&root);
    }
    // A system of dpkg's that has nothing.
    let database = installed.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(folder))?;
    }
    fs::write(database.join("status"), "")?;
    let at = format!("--root={}", installed.display());
    run("dpkg", &[&at, "--force-depends", "-i", &deb])?;
    tree(&installed.join("usr"), true)?;
    let list = Command::new("dpkg").args([&at, "-L", "towpath"]).output()?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let paths: Vec<PathBuf> = list
        .lines()
        .map(|line| installed.join(line.trim_start_matches('/')))
        .collect();
    let files = paths.iter().filter(|path| path.is_file()).count();
    ensure!(files > 20, "the package installed {files} files");
    run("dpkg", &[&at, "-r", "towpath"])?;
    let stayed = paths
        .iter()
        .find(|path| path.is_file() || path.is_symlink());
    ensure!(
        stayed.is_none(),
        "{stayed:?} stayed after the package was removed"
    );
    ensure!(
        !installed.join("usr").exists(),
        "folders stayed after the package was removed"
    );
    say(&format!(
        "The package: {files} files installed and removed."
    ));
    super::clear(&root)
}

/// Debian's own rules: no error, but that nobody's address is in it, since there is none to give.
fn lint(package: &Path) -> Result<()> {
    if !has_program("lintian") {
        say("No lintian here: the package is not held against Debian's rules.");
        return Ok(());
    }
    let words = [
        "--fail-on=error",
        "--suppress-tags=bogus-mail-host,bogus-mail-host-in-debian-changelog",
    ];
    run(
        "lintian",
        &[&words[..], &[&package.display().to_string()]].concat(),
    )
}

fn is_root() -> bool {
    let shown = Command::new("id").arg("-u").output();
    shown.is_ok_and(|shown| shown.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_library_needs_is_read_out() {
        let text = " 0x1 (NEEDED)  Shared library: [libgcc_s.so.1]\n 0x1 (NEEDED)  Shared library: [libc.so.6]\n \
                    0xe (SONAME)  Library soname: [libtowpath.so.0]\n 0x1e (FLAGS) BIND_NOW\n";
        assert_eq!(entries(text, "NEEDED"), ["libgcc_s.so.1", "libc.so.6"]);
        assert_eq!(entries(text, "SONAME"), ["libtowpath.so.0"]);
        assert!(entries(text, "RPATH").is_empty());
    }
}
