//! A real program on lavapipe: its frame 60 is the same with and without the layer.

use std::fs;
use std::process::Command;

use towpath_ledger::{Counter, read_folder};
use towpath_mock_game::scene::{Ran, Scene};
use towpath_mock_game::screen::Screen;
use towpath_needs::{Need, can_run};

const LAYER: &str = "VK_LAYER_TOWPATH_host";
const CAPTURE: &str = "VK_LAYER_TOWPATH_capture";
const LAVAPIPE: &str = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";

fn cube(scene: &Scene, screen: &Screen, frames: u32) -> Ran {
    let mut command = Command::new("vkcube");
    command.args(["--c", &frames.to_string(), "--suppress_popups"]);
    command.env("DISPLAY", &screen.display);
    scene.run(command)
}

#[test]
fn frame_60_is_the_same_with_and_without_the_layer_and_validation_is_silent() {
    let needs = [
        Need::Lavapipe,
        Need::Vkcube,
        Need::Xvfb,
        Need::ValidationLayers,
    ];
    if !can_run(&needs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    fs::create_dir(&ledger).unwrap();
    let screen = Screen::open();
    let base = Scene::new(folder.path())
        .icd(LAVAPIPE)
        .var("XDG_RUNTIME_DIR", folder.path())
        .var("XDG_CACHE_HOME", folder.path().join("cache"))
        .var("LP_NUM_THREADS", "1");
    let bare = base
        .clone()
        .layer(CAPTURE)
        .var("TOWPATH_TEST_CAPTURE", folder.path().join("without.ppm"));
    let ran = cube(&bare, &screen, 70);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let with = base
        .clone()
        .layer(CAPTURE)
        .layer(LAYER)
        .var("TOWPATH_TEST_CAPTURE", folder.path().join("with.ppm"))
        .var("TOWPATH_LEDGER", &ledger)
        .var("TOWPATH_FIX", "cache")
        .var("TOWPATH_LOG", folder.path().join("log"))
        .var("TOWPATH_FRAMES_CSV", folder.path().join("frames.csv"));
    let ran = cube(&with, &screen, 70);
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let pixels = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let (first, second) = (pixels("without.ppm"), pixels("with.ppm"));
    assert!(first.len() > 100_000, "{}", first.len());
    assert!(first == second, "frame 60 differs");
    let colours: std::collections::BTreeSet<_> = first.chunks(3).collect();
    assert!(
        colours.len() > 50,
        "a picture, not a plain colour: {}",
        colours.len()
    );

    let (files, problems) = read_folder(&ledger);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(files.first().unwrap().counter(Counter::Frames), 70);
    let csv = fs::read_to_string(folder.path().join("frames.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3 + 69);

    validated(&base, &screen);
}

/// Validation above our layer, where it sees the program's calls, and below, where it sees ours.
fn validated(base: &Scene, screen: &Screen) {
    let validation = "VK_LAYER_KHRONOS_validation";
    let above = base.clone().layer(validation).layer(LAYER);
    let below = base.clone().layer(LAYER).layer(validation);
    for scene in [above, below] {
        let fixed = scene
            .clone()
            .var("TOWPATH_LEDGER", scene.path("ledger"))
            .var("TOWPATH_FIX", "cache,waits")
            .var("TOWPATH_CACHE_DIR", scene.path("store"));
        let ran = cube(&fixed, screen, 30);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(
            !ran.said.contains("VUID") && !ran.complained.contains("VUID"),
            "{ran:?}"
        );
    }
}
