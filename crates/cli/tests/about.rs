//! What `towpath about` writes for packages: man pages and completions.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a broken harness must fail"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn towpath(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    let output = command.args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The commands that `--help` of `words` lists.
fn listed(words: &[&str]) -> BTreeSet<String> {
    let help = towpath(&[words, &["--help"]].concat());
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap_or_default();
    commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn there_is_a_man_page_for_each_command_and_each_command_below() {
    let folder = tempfile::tempdir().unwrap();
    // A folder that has to be made, as the packager's does.
    let man = folder.path().join("share/man1");
    let output = towpath(&["about", "--write-man", man.to_str().unwrap()]);
    assert!(output.stdout.is_empty());
    let top = read(&man.join("towpath.1"));
    let commands = listed(&[]);
    assert!(
        commands.contains("run") && commands.len() > 8,
        "{commands:?}"
    );
    let mut below = 0;
    for command in &commands {
        assert!(top.contains(&format!("towpath\\-{command}")), "{command}");
        let page = read(&man.join(format!("towpath-{command}.1")));
        assert!(page.contains(".SH OPTIONS"), "{command}");
        assert!(page.contains("Example"), "{command}");
        for inner in listed(&[command]) {
            below += 1;
            let page = read(&man.join(format!("towpath-{command}-{inner}.1")));
            assert!(page.contains(".TH"), "{command} {inner}");
        }
    }
    assert!(below > 5, "{below} commands below others");
}

#[test]
fn completions_for_three_shells_name_each_command() {
    let folder = tempfile::tempdir().unwrap();
    towpath(&[
        "about",
        "--write-completions",
        folder.path().to_str().unwrap(),
    ]);
    for name in ["towpath.bash", "_towpath", "towpath.fish"] {
        let text = read(&folder.path().join(name));
        for command in listed(&[]) {
            assert!(text.contains(&command), "{name}: {command}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_name() {
    let output = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["about", "--write-man", "/proc/nowhere"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/proc/nowhere"));
}

/// `towpath doctor | head`: whoever reads may stop, which is no error and above all no panic.
#[test]
fn a_reader_that_has_gone_is_no_error() {
    for arguments in [
        &["about"][..],
        &["about", "--settings"],
        &["doctor", "--help"],
    ] {
        for is_error in [false, true] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
            let output = if is_error {
                command
                    .args(["run", "--fix", "x", "--", "true"])
                    .stderr(writer)
            } else {
                command.args(arguments).stdout(writer)
            };
            let output = output.output().unwrap();
            let expected = i32::from(is_error);
            assert_eq!(
                output.status.code(),
                Some(expected),
                "{arguments:?}: {output:?}"
            );
            assert!(output.stderr.is_empty(), "{output:?}");
        }
    }
    // `run` reports on standard error, and ends as its program did whether it is read or not.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    let status = command
        .args(["run", "--", "sh", "-c", "exit 7"])
        .stderr(writer)
        .status();
    assert_eq!(status.unwrap().code(), Some(7));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    // No file may have a byte: as on a full disk, every write fails.
    let script = "trap '' XFSZ; ulimit -f 0; \"$0\" about --settings > full";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_towpath")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot write to standard output"), "{told}");
}
