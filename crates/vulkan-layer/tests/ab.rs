//! `towpath ab` on a real program on lavapipe, as a user would run it.

use std::process::Command;

use towpath_mock_game::screen::Screen;
use towpath_needs::{Need, artifact, can_run};

#[test]
fn vkcube_runs_in_pairs_with_and_without_the_layers_fixes() {
    if !can_run(&[Need::Lavapipe, Need::Vkcube, Need::Xvfb]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("result.json");
    let screen = Screen::open();
    let mut command = Command::new(artifact("towpath"));
    command.args([
        "ab",
        "--pairs",
        "6",
        "--seed",
        "1",
        "--warm-host",
        "1",
        "--margin",
        "50",
    ]);
    command
        .args(["--b-fix", "cache,waits", "--fail-on", "never", "--json"])
        .arg(&result);
    command.args(["--", "vkcube", "--c", "60", "--suppress_popups"]);
    command
        .env("DISPLAY", &screen.display)
        .env("LP_NUM_THREADS", "1");
    command.env(
        "VK_ICD_FILENAMES",
        "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
    );
    command
        .env("XDG_RUNTIME_DIR", folder.path())
        .env("XDG_CACHE_HOME", folder.path());
    command.env("XDG_STATE_HOME", folder.path());
    for name in [
        "VK_ADD_LAYER_PATH",
        "VK_INSTANCE_LAYERS",
        "TOWPATH_FIX",
        "TOWPATH_LEDGER",
    ] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    // What six short runs on a busy machine say of time is not looked at.
    assert_eq!(output.status.code(), Some(0), "{said}{complained}");
    let text = std::fs::read_to_string(&result).unwrap();
    assert!(text.contains("towpath.ab/1"), "{text}");
    let waits = text.matches("\"waits-time\"").count();
    assert!(
        waits >= 12,
        "each of twelve runs was recorded: {waits} in {text}"
    );
}
