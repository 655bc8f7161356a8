//! Programs and machines that make it hard.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use towpath_needs::{Need, artifact, can_run};

use crate::common::{player, run, run_player, stderr, towpath};

#[test]
fn a_program_that_closes_its_descriptors_is_still_recorded() {
    let output = run_player(&[], "plays_a_program_that_closes_its_descriptors");
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("clEnqueueReadBuffer"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_cleared_environment_costs_the_record_and_nothing_else() {
    let output = run(&["--", "env", "-i", "/bin/sh", "-c", "exit 6"]);
    assert_eq!(output.status.code(), Some(6));
}

#[test]
fn a_setgid_program_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("true");
    fs::copy("/bin/true", &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o2755)).unwrap();
    let output = run(&["--", file.to_str().unwrap()]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("is setgid: no layer counts in it"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_bad_setting_is_told_and_the_program_runs() {
    let output = towpath()
        .env("TOWPATH_FIX", "readbck")
        .args(["run", "--", "sh", "-c", "echo $TOWPATH_FIX"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"none\n");
    assert!(
        stderr(&output).contains("TOWPATH_FIX=\"readbck\""),
        "{}",
        stderr(&output)
    );
    let output = run(&["--fix", "readbck", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is no fix"), "{}", stderr(&output));
}

/// A shell in mount namespaces of its own, so that tmpfs can be taken away.
fn without_room(mounts: &str, script: &str) -> Output {
    let exe = env!("CARGO_BIN_EXE_towpath");
    // Through a descriptor: the build folder itself may lie below what is mounted over.
    let whole = format!("exec 9<'{exe}'; {mounts} && /proc/self/fd/9 run -- sh -c '{script}'");
    Command::new("unshare")
        .args(["-m", "sh", "-c", &whole])
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_full_or_read_only_tmpfs_costs_the_record_and_nothing_else() {
    if !can_run(&[Need::Root]) {
        return;
    }
    let full = "mount -t tmpfs -o size=64k x /dev/shm && mount -t tmpfs -o size=64k x /tmp";
    let read_only = "mount -t tmpfs -o ro x /dev/shm && mount -t tmpfs -o ro x /tmp";
    for mounts in [full, read_only] {
        let output = without_room(mounts, "echo ran; exit 8");
        assert_eq!(output.status.code(), Some(8), "{}", stderr(&output));
        assert_eq!(output.stdout, b"ran\n");
        let text = stderr(&output);
        assert!(
            text.contains("nothing is recorded: cannot make a folder for ledgers"),
            "{text}"
        );
    }
    // The next place is taken where there is one.
    let one = "mount -t tmpfs -o size=64k x /dev/shm && mount -t tmpfs x /tmp";
    let output = without_room(one, "case $TOWPATH_LEDGER in /tmp/*) exit 0;; esac; exit 1");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_state_folder_that_cannot_be_read_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("towpath");
    fs::write(&state, "a file where a folder should be").unwrap();
    let output = towpath()
        .env("XDG_STATE_HOME", folder.path())
        .args(["run", "--", "sh", "-c", "exit 4"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
}

/// Runs a player of ours with this mode as a user without rights, and the program under `towpath run`.
fn as_nobody(mode: u32) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let place = |from: &Path, name: &str, mode: u32| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).unwrap();
        to
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let towpath = place(Path::new(env!("CARGO_BIN_EXE_towpath")), "towpath", 0o755);
    let library = "libtowpath_opencl_layer.so";
    let _layer = place(&artifact(library), library, 0o755);
    let program = place(&std::env::current_exe().unwrap(), "program", mode);
    let mut words = player("plays_a_program_that_uses_opencl_and_starts_another");
    *words.first_mut().unwrap() = program.display().to_string();
    Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(towpath)
        .args(["run", "--fix", "readback", "--"])
        .args(words)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("TOWPATH_LAYER_DIR")
        .output()
        .unwrap()
}

#[test]
fn a_setuid_program_runs_and_our_layer_records_nothing_in_it() {
    if !can_run(&[Need::Root, Need::Pocl]) {
        return;
    }
    // ocl-icd 2.3.1 loads OPENCL_LAYERS in a setuid program as well: then the layer itself stays out.
    let told = "our layers were loaded; no call of a host path was made";
    let plain = as_nobody(0o755);
    assert!(stderr(&plain).contains(told), "{}", stderr(&plain));
    let setuid = as_nobody(0o4755);
    let text = stderr(&setuid);
    assert!(setuid.status.success(), "{text}");
    assert!(text.contains("is setuid: no layer counts in it"), "{text}");
    assert!(!text.contains(told), "{text}");
}
