//! Seed 000's scene, small: what the game writes with and without the layer.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use towpath_mock_game::scene::Scene;
use towpath_needs::{Need, artifact, can_run};

const ROUTE: &[&str] = &[
    "pipelines=300",
    "frames=400",
    "from=100",
    "fps=2000",
    "reads=1",
];

fn play(scene: &Scene, extra: &[&str]) -> (u64, u64, usize) {
    let mut game = Command::new(artifact("towpath-mock-game"));
    game.arg(scene.path("game")).args(ROUTE).args(extra);
    let ran = scene.run(game);
    assert_eq!(
        (ran.code, ran.complained.as_str()),
        (Some(0), ""),
        "{ran:?}"
    );
    assert_eq!(ran.journal.count("fault"), 0);
    let value = |name: &str| -> u64 {
        let line = ran.said.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    };
    (
        value("cache writes:"),
        value("cache bytes written:"),
        ran.journal.count("compile"),
    )
}

fn store_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata().unwrap() {
            meta if meta.is_dir() => store_bytes(&entry.path()),
            meta => meta.len(),
        })
        .sum()
}

#[test]
fn the_seeds_game_writes_its_cache_at_every_start_and_under_takeover_never() {
    let folder = tempfile::tempdir().unwrap();
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let store = folder.path().join("store");
    fs::create_dir(&store).unwrap();
    let bare = Scene::new(folder.path()).script("entry_bytes=20000");
    let takeover = bare
        .clone()
        .layer("VK_LAYER_TOWPATH_host")
        .var("TOWPATH_FIX", "cache")
        .var("TOWPATH_CACHE_MODE", "takeover")
        .var("TOWPATH_CACHE_DIR", &store)
        .var("XDG_RUNTIME_DIR", folder.path());
    let (_, whole, compiles) = play(&bare, &[]);
    assert_eq!(compiles, 300);

    // The cost, and the seed's own fix in the program.
    assert_eq!(play(&bare, &["saves=before"]), (1, whole, 0));
    assert_eq!(play(&bare, &["saves=size-first"]), (0, 0, 0));

    // The first start under takeover keeps the blob; the program writes a header once.
    let (writes, bytes, compiles) = play(&takeover, &["saves=size-first"]);
    assert_eq!((writes, bytes, compiles), (1, 32, 0));
    let kept = store_bytes(&store);
    assert!(kept >= whole && kept < whole + 4096, "{kept} for {whole}");

    // From then on nothing is written, neither by the unchanged program nor by us.
    let (_, bytes, compiles) = play(&takeover, &["saves=before"]);
    assert_eq!((bytes, compiles), (32, 0));
    assert_eq!(play(&takeover, &["saves=size-first"]), (0, 0, 0));
    assert_eq!(store_bytes(&store), kept);

    // New pipelines in play: what they take, and no more than a twentieth on top.
    let seed = "new-seed=500000";
    let (_, _, compiles) = play(&takeover, &["saves=before", "new=64", seed]);
    assert_eq!(compiles, 64);
    let written = store_bytes(&store) - kept;
    let new = 64 * (48 + 16) + code_bytes(&bare, 64, seed);
    assert!(written * 100 <= new * 105, "{written} for {new}");
    let (_, bytes, compiles) = play(&takeover, &["saves=before", "new=64", seed]);
    // A header at the check in play, and one at the end.
    assert_eq!((bytes, compiles), (64, 0));
}

/// Compiled code of the new pipelines alone, as the driver gives it.
fn code_bytes(bare: &Scene, count: u64, seed: &str) -> u64 {
    let seed = seed.trim_start_matches("new-seed=");
    let ran = bare.steps(&["cache=none", &format!("compute={count}@{seed}"), "size"]);
    let line = ran.said.lines().last().unwrap().to_owned();
    line.rsplit('=').next().unwrap().parse().unwrap()
}
