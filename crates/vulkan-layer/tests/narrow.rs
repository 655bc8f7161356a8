//! The layer in 32-bit processes, whose ledgers 64-bit ones read. `cargo xtask layer32 --test` builds it
//! and runs this; elsewhere these tests say that they were skipped.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use towpath_ledger::{Counter, LedgerFile, read_folder};
use towpath_mock_game::scene::{Ran, Scene};
use towpath_needs::{Need, artifact, can_run, narrow_build};

const LAYER: &str = "VK_LAYER_TOWPATH_host";
const LAVAPIPE: &str = "/usr/share/vulkan/icd.d/lvp_icd.i686.json";
const ALL: &[&str] = &[
    "swapchain",
    "ray-tracing",
    "compute=5",
    "batch=4@10",
    "threads=5@400",
    "cache=none",
    "compute=3@30",
    "size",
    "no-cache",
    "graphics=2",
    "rt=2",
    "rt-deferred=2",
    "library=2",
    "shader-object=2",
    "submit=6",
    "repeat=5",
    "timeline=3",
    "reuse=6",
    "frames=7",
    "map-readback",
];

/// One machine with two kinds of process: the scenes differ in whose build they run, and share a store.
struct Stage {
    folder: tempfile::TempDir,
    built: PathBuf,
}

fn stage() -> Option<Stage> {
    let built = narrow_build()?;
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "wide",
        "narrow",
        "store",
        "run",
        "wide/ledger",
        "narrow/ledger",
    ] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    can_run(&[Need::Lavapipe]).then_some(Stage { folder, built })
}

impl Stage {
    fn bare(&self, name: &str) -> Scene {
        let scene = Scene::new(&self.folder.path().join(name))
            .var("XDG_RUNTIME_DIR", self.folder.path().join("run"));
        if name == "narrow" {
            scene.built_in(&self.built)
        } else {
            scene
        }
    }

    fn scene(&self, name: &str, mode: &str) -> Scene {
        let scene = self.bare(name).layer(LAYER);
        let ledger = scene.path("ledger");
        scene
            .var("TOWPATH_LEDGER", ledger)
            .var("TOWPATH_FIX", "cache,waits")
            .var("TOWPATH_CACHE_MODE", mode)
            .var("TOWPATH_CACHE_DIR", self.folder.path().join("store"))
    }

    fn ledger(&self, name: &str) -> LedgerFile {
        let (mut files, problems) = read_folder(&self.folder.path().join(name).join("ledger"));
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(files.len(), 1);
        files.pop().unwrap()
    }
}

fn ok(scene: &Scene, steps: &[&str]) -> Ran {
    let ran = scene.steps(steps);
    assert_eq!(
        (ran.code, ran.complained.as_str()),
        (Some(0), ""),
        "{ran:?}"
    );
    assert_eq!(ran.journal.count("fault"), 0, "{ran:?}");
    ran
}

fn compiles(scene: &Scene, steps: &[&str]) -> usize {
    ok(scene, steps).journal.count("compile")
}

fn stores(folder: &Path) -> usize {
    let programs = fs::read_dir(folder).unwrap().flatten();
    programs
        .map(|program| fs::read_dir(program.path()).unwrap().count())
        .sum()
}

#[test]
fn both_widths_are_recorded_alike_and_say_what_the_program_says_without_the_layer() {
    let Some(stage) = stage() else { return };
    let counts = |name: &str| {
        let without = ok(&stage.bare(name), ALL);
        let with = ok(&stage.scene(name, "fill"), ALL);
        assert_eq!(with.said, without.said, "{name}");
        let ledger = stage.ledger(name);
        assert_eq!(ledger.counter(Counter::PanicsCaught), 0, "{name}");
        let sites = ledger.sites();
        let mut calls: Vec<_> = sites.iter().map(|s| (s.call.clone(), s.calls)).collect();
        calls.sort();
        (calls, ledger.counter(Counter::Frames), with.said)
    };
    let (wide, narrow) = (counts("wide"), counts("narrow"));
    assert!(wide.0.len() > 12, "{wide:?}");
    assert_eq!(wide, narrow);
}

#[test]
fn each_width_fills_a_store_of_its_own() {
    let Some(stage) = stage() else { return };
    let steps = &["compute=20", "batch=4@100"];
    for name in ["narrow", "wide"] {
        let scene = stage.scene(name, "fill");
        assert_eq!(compiles(&scene, steps), 24, "{name}");
        assert_eq!(compiles(&scene, steps), 0, "{name}");
    }
    assert_eq!(stores(&stage.folder.path().join("store")), 2);
}

#[test]
fn a_32_bit_programs_cache_is_taken_over() {
    let Some(stage) = stage() else { return };
    let bare = stage.bare("narrow");
    let cache = bare.path("c").to_string_lossy().into_owned();
    let (load, save) = (format!("cache={cache}"), format!("save={cache}"));
    let steps = [load.as_str(), "compute=40", save.as_str()];
    assert_eq!(compiles(&bare, &steps), 40);
    let scene = stage.scene("narrow", "takeover");
    for start in 1..=2 {
        assert_eq!(compiles(&scene, &steps), 0, "start {start}");
        assert_eq!(fs::metadata(&cache).unwrap().len(), 32);
    }
}

#[test]
fn a_real_driver_takes_the_32_bit_layer() {
    let Some(stage) = stage() else { return };
    assert!(Path::new(LAVAPIPE).exists(), "mesa-vulkan-drivers:i386");
    let steps = &[
        "compute=5",
        "batch=4@10",
        "submit=6",
        "repeat=5",
        "timeline=3",
    ];
    let without = ok(&stage.bare("narrow").icd(LAVAPIPE), steps);
    for mode in ["fill", "takeover", "observe"] {
        let with = ok(&stage.scene("narrow", mode).icd(LAVAPIPE), steps);
        assert_eq!(with.said, without.said, "{mode}");
    }
}

#[test]
fn towpath_run_gives_each_process_the_layer_of_its_width_and_skips_a_missing_one() {
    let Some(stage) = stage() else { return };
    let layers = stage.folder.path().join("layers");
    let library = "libtowpath_vulkan_layer.so";
    fs::create_dir_all(layers.join("i686")).unwrap();
    symlink(artifact(library), layers.join(library)).unwrap();
    let run = |name: &str| {
        let scene = stage.bare(name);
        let mut command = Command::new(artifact("towpath"));
        command
            .args(["run", "--"])
            .arg(scene.built("towpath-vulkan-steps"));
        command.args(["compute=3", "submit=4"]);
        scene.dress(&mut command, &scene.path("journal"));
        command
            .env_remove("VK_ADD_LAYER_PATH")
            .env_remove("VK_INSTANCE_LAYERS");
        let output = command.env("TOWPATH_LAYER_DIR", &layers).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stderr).contains("vkQueueSubmit")
    };
    assert!(run("wide"));
    assert!(!run("narrow"), "there is no layer for it yet");
    symlink(stage.built.join(library), layers.join("i686").join(library)).unwrap();
    assert!(run("narrow") && run("wide"));
}
