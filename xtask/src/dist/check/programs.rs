//! C and C++ programs against the installed files, found by nothing but pkg-config.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{dynamic_section, entries};
use crate::run::{has_program, run_with, say};

/// What a C++ program needs of the library to be one of its users.
const CPP: &str = r"#include <towpath.h>

#include <cstdint>
#include <cstring>

int main()
{
    tp_sync *sync = nullptr;
    std::uint64_t reached = 0;
    if (tp_sync_create(0, &sync) != TP_OK || tp_sync_signal(sync, 7) != TP_OK)
        return 1;
    bool is_right = tp_sync_query(sync, &reached) == TP_OK && reached == 7;
    return is_right && tp_sync_free(sync) == TP_OK && std::strlen(tp_strerror(0)) > 0 ? 0 : 2;
}
";

/// How a program finds the library: the shared one, or with no shared library at all.
const LINKS: [(&str, &str); 2] = [
    ("shared", "$(pkg-config --cflags --libs towpath)"),
    (
        "static",
        "-static $(pkg-config --static --cflags --libs towpath)",
    ),
];

/// Builds and runs each of them against the library in `tree`, both ways.
///
/// # Errors
///
/// If one does not build or run, or a static one needs a shared library.
pub(super) fn built(tree: &Path, scratch: &Path) -> Result<()> {
    if !has_program("pkg-config") {
        say("No pkg-config here: the C side of the tree is not tried.");
        return Ok(());
    }
    fs::create_dir_all(scratch)?;
    let cpp = scratch.join("user.cpp");
    fs::write(&cpp, CPP)?;
    let c = tree.join("share/doc/towpath/examples/syncobj.c");
    for (compiler, source) in [("cc -std=c99", &c), ("c++ -std=c++17", &cpp)] {
        if !compiler.split(' ').take(1).all(has_program) {
            say(&format!(
                "No {compiler} here: {} is not built.",
                source.display()
            ));
            continue;
        }
        for (name, flags) in LINKS {
            let made = scratch.join(name);
            build_and_run(
                tree,
                &format!("{compiler} -Wall -Wextra -Werror"),
                source,
                flags,
                &made,
            )?;
            let needed = entries(&dynamic_section(&made)?, "NEEDED");
            let is_shared = needed.iter().any(|name| name.contains("towpath"));
            ensure!(
                if name == "shared" {
                    is_shared
                } else {
                    needed.is_empty()
                },
                "the {name} program needs {needed:?}"
            );
        }
    }
    fs::remove_dir_all(scratch)?;
    Ok(())
}

fn build_and_run(
    tree: &Path,
    compiler: &str,
    source: &Path,
    flags: &str,
    made: &Path,
) -> Result<()> {
    let library = tree.join("lib");
    let environment = [
        (
            "PKG_CONFIG_PATH",
            library.join("pkgconfig").display().to_string(),
        ),
        ("LD_LIBRARY_PATH", library.display().to_string()),
    ];
    let environment = environment
        .each_ref()
        .map(|(name, value)| (*name, &**value));
    let (source, made) = (source.display(), made.display());
    // The flags of --static name the libraries after the one that needs them.
    let line = format!("{compiler} '{source}' {flags} -lpthread -o '{made}' && '{made}'");
    run_with("sh", &["-c", &line], &environment)
}
