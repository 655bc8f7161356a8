//! `cargo xtask dist`: the installable tree, an archive of it, and a Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{cargo, has_program, root, run as start, say};

mod check;
mod debian;
mod notices;
mod texts;
mod tree;

use texts::Target;
use tree::{Entry, Source};

/// Where the packages go, and which.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder for the tree, the archive and the package.
    #[arg(long, value_name = "FOLDER", default_value = "target/dist")]
    out: PathBuf,
    /// Leaves the symbols of programs and libraries in.
    #[arg(long)]
    no_strip: bool,
    /// Tries what an earlier run made, and makes nothing.
    #[arg(long)]
    check: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            out: PathBuf::from("target/dist"),
            no_strip: false,
            check: false,
        }
    }
}

/// What the release build must make: the packages with something to install.
const PACKAGES: [&str; 6] = [
    "towpath-cli",
    "towpath-capi",
    "towpath-opencl-layer",
    "towpath-vulkan-layer",
    "towpath-virgl-layer",
    "towpath-drm-shim",
];

/// Builds, lays the tree, tries it, and packs it.
///
/// # Errors
///
/// If something cannot be built or written, or does not work once it is installed: see [`check`].
pub(crate) fn run(args: &Args) -> Result<()> {
    let target = Target::new(std::env::consts::ARCH)?;
    let out = root().join(&args.out);
    let tree = out.join(target.tree_name());
    if args.check {
        return try_out(&out, &tree, &target, !args.no_strip);
    }
    say("Building towpath, its layers and libtowpath.");
    let mut words = vec!["build", "--release", "--locked"];
    for package in PACKAGES {
        words.extend(["-p", package]);
    }
    start(&cargo(), &words)?;
    let made = out.join("made");
    clear(&made)?;
    let program = root().join("target/release/towpath");
    write_by(&program, "--write-man", &made.join("man"))?;
    write_by(&program, "--write-completions", &made.join("completions"))?;

    clear(&tree)?;
    for entry in plan(&made)? {
        entry.place(&tree)?;
    }
    if args.no_strip {
        say("Symbols stay in.");
    } else {
        strip(&tree)?;
    }
    archive(&out, &target)?;
    debian::package(&out, &tree, &target)?;
    try_out(&out, &tree, &target, !args.no_strip)
}

fn try_out(out: &Path, tree: &Path, target: &Target, is_stripped: bool) -> Result<()> {
    check::tree(tree, is_stripped)?;
    let package = package_file(out, target);
    if package.is_file() {
        check::package(&package, out)?;
    }
    Ok(())
}

fn package_file(out: &Path, target: &Target) -> PathBuf {
    out.join(format!("towpath_{}_{}.deb", texts::VERSION, target.debian))
}

/// The whole tree: what comes from the repository, from the build and from the program itself.
fn plan(made: &Path) -> Result<Vec<Entry>> {
    let mut entries = tree::fixed(&root());
    let pages = tree::files_of(&made.join("man"))?;
    if pages.is_empty() {
        bail!("the program wrote no man pages");
    }
    for page in pages {
        entries.push(Entry::file(
            &made.join("man").join(&page),
            "share/man/man1",
            &page,
        ));
    }
    for (name, folder, installed) in [
        (
            "towpath.bash",
            "share/bash-completion/completions",
            "towpath",
        ),
        ("_towpath", "share/zsh/site-functions", "_towpath"),
        (
            "towpath.fish",
            "share/fish/vendor_completions.d",
            "towpath.fish",
        ),
    ] {
        entries.push(Entry::file(
            &made.join("completions").join(name),
            folder,
            installed,
        ));
    }
    let notices = notices::collect(&PACKAGES)?;
    entries.push(Entry::new(
        Source::Text(notices),
        "share/doc/towpath/THIRD-PARTY",
    ));
    Ok(entries)
}

fn write_by(program: &Path, option: &str, folder: &Path) -> Result<()> {
    let program = program.display().to_string();
    let folder = folder.display().to_string();
    start(&program, &["about", option, &folder])
}

/// Removes a folder of an earlier run.
fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    Ok(())
}

fn strip(tree: &Path) -> Result<()> {
    if !has_program("strip") {
        say("No strip here (package binutils): symbols stay in.");
        return Ok(());
    }
    for folder in ["bin", "lib", "lib/towpath"] {
        for name in tree::files_of(&tree.join(folder))? {
            let path = tree.join(folder).join(&name);
            // A link would be replaced by a file.
            if path.is_symlink() {
                continue;
            }
            let what = match path.extension().and_then(|ending| ending.to_str()) {
                Some("json") => continue,
                Some("a") => "--strip-debug",
                _ => "--strip-unneeded",
            };
            start("strip", &[what, &path.display().to_string()])?;
        }
    }
    Ok(())
}

/// The time of the last commit in a format of git's, so that two runs on one commit pack the same times.
fn moment(format: &str) -> Option<String> {
    let shown = Command::new("git")
        .args(["log", "-1", &format!("--format={format}")])
        .current_dir(root())
        .output();
    let text = shown.map(|shown| String::from_utf8_lossy(&shown.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty())
}

/// Seconds since 1970 of the last commit.
fn seconds() -> String {
    moment("%ct").unwrap_or_else(|| "0".to_owned())
}

fn archive(out: &Path, target: &Target) -> Result<()> {
    let name = target.tree_name();
    let file = out.join(format!("{name}.tar.gz"));
    let words = [
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        &format!("--mtime=@{}", seconds()),
        // Without the name and time that gzip would put in.
        "--use-compress-program=gzip -n",
        "-C",
        &out.display().to_string(),
        "-cf",
        &file.display().to_string(),
        &name,
    ];
    start("tar", &words)?;
    say(&format!("Wrote {}", file.display()));
    Ok(())
}
