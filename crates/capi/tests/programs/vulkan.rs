//! The Vulkan layer and the library in one program, each with a store of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use towpath_needs::{Need, artifact, can_run};

use crate::beside::ledgers;
use crate::common::{Installed, example, says_ok, source};

/// The program saves by the library what it gets through the layer, which has a store of its own: every case of the
/// example must come out as without the layer.
#[test]
fn the_vulkan_layer_lives_beside_the_pipeline_cache_example() {
    let Some((installed, program)) = built(&example("pipeline_cache.cpp")) else {
        return;
    };
    let layers = installed.path().join("layers");
    write_manifest(&layers);
    for fix in ["none", "cache", "cache,waits"] {
        let ledger = installed.path().join(format!("ledger-{fix}"));
        let log = installed.path().join(format!("log-{fix}"));
        fs::create_dir(&ledger).unwrap();
        says_ok(
            installed
                .drivers(&mut Command::new(&program))
                .env("VK_ADD_LAYER_PATH", &layers)
                .env("VK_INSTANCE_LAYERS", "VK_LAYER_TOWPATH_host")
                .env("XDG_CACHE_HOME", installed.path().join("cache"))
                .env("TOWPATH_FIX", fix)
                .env("TOWPATH_LOG", &log)
                .env("TOWPATH_LEDGER", &ledger),
        );
        // The saves in processes of their own are forks: each has the layer, and its own ledger.
        assert!(ledgers(&ledger) >= 1, "the layer was there with {fix}");
        // All pipelines go to the program's own cache, which the fix must have looked at to leave it alone. With the
        // fix not to be had at all, as for an instance of Vulkan 1.0, this test would try nothing.
        let log = fs::read_to_string(log).unwrap_or_default();
        let left_alone = log.matches("pipelines passed on as they are").count();
        assert_eq!(left_alone, usize::from(fix != "none"), "{fix}: {log}");
        assert!(!log.contains("cache fix off"), "{fix}: {log}");
    }
}

/// The layer serves pipelines without a cache from its store, the program others from one of the library: both stores
/// are made, neither gets what is the other's, and both are warm at the second start.
#[test]
fn the_stores_of_the_vulkan_layer_and_of_the_library_live_in_one_process() {
    let Some((installed, program)) = built(&source("stores.cpp")) else {
        return;
    };
    let compiled = ["first", "second"].map(|start| start_once(&installed, &program, start, "fill"));
    assert_eq!(compiled, [5, 0]);
}

/// Under takeover the program's own cache has nothing left to save: the library must say so.
#[test]
fn a_program_whose_cache_the_layer_took_over_saves_nothing_by_the_library() {
    let Some((installed, program)) = built(&source("stores.cpp")) else {
        return;
    };
    let compiled =
        ["first", "second"].map(|start| start_once(&installed, &program, start, "takeover"));
    assert_eq!(compiled, [12, 0]);
}

fn built(source: &Path) -> Option<(Installed, PathBuf)> {
    if !can_run(&[Need::Cxx, Need::VulkanHeaders]) {
        return None;
    }
    let installed = Installed::new();
    let program = installed.build("c++", source, &["-std=c++17", "-lvulkan"]);
    Some((installed, program))
}

/// One start of `stores.cpp` by `towpath run`; gives the pipelines that the layer saw compiled.
fn start_once(installed: &Installed, program: &Path, start: &str, mode: &str) -> u64 {
    let json = installed.path().join(start);
    let store = installed.path().join("layers-store");
    says_ok(
        installed
            .drivers(&mut Command::new(artifact("towpath")))
            .args(["run", "--fix", "cache", "--json"])
            .arg(&json)
            .arg("--")
            .arg(program)
            .arg(installed.path().join("librarys-store"))
            .args([start, mode])
            .env("TOWPATH_CACHE_MODE", mode)
            .env("TOWPATH_CACHE_DIR", &store),
    );
    let made = store.join(program.file_name().unwrap());
    assert!(made.is_dir(), "the layer made no store");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    report["ledger"]["counters"]["pipelines compiled"]
        .as_u64()
        .unwrap_or(0)
}

fn write_manifest(folder: &Path) {
    let manifest = format!(
        r#"{{"file_format_version": "1.2.0", "layer": {{"name": "VK_LAYER_TOWPATH_host", "type": "GLOBAL",
        "library_path": "{}", "api_version": "1.3.290", "implementation_version": "1", "description": "beside"}}}}"#,
        artifact("libtowpath_vulkan_layer.so").display()
    );
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("host.json"), manifest).unwrap();
}
