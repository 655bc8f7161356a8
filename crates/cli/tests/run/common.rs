//! Starting towpath, and programs that this test program plays.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn towpath() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.stdin(Stdio::null());
    command
}

pub(crate) fn run(words: &[&str]) -> Output {
    towpath().arg("run").args(words).output().unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The command line that plays the program `name` of `players`.
pub(crate) fn player(name: &str) -> Vec<String> {
    let me = std::env::current_exe().unwrap().display().to_string();
    let name = format!("players::{name}");
    [me.as_str(), "--exact", &name, "--ignored", "--nocapture"]
        .map(str::to_owned)
        .to_vec()
}

pub(crate) fn run_player(options: &[&str], name: &str) -> Output {
    let player = player(name);
    towpath()
        .arg("run")
        .args(options)
        .arg("--")
        .args(player)
        .output()
        .unwrap()
}

/// Folders that runs of the process `pid` have left.
pub(crate) fn left_by(pid: u32) -> Vec<PathBuf> {
    let places = ["/dev/shm", "/tmp"].map(Path::new);
    let entries = places
        .iter()
        .flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let mark = format!("-{pid}-");
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.starts_with("towpath-") && name.contains(&mark)
        })
        .collect()
}

/// Waits until `condition` holds; a bound against hanging, not a measurement.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn spawn(words: &[&str]) -> Child {
    // A signal that whoever runs the tests ignores would be ignored by the program as well, as it must.
    Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_towpath")])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, as a shell would give it.
        .process_group(0)
        .spawn()
        .unwrap()
}

/// Reads one line of the program's output.
pub(crate) fn line(child: &mut Child) -> String {
    use std::io::Read as _;
    let mut text = Vec::new();
    let output = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    while output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

/// By the shell's own word: a bare machine has no program of that name.
pub(crate) fn kill(signal: &str, pid: &str) {
    let word = format!("kill -{signal} {pid}");
    let done = Command::new("sh").args(["-c", &word]).status();
    assert!(done.unwrap().success());
}
