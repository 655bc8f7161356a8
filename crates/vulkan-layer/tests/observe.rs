//! What the layer records, and that a program does not notice it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;

use towpath_ledger::{Counter, LedgerFile, read_folder};
use towpath_mock_game::scene::{Ran, Scene};
use towpath_needs::{Need, can_run};

const LAYER: &str = "VK_LAYER_TOWPATH_host";
const LAVAPIPE: &str = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";
const ALL: &str = "swapchain ray-tracing compute=5 batch=4@10 cache=~c compute=3 size save=~c \
     no-cache graphics=2 rt=2 rt-deferred=2 submit=6 repeat=5 timeline=3 frames=7 map-readback";

struct Stage {
    folder: tempfile::TempDir,
    bare: Scene,
    scene: Scene,
}

/// A scene with the layer on and a ledger, and one without; nothing where there is no loader.
fn stage(script: &str) -> Option<Stage> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("ledger")).unwrap();
    let bare = Scene::new(folder.path()).script(script);
    let scene = bare
        .clone()
        .layer(LAYER)
        .var("TOWPATH_LEDGER", folder.path().join("ledger"))
        .var("TOWPATH_LOG", folder.path().join("log"));
    can_run(&[Need::Lavapipe]).then_some(Stage {
        folder,
        bare,
        scene,
    })
}

fn steps(scene: &Scene, steps: &str) -> Ran {
    let place = scene.path("").to_string_lossy().into_owned();
    let words: Vec<String> = steps
        .split_whitespace()
        .map(|word| word.replace('~', &place))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    scene.steps(&words)
}

impl Stage {
    fn ledger(&self) -> LedgerFile {
        let (mut files, problems) = read_folder(&self.folder.path().join("ledger"));
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(files.len(), 1);
        files.pop().unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn calls(ledger: &LedgerFile, call: &str) -> u64 {
    ledger
        .sites()
        .iter()
        .filter(|site| site.call == call)
        .map(|site| site.calls)
        .sum()
}

#[test]
fn the_driver_sees_the_same_calls_with_and_without_the_layer() {
    let Some(stage) = stage("") else { return };
    let without = steps(&stage.bare, ALL);
    std::fs::remove_file(stage.scene.path("c")).unwrap();
    let with = steps(&stage.scene, ALL);
    assert_eq!(without.code, Some(0), "{without:?}");
    assert_eq!((with.code, &with.said), (without.code, &without.said));
    assert_eq!(with.complained, "");
    for name in [
        "vkCreateComputePipelines",
        "vkQueueSubmit",
        "vkWaitForFences",
        "compile",
        "hit",
    ] {
        let lines = |ran: &Ran| ran.journal.count(name);
        assert_eq!(lines(&with), lines(&without), "{name}");
    }
    assert_eq!(with.journal.count("fault"), 0);
    assert_eq!(stage.log(), "");
}

#[test]
fn the_ledger_counts_every_call() {
    let Some(stage) = stage("") else { return };
    let ran = steps(&stage.scene, ALL);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ledger = stage.ledger();
    let expected = [
        ("vkCreateComputePipelines", 5 + 1 + 3),
        ("vkCreateGraphicsPipelines", 2),
        ("vkCreateRayTracingPipelinesKHR", 4),
        ("vkCreatePipelineCache", 1),
        ("vkGetPipelineCacheData (size)", 2),
        ("vkGetPipelineCacheData", 1),
        ("vkQueueSubmit", 6 + 1 + 3),
        ("vkWaitForFences", 6 + 5 + 7),
        ("vkWaitSemaphores", 6),
        ("vkQueuePresentKHR", 7),
        ("vkMapMemory of uncached readback memory", 1),
    ];
    for (call, count) in expected {
        assert_eq!(calls(&ledger, call), count, "{call}");
    }
    assert_eq!(ledger.counter(Counter::Frames), 7);
    // Four of five waits for one signal, and the second wait for each of three values.
    assert_eq!(ledger.counter(Counter::WaitsRepeated), 4 + 3);
    assert_eq!(ledger.counter(Counter::PanicsCaught), 0);
}

#[test]
fn a_buffers_use_is_that_of_the_newer_structure_where_there_is_one() {
    let Some(stage) = stage("") else { return };
    // A transfer's target; the same and a storage buffer.
    let ran = steps(&stage.scene, "map-wide=2 map-wide=34");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let maps = calls(&stage.ledger(), "vkMapMemory of uncached readback memory");
    assert_eq!(maps, 1);
}

#[test]
fn a_cache_that_is_fetched_again_unchanged_is_found() {
    let Some(stage) = stage("entry_bytes=10000") else {
        return;
    };
    let first = steps(&stage.bare, "cache=~c compute=50 save=~c");
    assert_eq!(first.code, Some(0), "{first:?}");
    let size = std::fs::metadata(stage.scene.path("c")).unwrap().len();
    let second = steps(&stage.scene, "cache=~c compute=50 save=~c");
    assert_eq!(second.code, Some(0), "{second:?}");
    let ledger = stage.ledger();
    assert_eq!(ledger.counter(Counter::CacheBytesRead), size);
    assert_eq!(ledger.counter(Counter::CacheBytesFetched), size);
    assert_eq!(ledger.counter(Counter::CacheBytesUnchanged), size);
}

#[test]
fn pipelines_made_once_frames_are_presented_are_told_from_those_before() {
    let Some(stage) = stage("compile_us=2000") else {
        return;
    };
    let ran = steps(
        &stage.scene,
        "swapchain compute=4 frames=70 compute=3@50 graphics=2",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ledger = stage.ledger();
    assert_eq!(calls(&ledger, "vkCreateComputePipelines"), 4);
    assert_eq!(calls(&ledger, "vkCreate*Pipelines in play"), 5);
    let in_play = ledger
        .sites()
        .into_iter()
        .find(|site| site.call.ends_with("in play"));
    assert!(in_play.unwrap().wall.0 >= 5 * 2_000_000);
}

#[test]
fn towpath_run_says_what_was_fetched_for_nothing() {
    let Some(stage) = stage("entry_bytes=10000") else {
        return;
    };
    let place = stage.scene.path("c").to_string_lossy().into_owned();
    let (cache, save) = (format!("cache={place}"), format!("save={place}"));
    let words = [cache.as_str(), "compute=200", save.as_str()];
    assert_eq!(stage.bare.steps(&words).code, Some(0));
    let mut command = std::process::Command::new(towpath_needs::artifact("towpath"));
    command.args(["run", "--"]);
    command.arg(towpath_needs::artifact("towpath-vulkan-steps"));
    command.args(words);
    stage
        .bare
        .dress(&mut command, &stage.scene.path("journal-run"));
    command
        .env_remove("VK_ADD_LAYER_PATH")
        .env_remove("VK_INSTANCE_LAYERS");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("its own pipeline cache again, 3 MB for +0 KB"),
        "{said}"
    );
    assert!(
        said.contains("vkGetPipelineCacheData (unchanged)"),
        "{said}"
    );
}

#[test]
fn without_ledger_fix_and_frame_log_nothing_is_intercepted_but_the_chain() {
    let Some(stage) = stage("") else { return };
    let idle = stage.bare.clone().layer(LAYER);
    let with = steps(&idle, ALL);
    assert_eq!(with.code, Some(0), "{with:?}");
    assert_eq!(read_folder(&stage.folder.path().join("ledger")).0.len(), 0);
}

#[test]
fn frames_go_to_a_csv_and_a_headless_program_gets_a_submit_clock() {
    let Some(stage) = stage("") else { return };
    let csv: PathBuf = stage.scene.path("frames.csv");
    let scene = stage
        .bare
        .clone()
        .layer(LAYER)
        .var("TOWPATH_FRAMES_CSV", &csv);
    let ran = steps(&scene, "swapchain frames=20");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(text.contains("\nfps,frametime,elapsed\n"), "{text}");
    assert_eq!(text.lines().count(), 3 + 19);
    std::fs::remove_file(&csv).unwrap();
    let ran = steps(&scene, "submit=20");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(
        text.contains("\nsubmits per second,frametime,elapsed\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 3 + 19);
}

#[test]
fn nonsense_in_variables_is_one_line_each_and_the_program_runs() {
    let Some(stage) = stage("") else { return };
    let scene = stage
        .scene
        .clone()
        .var("TOWPATH_FIX", "everything")
        .var("TOWPATH_CACHE_MODE", "\u{1}")
        .var("TOWPATH_LEDGER", "/no/such/folder")
        .var("TOWPATH_FRAMES_CSV", "/no/such/folder/frames.csv");
    let ran = steps(&scene, "compute=2");
    assert_eq!(
        (ran.code, ran.complained.as_str()),
        (Some(0), ""),
        "{ran:?}"
    );
    assert_eq!(stage.log().lines().count(), 4, "{}", stage.log());
}

#[test]
fn invalid_use_reaches_the_driver_as_it_would_without_us() {
    let Some(stage) = stage("") else { return };
    let without = steps(&stage.bare, "wrong-handle");
    let with = steps(&stage.scene, "wrong-handle");
    assert_eq!((with.code, &with.said), (without.code, &without.said));
    assert_eq!(with.journal.count("fault"), without.journal.count("fault"));
}

#[test]
fn a_lost_device_and_a_fork_are_the_programs_affair() {
    let Some(stage) = stage("lost_after=3") else {
        return;
    };
    let ran = steps(&stage.scene, "submit=5");
    assert_eq!(
        ran.said, "submit done=2 last=ERROR_DEVICE_LOST\n",
        "{ran:?}"
    );
    let scene = stage.scene.clone().script("");
    let ran = steps(&scene, "compute=2 fork compute=2@5");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.said.contains("child=0"), "{ran:?}");
}

#[test]
fn two_manifests_of_one_library_do_not_run_in_circles() {
    let Some(stage) = stage("") else { return };
    let ran = steps(&stage.scene.clone().layer(LAYER), ALL);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let folder = stage.scene.path("layers");
    let first = folder.join("VK_LAYER_TOWPATH_host.json");
    let text = std::fs::read_to_string(first).unwrap();
    let twin = text.replace("TOWPATH_host", "TOWPATH_twin");
    std::fs::write(folder.join("twin.json"), twin).unwrap();
    let ran = steps(
        &stage.scene.clone().layer("VK_LAYER_TOWPATH_twin"),
        "compute=3 submit=2",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.journal.count("vkQueueSubmit"), 2);
}

#[test]
fn a_manifest_that_points_nowhere_does_not_stop_the_program() {
    let Some(stage) = stage("") else { return };
    let folder = stage.scene.path("layers");
    std::fs::create_dir_all(&folder).unwrap();
    let nowhere = include_str!("../towpath_vulkan_layer.json").replace("host", "gone");
    std::fs::write(folder.join("gone.json"), nowhere).unwrap();
    let ran = steps(
        &stage.bare.clone().layer("VK_LAYER_TOWPATH_gone"),
        "compute=3",
    );
    // The loader refuses a layer asked for by name that it cannot load; an implicit one it skips.
    assert!(
        ran.code == Some(0) || ran.complained.contains("LAYER_NOT_PRESENT"),
        "{ran:?}"
    );
}

#[test]
fn lavapipe_under_validation_says_nothing_new() {
    let Some(stage) = stage("") else { return };
    if !can_run(&[Need::ValidationLayers]) {
        return;
    }
    let steps_of = "compute=5 batch=4@10 cache=~c compute=3 size save=~c no-cache submit=6 repeat=5 timeline=3";
    let validation = "VK_LAYER_KHRONOS_validation";
    let without = steps(
        &stage.bare.clone().icd(LAVAPIPE).layer(validation),
        steps_of,
    );
    let with = steps(
        &stage.scene.clone().icd(LAVAPIPE).layer(validation),
        steps_of,
    );
    assert_eq!(with.code, Some(0), "{with:?}");
    assert_eq!(with.complained, without.complained);
    assert!(!with.said.contains("VUID"), "{}", with.said);
    let below = stage
        .bare
        .clone()
        .icd(LAVAPIPE)
        .layer(validation)
        .layer(LAYER);
    let ran = steps(
        &below.var("TOWPATH_LEDGER", stage.folder.path().join("ledger")),
        steps_of,
    );
    assert!(!ran.said.contains("VUID") && ran.code == Some(0), "{ran:?}");
}

/// What the fixes make of the program's calls is looked at by the validation layer below ours.
#[test]
fn the_fixes_own_calls_are_valid() {
    let Some(stage) = stage("") else { return };
    if !can_run(&[Need::ValidationLayers]) {
        return;
    }
    let fixed = stage
        .scene
        .clone()
        .icd(LAVAPIPE)
        .layer("VK_LAYER_KHRONOS_validation")
        .var("TOWPATH_FIX", "cache,waits")
        .var("TOWPATH_CACHE_DIR", stage.scene.path("store"));
    let words = "compute=5 batch=4@10 sleep=300 compute=3@50 cache=~c compute=3 size save=~c no-cache submit=6 \
        repeat=5 timeline=3";
    for mode in ["fill", "takeover"] {
        for wishes in ["", "wide-features", "cache-control"] {
            let scene = fixed.clone().var("TOWPATH_CACHE_MODE", mode);
            let ran = steps(&scene, &format!("{wishes} {words}"));
            assert_eq!(ran.code, Some(0), "{ran:?}");
            for text in [&ran.said, &ran.complained] {
                let is_silent = !text.contains("VUID") && !text.contains("Validation Error");
                assert!(is_silent, "{mode} {wishes}: {text}");
            }
        }
    }
}

#[test]
fn the_newer_loader_and_swiftshader_take_the_layer_too() {
    let Some(stage) = stage("") else { return };
    if !can_run(&[Need::Chromium]) {
        return;
    }
    // Debian's chromium brings a loader of its own, and SwiftShader.
    let loader = stage.scene.path("loader");
    std::fs::create_dir(&loader).unwrap();
    let own = "/usr/lib/chromium/libvulkan.so.1";
    std::os::unix::fs::symlink(own, loader.join("libvulkan.so.1")).unwrap();
    let swiftshader = stage.scene.path("swiftshader.json");
    let text = r#"{"file_format_version": "1.0.0", "ICD": {"library_path": "/usr/lib/chromium/libvk_swiftshader.so", "api_version": "1.0.5"}}"#;
    std::fs::write(&swiftshader, text).unwrap();
    let newer = stage.scene.clone().var("LD_LIBRARY_PATH", &loader);
    let store = stage.scene.path("store");
    let fixed = newer
        .clone()
        .var("TOWPATH_FIX", "cache")
        .var("TOWPATH_CACHE_DIR", &store);

    let ran = steps(&newer, ALL);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.journal.count("fault"), 0);
    for (start, compiles) in [(1, 6), (2, 0)] {
        let ran = steps(&fixed, "compute=6");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(
            ran.journal.count("compile"),
            compiles,
            "start {start}: {}",
            stage.log()
        );
    }
    let few = "compute=5 batch=4@10 cache=~c compute=3 size save=~c2 no-cache submit=6 repeat=5 timeline=3";
    for driver in [LAVAPIPE, swiftshader.to_str().unwrap()] {
        for loader in [&newer, &fixed, &stage.scene] {
            let ran = steps(&loader.clone().icd(driver), few);
            assert_eq!(
                (ran.code, ran.complained.as_str()),
                (Some(0), ""),
                "{driver}: {ran:?}"
            );
        }
    }
}
