//! The four example programs, built by the system's compilers against the library and run; and what the
//! library exports and needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use towpath_needs::{Need, artifact, can_run};

use crate::common::{Installed, example, says_ok, valgrind};

#[test]
fn sync_objects_in_c() {
    if can_run(&[Need::Cc]) {
        Installed::new().run("cc", "syncobj.c", &["-std=c99"]);
    }
}

#[test]
fn textures_from_pieces_in_c() {
    if can_run(&[Need::Cc]) {
        Installed::new().run("cc", "texture_upload.c", &["-std=c11"]);
    }
}

#[test]
fn a_pipeline_cache_in_cpp() {
    if can_run(&[Need::Cxx, Need::VulkanHeaders]) {
        Installed::new().run("c++", "pipeline_cache.cpp", &["-std=c++17", "-lvulkan"]);
    }
}

#[test]
fn a_readback_in_c() {
    if can_run(&[Need::Cc, Need::Pocl, Need::PagemapScan]) {
        Installed::new().run("cc", "readback.c", &["-std=c11", "-lOpenCL"]);
    }
}

/// Each example with what it is built by, and with what.
const ALL: [(&str, &str, &[&str]); 4] = [
    ("cc", "syncobj.c", &["-std=c99"]),
    ("cc", "texture_upload.c", &["-std=c11"]),
    ("c++", "pipeline_cache.cpp", &["-std=c++17", "-lvulkan"]),
    ("cc", "readback.c", &["-std=c11", "-lOpenCL"]),
];

const NEEDS: [Need; 5] = [
    Need::Cc,
    Need::Cxx,
    Need::Pocl,
    Need::PagemapScan,
    Need::VulkanHeaders,
];

#[test]
fn the_examples_are_clean_under_address_sanitizer() {
    if !can_run(&NEEDS) {
        return;
    }
    for (compiler, name, words) in ALL {
        let installed = Installed::new();
        let words = [words, &["-fsanitize=address,undefined"]].concat();
        let program = installed.build(compiler, &example(name), &words);
        let mut command = Command::new(program);
        installed.drivers(&mut command);
        // Drivers keep memory of their own; leaks of ours are Valgrind's to find, which tells them apart.
        if words
            .iter()
            .any(|word| ["-lOpenCL", "-lvulkan"].contains(word))
        {
            command.env("ASAN_OPTIONS", "detect_leaks=0");
        }
        says_ok(&mut command);
    }
}

#[test]
fn the_examples_are_clean_under_valgrind() {
    if !can_run(&NEEDS) || !can_run(&[Need::Valgrind]) {
        return;
    }
    let installed = Installed::new();
    for (compiler, name, words) in ALL {
        let program = installed.build(compiler, &example(name), words);
        let mut valgrind = valgrind();
        valgrind
            .arg(program)
            // Rows of the picture; the others take no argument.
            .arg("40")
            // Kept loaded, so that what it leaves behind has a name at the end.
            .env("LD_PRELOAD", artifact("libtowpath_mock_vulkan.so"));
        says_ok(installed.drivers(&mut valgrind));
    }
}

#[test]
fn exactly_the_functions_of_the_header_are_exported() {
    let listed = |args: &[&str], program: &str| {
        let done = Command::new(program)
            .args(args)
            .arg(artifact("libtowpath.so"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let exported: BTreeSet<String> = listed(&["-D", "--defined-only"], "nm")
        .lines()
        .filter_map(|line| line.split_whitespace().last().map(str::to_owned))
        .collect();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/towpath.h");
    let header = fs::read_to_string(header).unwrap();
    let declared: BTreeSet<String> = header
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '('))
        .filter_map(|word| word.split_once('('))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.starts_with("tp_"))
        .collect();
    assert!(declared.len() > 15, "{declared:?}");
    assert_eq!(exported, declared);
    // The C library and the unwinder alone: drivers are opened at run time, special functions are compiled in.
    // `__tls_get_addr`, by which any shared library reaches its thread-local variables, is the dynamic loader's own:
    // which is there before the library is.
    let needed: BTreeSet<String> = listed(&["-d"], "readelf")
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned()))
        .collect();
    let expected = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1"];
    assert_eq!(needed, expected.map(str::to_owned).into());
    let from_loader: Vec<String> = listed(&["-D", "--undefined-only"], "nm")
        .lines()
        .filter_map(|line| {
            line.split_whitespace()
                .last()?
                .split('@')
                .next()
                .map(str::to_owned)
        })
        .filter(|name| {
            ["__tls_get_addr", "_dl_", "_rtld"]
                .iter()
                .any(|loader| name.starts_with(loader))
        })
        .collect();
    assert_eq!(from_loader, ["__tls_get_addr"]);
}
