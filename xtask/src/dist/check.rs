//! Trying what was made, as the person who installs it would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::texts::SONAME;
use super::tree;
use crate::run::{has_program, run, run_with, say};

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
    pages(&tree.join("share/man/man1"))?;
    completions(&tree.join("share"))?;
    library(&tree.join("lib").join("libtowpath.so"), is_stripped)?;
    program(tree)?;
    c_programs(tree, &tree.with_file_name("try"))
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

/// Every man page is set without a complaint.
fn pages(folder: &Path) -> Result<()> {
    if !has_program("man") {
        say("No man here: the man pages are not set.");
        return Ok(());
    }
    for page in tree::files_of(folder)? {
        let shown = Command::new("man")
            .args(["--warnings", "--no-hyphenation", "-l"])
            .arg(folder.join(&page))
            .env("MANWIDTH", "80")
            .output()
            .context("cannot start man")?;
        let text = String::from_utf8_lossy(&shown.stdout);
        let complaints = String::from_utf8_lossy(&shown.stderr);
        ensure!(
            shown.status.success() && complaints.is_empty(),
            "{page}: {complaints}"
        );
        ensure!(
            ["NAME", "SYNOPSIS", "DESCRIPTION"]
                .iter()
                .all(|part| text.contains(part)),
            "{page} lacks a part:\n{text}"
        );
    }
    Ok(())
}

/// Each shell that is here reads its completions.
fn completions(share: &Path) -> Result<()> {
    for (shell, path) in [
        ("bash", "bash-completion/completions/towpath"),
        ("zsh", "zsh/site-functions/_towpath"),
        ("fish", "fish/vendor_completions.d/towpath.fish"),
    ] {
        if has_program(shell) {
            run(shell, &["-n", &share.join(path).display().to_string()])?;
        } else {
            say(&format!("No {shell} here: its completions are not read."));
        }
    }
    Ok(())
}

fn library(path: &Path, is_stripped: bool) -> Result<()> {
    let bytes = fs::metadata(path)?.len();
    say(&format!("libtowpath.so: {bytes} bytes."));
    if is_stripped && bytes > LIBRARY_LIMIT {
        bail!("libtowpath.so has {bytes} bytes stripped, more than {LIBRARY_LIMIT}");
    }
    let shown = Command::new("readelf")
        .args(["-d", "-W"])
        .arg(path)
        .output()
        .context("cannot start readelf (package binutils)")?;
    let dynamic = String::from_utf8_lossy(&shown.stdout);
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

/// C programs by nothing but pkg-config: with the shared library, and with no shared library at all.
fn c_programs(tree: &Path, scratch: &Path) -> Result<()> {
    if !has_program("pkg-config") || !has_program("cc") {
        say("No pkg-config or no cc here: the C side of the tree is not tried.");
        return Ok(());
    }
    fs::create_dir_all(scratch)?;
    let library = tree.join("lib");
    let packages = library.join("pkgconfig").display().to_string();
    let environment = [
        ("PKG_CONFIG_PATH", packages.as_str()),
        ("LD_LIBRARY_PATH", &library.display().to_string()),
    ];
    let source = tree.join("share/doc/towpath/examples/syncobj.c");
    for (name, flags) in [
        ("shared", "$(pkg-config --cflags --libs towpath)"),
        (
            "static",
            "-static $(pkg-config --static --cflags --libs towpath)",
        ),
    ] {
        let made = scratch.join(name).display().to_string();
        // The flags of --static name the libraries after the one that needs them.
        let line = format!(
            "cc -std=c99 '{}' {flags} -lpthread -o '{made}' && '{made}'",
            source.display()
        );
        run_with("sh", &["-c", &line], &environment)?;
    }
    let shown = Command::new("readelf")
        .args(["-d", "-W"])
        .arg(scratch.join("static"))
        .output()?;
    let needed = entries(&String::from_utf8_lossy(&shown.stdout), "NEEDED");
    ensure!(needed.is_empty(), "the static program needs {needed:?}");
    fs::remove_dir_all(scratch)?;
    Ok(())
}

/// Tries a Debian package: installed into a root of its own, used there, and removed again; unpacked only, where we may
/// not install.
///
/// # Errors
///
/// As [`tree()`].
pub(crate) fn package(file: &Path, out: &Path) -> Result<()> {
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
