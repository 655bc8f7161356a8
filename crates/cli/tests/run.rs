//! `towpath run` and `towpath fix`, end to end, with programs that behave and programs that do not.
//!
//! The programs under test are shells and this test program itself: an ignored test is started by name
//! and plays a program whose layer writes a ledger.

#![expect(
    unsafe_code,
    clippy::unwrap_used,
    clippy::exit,
    reason = "tests; helpers stand outside of test functions, and some play programs"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use towpath_ledger::{Call, HostPath, Outcome, SiteKey, Stack, Writer};
use towpath_measure::Nanos;
use towpath_needs::{Need, artifact, can_run};
use towpath_settings::{Fix, Settings};

fn towpath() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> Output {
    towpath().arg("run").args(words).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The command line that plays the program `name` below.
fn player(name: &str) -> Vec<String> {
    let me = std::env::current_exe().unwrap().display().to_string();
    [me.as_str(), "--exact", name, "--ignored", "--nocapture"]
        .map(str::to_owned)
        .to_vec()
}

fn run_player(options: &[&str], name: &str) -> Output {
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
fn left_by(pid: u32) -> Vec<PathBuf> {
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
fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

// Programs that this file plays.

fn writer() -> Writer {
    let (settings, _) = Settings::from_environment();
    Writer::create(&settings.ledger.unwrap(), "opencl-layer", settings.fix).unwrap()
}

fn record(writer: &Writer) {
    let key = SiteKey {
        path: HostPath::Readback,
        call: "clEnqueueReadBuffer",
        device: "a device",
        stack: Stack::capture(0),
    };
    let call = Call {
        bytes: 8 << 20,
        wall: Nanos::from_millis(50),
        faults: 2048,
        cold_bytes: 8 << 20,
        outcome: Outcome::Off,
        ..Call::default()
    };
    writer.record(writer.site(&key), &call);
}

#[test]
#[ignore = "a program for other tests"]
fn plays_one_read() {
    record(&writer());
}

#[test]
#[ignore = "a program for other tests"]
fn plays_one_read_and_is_killed() {
    record(&writer());
    let me = std::process::id().to_string();
    Command::new("kill").args(["-KILL", &me]).status().unwrap();
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_closes_its_descriptors() {
    let writer = writer();
    Command::new("true").status().unwrap();
    for fd in 0..256 {
        // Whatever is open goes, as daemons do it.
        let path = format!("/proc/self/fd/{fd}");
        if Path::new(&path).exists() {
            close(fd);
        }
    }
    record(&writer);
    std::process::exit(9);
}

fn close(fd: i32) {
    // SAFETY: the process ends right after; nobody uses a descriptor again.
    drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) });
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_leaves_a_damaged_ledger() {
    record(&writer());
    let (settings, _) = Settings::from_environment();
    let folder = settings.ledger.unwrap();
    fs::write(folder.join("1-cut.ledger"), "TOWPLEDG").unwrap();
    let mut other = b"TOWPLEDG".to_vec();
    other.extend_from_slice(&77_u32.to_le_bytes());
    fs::write(folder.join("2-later.ledger"), other).unwrap();
    let whole = fs::read_dir(&folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .max_by_key(|p| fs::metadata(p).unwrap().len());
    let bytes = fs::read(whole.unwrap()).unwrap();
    fs::write(folder.join("3-short.ledger"), &bytes[..9000]).unwrap();
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_waits_for_a_fix() {
    let writer = writer();
    println!("ready {}", std::process::id());
    let start = Instant::now();
    while !writer.fixes().mode(Fix::Upload).is_on() {
        if start.elapsed() > Duration::from_secs(30) {
            std::process::exit(3);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::process::exit(if writer.fixes().mode(Fix::Waits).is_on() {
        4
    } else {
        42
    });
}

/// Uses OpenCL as far as loading its layers.
fn ask_for_platforms() -> u32 {
    type GetPlatforms = unsafe extern "C" fn(u32, *mut *mut std::ffi::c_void, *mut u32) -> i32;
    // SAFETY: the loader's constructors do nothing that this program could break.
    let library = unsafe { libloading::Library::new("libOpenCL.so.1") }.unwrap();
    // SAFETY: the type is that of OpenCL's header.
    let get = unsafe { library.get::<GetPlatforms>(b"clGetPlatformIDs") }.unwrap();
    let mut count = 0;
    // SAFETY: no platforms are asked for, only their number, which goes to a local.
    let answer = unsafe { get(0, std::ptr::null_mut(), &raw mut count) };
    assert_eq!(answer, 0);
    // Drivers have threads that outlive a library that is closed.
    let _kept = std::mem::ManuallyDrop::new(library);
    count
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_uses_opencl_and_starts_another() {
    assert!(ask_for_platforms() > 0);
    Command::new("sh")
        .args(["-c", "echo layers=$OPENCL_LAYERS"])
        .status()
        .unwrap();
    // Long enough to be looked at from outside.
    std::thread::sleep(Duration::from_millis(300));
}

// Tests.

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

#[test]
fn the_exit_code_is_the_programs_own() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
    ] {
        let output = run(&["--", "sh", "-c", script]);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{script}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn the_programs_output_stays_its_own() {
    let output = run(&["--", "sh", "-c", "printf out; printf err >&2"]);
    assert_eq!(output.stdout, b"out");
    assert!(stderr(&output).starts_with("err") || stderr(&output).contains("\nerr"));
    assert!(
        stderr(&output).contains("towpath: sh ended with code 0"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("neither OpenCL nor Vulkan"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_is_no_program_126() {
    let missing = run(&["--", "no-such-program-of-ours"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("program not found: \"no-such-program-of-ours\""));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, "text").unwrap();
    let output = run(&["--", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(126));
    assert!(
        stderr(&output).contains("cannot execute"),
        "{}",
        stderr(&output)
    );
    let nothing = towpath().arg("run").output().unwrap();
    assert_eq!(
        nothing.status.code(),
        Some(2),
        "a command line without a program is an error of use"
    );
}

#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("parent");
    let script = format!(
        "cat /proc/$PPID/status | grep PPid > {0}; echo $TOWPATH_LEDGER >> {0}",
        marks.display()
    );
    let output = run(&["--", "sh", "-c", &script]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(&marks).unwrap();
    let pid: u32 = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let ledgers = text.lines().nth(1).unwrap();
    assert!(ledgers.contains(&format!("-{pid}-")), "{text}");
    assert!(!Path::new(ledgers).exists());
    assert!(left_by(pid).is_empty());
}

#[test]
fn sites_are_reported_as_text_json_html_and_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, html, bundle) = (path("r.json"), path("r.html"), path("r.tar"));
    let options = ["--json", &json, "--html", &html, "--bundle", &bundle];
    let output = run_player(&options, "plays_one_read");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stderr(&output);
    for part in [
        "readback",
        "clEnqueueReadBuffer",
        "8.000 MiB",
        "50.00 ms",
        "2,048",
        "100 %",
        "fix is off",
        "fix would save about",
        "on a device",
        "from run-",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["schema"], "towpath.run/1");
    assert_eq!(report["end"]["code"], 0);
    assert_eq!(report["ledger"]["sites"][0]["cold_bytes"], 8 << 20);
    assert!(
        report["ledger"]["sites"][0]["prediction"]["saved_ns"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(
        fs::read_to_string(&html)
            .unwrap()
            .contains("clEnqueueReadBuffer")
    );
    let listed = Command::new("tar").args(["-tf", &bundle]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("towpath/report.json") && listed.contains("opencl_layer-"),
        "{listed}"
    );
}

#[test]
fn a_program_that_dies_by_a_signal_is_still_reported() {
    let output = run_player(&[], "plays_one_read_and_is_killed");
    assert_eq!(output.status.code(), Some(137));
    let text = stderr(&output);
    assert!(
        text.contains("was ended by signal 9") && text.contains("clEnqueueReadBuffer"),
        "{text}"
    );
}

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
fn damaged_ledgers_are_told_and_the_others_read() {
    let output = run_player(&[], "plays_a_program_that_leaves_a_damaged_ledger");
    assert!(output.status.success());
    let text = stderr(&output);
    for part in [
        "1-cut.ledger is not a ledger",
        "2-later.ledger is of version 77",
        "3-short.ledger is cut off",
        "clEnqueueReadBuffer",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn what_a_program_leaves_running_is_told_and_lives() {
    let output = run(&["--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]);
    let pid = String::from_utf8(output.stdout.clone()).unwrap();
    let is_there = Path::new(&format!("/proc/{}", pid.trim())).exists();
    kill("-KILL", pid.trim());
    assert!(is_there);
    assert!(
        stderr(&output).contains("processes that it started and that run on: 1"),
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
fn a_setuid_program_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("true");
    fs::copy("/bin/true", &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o2755)).unwrap();
    let output = run(&["--", file.to_str().unwrap()]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("is setgid: the system ignores layers"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_report_that_cannot_be_written_does_not_change_the_exit_code() {
    let output = run(&[
        "--json",
        "/no/such/folder/r.json",
        "--",
        "sh",
        "-c",
        "exit 5",
    ]);
    assert_eq!(output.status.code(), Some(5));
    assert!(
        stderr(&output).contains("cannot write /no/such/folder/r.json"),
        "{}",
        stderr(&output)
    );
    let output = towpath()
        .args(["run", "--", "true"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(output.success());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = towpath()
        .args(["run", "--", "sh", "-c", "exit 5"])
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(output.code(), Some(5), "nobody reads the report");
}

#[test]
fn writes_and_the_disk_are_watched_and_what_cannot_be_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json").display().to_string();
    let watched = folder.path().join("watched");
    fs::create_dir(&watched).unwrap();
    let watched = watched.display().to_string();
    let script = format!("echo 123456789 > {watched}/a");
    let words = [
        "--watch", &watched, "--json", &json, "--", "sh", "-c", &script,
    ];
    let output = run(&words);
    let text = stderr(&output);
    assert!(text.contains("files written: 1, 10.00 bytes"), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["beside"]["writes"]["writes"][0]["bytes"], 10);
    assert!(report["beside"]["disk_probe"].is_null());

    let output = run(&[
        "--watch",
        "/no/such",
        "--watch-disk",
        "/no/such",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text.contains("files written: unavailable (/no/such: "),
        "{text}"
    );
    assert!(
        text.contains("disk probe: unavailable (/no/such: "),
        "{text}"
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
    assert_eq!(output.status.code(), Some(2));
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

fn spawn(words: &[&str]) -> Child {
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
fn line(child: &mut Child) -> String {
    use std::io::Read as _;
    let mut text = Vec::new();
    let output = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    while output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

fn kill(signal: &str, pid: &str) {
    assert!(
        Command::new("kill")
            .args([signal, pid])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_signal_to_us_reaches_the_program_and_its_answer_comes_back() {
    for signal in ["TERM", "INT", "HUP", "USR1"] {
        let script = format!(
            "trap 'echo caught; exit 33' {signal}; echo ready; while :; do sleep 0.05; done"
        );
        let mut child = spawn(&["run", "--", "sh", "-c", &script]);
        assert_eq!(line(&mut child), "ready");
        kill(&format!("-{signal}"), &child.id().to_string());
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"caught\n", "{signal}");
        assert_eq!(output.status.code(), Some(33), "{signal}");
        assert!(left_by(pid).is_empty());
    }
}

#[test]
fn a_program_that_a_signal_ends_gives_128_and_the_signal() {
    let mut child = spawn(&["run", "--", "sh", "-c", "echo ready; exec sleep 600"]);
    assert_eq!(line(&mut child), "ready");
    kill("-TERM", &child.id().to_string());
    assert_eq!(
        child.wait_with_output().unwrap().status.code(),
        Some(128 + 15)
    );
}

#[test]
fn what_a_killed_run_left_goes_with_the_next() {
    let mut child = spawn(&["run", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    let program = line(&mut child);
    let pid = child.id();
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert_eq!(left_by(pid).len(), 1, "nothing could be removed");
    kill("-KILL", &program);
    assert!(run(&["--", "true"]).status.success());
    assert!(left_by(pid).is_empty());
}

#[test]
fn fixes_are_switched_in_a_running_program() {
    let player = player("plays_a_program_that_waits_for_a_fix");
    let words: Vec<&str> = ["run", "--"]
        .into_iter()
        .chain(player.iter().map(String::as_str))
        .collect();
    let mut child = spawn(&words);
    let mut text = line(&mut child);
    // The test harness prints its own lines first.
    while !text.contains("ready ") {
        text = line(&mut child);
    }
    let pid = text.rsplit(' ').next().unwrap().to_owned();
    let other = towpath()
        .args(["fix", "on", "--pid", "1"])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(1));
    assert!(
        stderr(&other).contains(&pid),
        "the processes that could be meant: {}",
        stderr(&other)
    );
    let switched = towpath()
        .args(["fix", "on", "upload", "--pid", &pid])
        .output()
        .unwrap();
    assert!(switched.status.success(), "{}", stderr(&switched));
    assert!(String::from_utf8_lossy(&switched.stdout).contains(": upload"));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(42));
}

#[test]
fn a_key_on_the_terminal_reaches_the_program_once() {
    let exe = env!("CARGO_BIN_EXE_towpath");
    let program =
        "trap \"printf cau%s ght; exit 21\" INT; printf \"rea%s\" dy; while :; do sleep 0.05; done";
    let whole = format!("{exe} run -- sh -c '{program}'; echo code $?");
    let folder = tempfile::tempdir().unwrap();
    let typescript = folder.path().join("typescript");
    let mut script = Command::new("env")
        .args([
            "--default-signal",
            "script",
            "-qfc",
            &whole,
            typescript.to_str().unwrap(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let text = || String::from_utf8_lossy(&fs::read(&typescript).unwrap_or_default()).into_owned();
    until("ready", || text().contains("ready"));
    script.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    until("the end", || text().contains("code "));
    drop(script.stdin.take());
    script.wait().unwrap();
    assert_eq!(text().matches("caught").count(), 1, "{}", text());
    assert!(text().contains("code 21"), "{}", text());
}
