//! `towpath bench upload` on textures: each bench runs, compares the bytes itself, and keeps every sample.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use towpath_needs::{Need, artifact, can_run};

fn bench(arguments: &[&str], state: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["bench", "upload"])
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .output()
        .unwrap()
}

/// Runs a bench that must succeed; its output and its file.
fn document(arguments: &[&str], state: &Path) -> (String, Value) {
    let file = state.join("document.json");
    let all = [arguments, &["--json", file.to_str().unwrap()]].concat();
    let output = bench(&all, state);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{errors}");
    let json = std::fs::read_to_string(&file).unwrap();
    (text, serde_json::from_str(&json).unwrap())
}

/// A trace as the layer writes it: two textures, one used often in 4 KiB pieces, one once.
fn trace() -> String {
    let mut text = "towpath-texture-trace 1\n".to_owned();
    let pieces = |first: u64| {
        (0..16_u64)
            .map(|at| format!(" {:x}+4096", first + at * 7 % 16 * 8192))
            .collect::<String>()
    };
    for (id, uses) in [(1, 60), (2, 1)] {
        text += &format!("create {id} 2d 1 1 4 128 128 1 1 1\nattach {id}");
        text += &pieces(0x7f00_0000 * u64::from(id == 1) + 0x1000_0000);
        text += "\n";
        for _use in 0..uses {
            text += &format!("upload {id} 0 0 0 0 128 128 1 0 512 0\n");
        }
        // What the recorded program got wrong is refused here too, not played.
        text += &format!("upload {id} 0 0 0 0 999 999 1 0 512 0\n");
        text += &format!("download {id} 0 0 0 0 128 128 1 0 512 0\ndetach {id}\nunref {id}\n");
    }
    text
}

#[test]
fn a_recorded_stream_is_played_by_every_way_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, trace()).unwrap();
    let arguments = ["--replay", path.to_str().unwrap(), "--rounds", "3"];
    let (text, document) = document(&arguments, folder.path());
    assert!(
        text.contains("2 textures, 65 transfers, at most 62"),
        "{text}"
    );
    assert_eq!(document["schema"], "towpath.bench-textures-replay/1");
    let arms = document["arms"].as_array().unwrap();
    let names: Vec<&str> = arms
        .iter()
        .map(|arm| arm["arm"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["temporary", "gather", "view", "chosen"]);
    for arm in arms {
        assert_eq!(arm["nanos"].as_array().unwrap().len(), 3);
    }
    let views = arms[2]["path"].as_str().unwrap();
    assert!(views.contains("63 viewed, 2 views"), "{views}");
    let verdict = document["verdict"].as_str().unwrap();
    let words = [
        "no effect on this stream",
        "faster than a temporary copy",
        "slower",
    ];
    assert!(
        words.iter().any(|words| verdict.contains(words)),
        "{verdict}"
    );
    assert!(text.contains(verdict));
}

#[test]
fn a_damaged_trace_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, trace() + "upload 1 nonsense\n").unwrap();
    let output = bench(&["--replay", path.to_str().unwrap()], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("line 75 is no event"), "{errors}");
}

/// What is measured is stored where the library and the layer look for it, and used by the next bench.
#[test]
fn a_calibration_is_stored_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(&["--calibrate"], folder.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let json = text.split("\nstored in ").next().unwrap();
    let model: Value = serde_json::from_str(json).unwrap();
    let stored = folder.path().join("towpath/calibration");
    assert_eq!(std::fs::read_dir(&stored).unwrap().count(), 1, "{text}");
    let arguments = [
        "--memory",
        "--quick",
        "--pieces",
        "2M",
        "--rounds",
        "2",
        "--sample-ms",
        "1",
    ];
    let (_, document) = document(&arguments, folder.path());
    assert_eq!(document["model"], model);
}

#[test]
fn ways_in_memory_are_compared_and_the_goals_judged() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--memory",
        "--quick",
        "--pieces",
        "4K",
        "--rounds",
        "2",
        "--sample-ms",
        "1",
    ];
    let (text, document) = document(&arguments, folder.path());
    assert_eq!(document["schema"], "towpath.bench-textures-memory/1");
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    for cell in cells {
        let arms = cell["arms"].as_array().unwrap();
        assert_eq!(arms.len(), 5);
        assert_eq!(arms[4]["arm"], "streaming");
    }
    // 1 MiB: 1.2 and 1.9; 4 MiB: 1.2, 1.9 and 0.8; a total; no row slower.
    assert_eq!(document["goals"].as_array().unwrap().len(), 7, "{text}");
    let lines = text
        .lines()
        .filter(|line| line.starts_with("met") || line.starts_with("NOT met"));
    assert_eq!(lines.count(), 7, "{text}");
}

#[test]
fn the_real_library_is_compared_with_and_without_the_layer() {
    if !can_run(&[Need::Virglrenderer]) {
        return;
    }
    let _built = artifact("libtowpath_virgl_layer.so");
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--glbench",
        "--quick",
        "--row",
        "texture_reuse_rgba_texsubimage2d_128",
        "--pieces",
        "4K,2M",
        "--rounds",
        "4",
        "--sample-ms",
        "1",
    ];
    let (text, document) = document(&arguments, folder.path());
    assert_eq!(document["schema"], "towpath.bench-textures-virgl/1");
    assert!(
        text.contains("@RESULT: texture_reuse_rgba_texsubimage2d_128"),
        "{text}"
    );
    let cells = document["cells"].as_array().unwrap();
    // In pieces of both sizes: one piece holds such a texture whole.
    assert_eq!(cells.len(), 2);
    for cell in cells {
        for arm in cell["arms"].as_array().unwrap() {
            assert_eq!(arm["nanos"].as_array().unwrap().len(), 4);
        }
    }
    let own = document["own_cost"].as_array().unwrap();
    assert_eq!(own.len(), 2);
    assert!(text.contains("of the layer's own"), "{text}");
    // Two sizes, their first uploads and their lives.
    assert_eq!(document["first_use"].as_array().unwrap().len(), 4);
    assert!(text.contains("no row proven slower"), "{text}");
}
