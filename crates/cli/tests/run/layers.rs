//! Layers reach programs, and are installed on request.

use std::fs;
use std::path::Path;
use std::process::Output;

use towpath_needs::{Need, artifact, can_run};

use crate::common::{player, stderr, towpath};

#[test]
fn layers_of_the_user_and_ours_reach_the_program_and_its_children() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let user = artifact("libtowpath_penalty_layer.so");
    let output = towpath()
        .env("OPENCL_LAYERS", &user)
        .args(["run", "--"])
        .args(player(
            "plays_a_program_that_uses_opencl_and_starts_another",
        ))
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = stdout.lines().find_map(|line| line.strip_prefix("layers="));
    let names: Vec<&str> = line
        .unwrap()
        .split(':')
        .filter_map(|path| path.rsplit('/').next())
        .collect();
    let both = ["libtowpath_penalty_layer.so", "libtowpath_opencl_layer.so"];
    assert_eq!(names, both, "ocl-icd cuts the list, our layer mends it");
    assert!(
        text.contains("our layers were loaded; no call of a host path was made"),
        "{text}"
    );
}

#[test]
fn a_loader_that_loads_no_layers_is_told() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    // An old loader: one that knows the variable by no name.
    let folder = tempfile::tempdir().unwrap();
    let loader = "/usr/lib/x86_64-linux-gnu/libOpenCL.so.1";
    let mut bytes = fs::read(loader).unwrap();
    let name = b"OPENCL_LAYERS";
    let places: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(name))
        .collect();
    for at in places {
        bytes[at] = b'X';
    }
    let old = folder.path().join("libOpenCL.so.1");
    fs::write(&old, bytes).unwrap();
    let output = towpath()
        .env("LD_LIBRARY_PATH", folder.path())
        .args(["run", "--"])
        .args(player(
            "plays_a_program_that_uses_opencl_and_starts_another",
        ))
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    let expected = format!(
        "the program uses {}, a libOpenCL that loads no layers",
        old.display()
    );
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn a_program_that_lost_its_environment_is_told() {
    if !can_run(&[Need::Pocl]) {
        return;
    }
    let player = player("plays_a_program_that_uses_opencl_and_starts_another");
    let output = towpath()
        .args(["run", "--", "env", "-i"])
        .args(player)
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("cleared the environment"), "{text}");
}

fn layers(home: &Path, words: &[&str]) -> Output {
    let lay = home.join("lay");
    towpath()
        .args(["layers"])
        .args(words)
        .args(["--opencl-folder", lay.to_str().unwrap()])
        .env("XDG_DATA_HOME", home.join("data"))
        .env("TOWPATH_LAYER_DIR", home.join("built"))
        .output()
        .unwrap()
}

#[test]
fn layers_are_installed_on_request_only_and_removed_without_a_trace() {
    let home = tempfile::tempdir().unwrap();
    let built = home.path().join("built");
    fs::create_dir(&built).unwrap();
    for library in ["libtowpath_opencl_layer.so", "libtowpath_vulkan_layer.so"] {
        fs::write(built.join(library), "").unwrap();
    }
    let exists = |path: &str| home.path().join(path).exists();
    let explicit = "data/vulkan/explicit_layer.d/towpath_vulkan_layer.json";
    let implicit = "data/vulkan/implicit_layer.d/towpath_vulkan_layer.json";

    let output = layers(home.path(), &["install"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(exists(explicit) && !exists(implicit) && !exists("lay/towpath.lay"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("OPENCL_LAYERS=/") && !text.contains("warning"),
        "{text}"
    );

    let output = layers(home.path(), &["install", "--implicit"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        exists(implicit) && exists("lay/towpath.lay") && text.contains("EVERY program"),
        "{text}"
    );
    let manifest = fs::read(home.path().join(implicit)).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(
        manifest["layer"]["disable_environment"]["DISABLE_TOWPATH_LAYER"],
        "1"
    );
    let lay = fs::read_to_string(home.path().join("lay/towpath.lay")).unwrap();
    assert!(lay.trim_end().ends_with("built/libtowpath_opencl_layer.so"));

    let output = layers(home.path(), &["status"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches(": installed").count(), 3, "{text}");
    assert!(layers(home.path(), &["remove"]).status.success());
    assert!(!exists(explicit) && !exists(implicit) && !exists("lay/towpath.lay"));
    let again = layers(home.path(), &["remove"]);
    assert!(
        String::from_utf8(again.stdout)
            .unwrap()
            .contains("nothing was installed")
    );
}
