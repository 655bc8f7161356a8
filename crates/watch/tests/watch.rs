//! Programs started and watched, well-behaved and not.

#![expect(
    clippy::unwrap_used,
    reason = "tests; helpers stand outside of test functions"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use towpath_watch::{Command, End, Error, Exit, Input, Output, Supervisor};

fn command(program: &str) -> Command {
    let supervisor = Supervisor::program(env!("CARGO_BIN_EXE_towpath-supervise"));
    Command::new(supervisor, program).stdin(Input::Null)
}

fn shell(script: &str) -> Command {
    command("/bin/sh").args(["-c", script])
}

fn captured(command: Command) -> (Exit, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let to = Output::File(path.clone());
    let exit = command.stdout(to.clone()).stderr(to).run().unwrap();
    (exit, fs::read_to_string(path).unwrap())
}

#[test]
fn codes_and_signals_are_the_programs_own() {
    assert_eq!(shell("exit 0").run().unwrap().code(), 0);
    assert_eq!(shell("exit 77").run().unwrap().end, End::Code(77));
    let killed = shell("kill -KILL $$").run().unwrap();
    assert_eq!((killed.end, killed.code()), (End::Signal(9), 137));
    let segv = shell("kill -SEGV $$").run().unwrap();
    assert_eq!((segv.end, segv.code()), (End::Signal(11), 139));
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_cannot_run_126() {
    let missing = command("no-such-program-of-ours").run().unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    assert_eq!(missing.exit_code(), 127);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, "not a program").unwrap();
    for path in [file.as_path(), folder.path(), Path::new("/etc/passwd")] {
        let error = command(path.to_str().unwrap()).run().unwrap_err();
        assert!(matches!(error, Error::NotExecutable { .. }), "{error}");
        assert_eq!(error.exit_code(), 126);
        assert!(error.to_string().contains(path.to_str().unwrap()));
    }
    // An interpreter that is missing is not found either, says the kernel.
    fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        command(file.to_str().unwrap())
            .run()
            .unwrap_err()
            .exit_code(),
        127
    );
}

#[test]
fn environment_arguments_and_folder_reach_the_program() {
    let run = shell("printf '%s|%s|%s|%s' \"$A\" \"${HOME-none}\" \"$PWD\" \"$0\"")
        .args(["zero arg"])
        .set("A", "x y=z")
        .set("HOME", "/nowhere")
        .unset("HOME")
        .folder("/tmp");
    let (exit, text) = captured(run);
    assert!(exit.is_success());
    assert_eq!(text, "x y=z|none|/tmp|zero arg");
}

#[test]
fn both_streams_of_one_file_lose_nothing() {
    let (_, text) = captured(shell(
        "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done",
    ));
    assert_eq!(text.lines().count(), 10, "{text}");
}

#[test]
fn the_peak_memory_of_the_launcher_is_not_the_programs() {
    // What this process touches here would be the program's peak if it started the program itself.
    let ballast = vec![1_u8; 64 << 20];
    let exit = command("/bin/true").run().unwrap();
    assert_eq!(
        ballast.iter().map(|b| usize::from(*b)).sum::<usize>(),
        64 << 20
    );
    assert!(exit.max_rss_bytes < 4 << 20, "{} bytes", exit.max_rss_bytes);
    assert!(exit.minor_faults > 0 && exit.wall.0 > 0);
}

#[test]
fn memory_and_faults_of_grandchildren_are_counted() {
    // 32 MiB held by a grandchild whose parent is gone before it.
    let script = "(head -c 33554432 /dev/zero | tail -c 33554432 >/dev/null; :) & wait";
    let exit = shell(script).run().unwrap();
    assert!(
        exit.max_rss_bytes > 32 << 20,
        "{} bytes",
        exit.max_rss_bytes
    );
    assert!(exit.minor_faults > 8_000, "{}", exit.minor_faults);
}

#[test]
fn a_program_whose_time_is_up_is_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!(
        "trap '' TERM; (trap '' TERM; sleep 600) & echo $! >{}; wait; sleep 600",
        pid_file.display()
    );
    let exit = shell(&script)
        .timeout(Duration::from_millis(300))
        .run()
        .unwrap();
    assert!(exit.timed_out && !exit.is_success());
    assert_eq!(exit.end, End::Signal(9), "it ignores SIGTERM");
    let left = fs::read_to_string(pid_file).unwrap();
    assert!(
        !Path::new(&format!("/proc/{}", left.trim())).exists(),
        "{left}"
    );
}

#[test]
fn what_runs_on_is_told_and_left_alone_unless_asked() {
    let script = "sleep 600 >/dev/null 2>&1 & echo $!";
    let (exit, text) = captured(shell(script));
    assert_eq!(exit.left_running, 1);
    let pid = text.trim().to_owned();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    assert!(shell(&format!("kill {pid}")).run().unwrap().is_success());

    let (exit, text) = captured(shell(script).end_leftovers());
    assert_eq!(exit.left_running, 1);
    assert!(!Path::new(&format!("/proc/{}", text.trim())).exists());
}

#[test]
fn a_supervisor_that_is_killed_is_an_error_not_a_hang() {
    let error = shell("kill -KILL $PPID; exit 3").run().unwrap_err();
    assert!(matches!(error, Error::SupervisorLost { .. }), "{error}");
    let nothing = Command::new(Supervisor::program("/no/such/supervisor"), "true").run();
    assert!(matches!(nothing, Err(Error::Supervisor { .. })));
    let no_supervisor = Command::new(Supervisor::program("/bin/true"), "true").run();
    assert!(matches!(no_supervisor, Err(Error::SupervisorLost { .. })));
}

#[test]
fn a_program_inherits_no_descriptor_of_ours_and_no_ignored_signal() {
    // What this test itself inherited is the program's too: compare with a start without us.
    let script = "ls /proc/self/fd | wc -l; grep -E 'SigIgn|SigBlk' /proc/self/status";
    // Signals from 32 on belong to the C library.
    let standard = |text: &str| -> Vec<u64> {
        let words = text.split_whitespace();
        let numbers = words.filter_map(|word| u64::from_str_radix(word, 16).ok());
        numbers.map(|number| number & 0x7fff_ffff).collect()
    };
    let (_, text) = captured(shell(script));
    let direct = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .output()
        .unwrap();
    let direct = String::from_utf8(direct.stdout).unwrap();
    assert_eq!(standard(&text).len(), 3, "{text}");
    assert_eq!(standard(&text), standard(&direct));
}

#[test]
fn a_program_that_closes_its_descriptors_still_ends_with_its_code() {
    let exit = shell("exec 0<&- 1>&- 2>&- 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exit 5").run();
    assert_eq!(exit.unwrap().end, End::Code(5));
}

#[test]
fn a_running_program_can_be_signalled() {
    let running = shell("trap 'exit 9' USR1; while :; do sleep 0.02; done")
        .start()
        .unwrap();
    // The trap may not be set yet: until it is, the signal's default ends the shell.
    std::thread::sleep(Duration::from_millis(300));
    running.signal(10);
    assert_eq!(running.wait().unwrap().end, End::Code(9));
}
