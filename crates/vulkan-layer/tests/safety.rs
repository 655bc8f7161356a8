//! What the layer's store does when processes die, share it, or run with more rights; and how its thread
//! behaves.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use towpath_mock_game::scene::{Ran, Scene};
use towpath_needs::{Need, artifact, can_run};

const LAYER: &str = "VK_LAYER_TOWPATH_host";

struct Stage {
    folder: tempfile::TempDir,
    scene: Scene,
}

fn stage(script: &str, mode: &str) -> Option<Stage> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["ledger", "store", "run"] {
        fs::create_dir(at(name)).unwrap();
    }
    let scene = Scene::new(folder.path())
        .script(script)
        .layer(LAYER)
        .var("TOWPATH_LEDGER", at("ledger"))
        .var("TOWPATH_LOG", at("log"))
        .var("TOWPATH_FIX", "cache")
        .var("TOWPATH_CACHE_MODE", mode)
        .var("TOWPATH_CACHE_DIR", at("store"))
        .var("XDG_CACHE_HOME", at("xdg"))
        .var("XDG_RUNTIME_DIR", at("run"));
    can_run(&[Need::Lavapipe]).then_some(Stage { folder, scene })
}

impl Stage {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn scripted(&self, script: &str) -> Scene {
        self.scene.clone().script(script)
    }
}

fn run(scene: &Scene, steps: &str) -> Ran {
    let place = scene.path("").to_string_lossy().into_owned();
    let words: Vec<String> = steps
        .split_whitespace()
        .map(|word| word.replace('~', &place))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    scene.steps(&words)
}

/// Runs, demands that all went well, and gives the number of compiles.
fn compiles(scene: &Scene, steps: &str) -> usize {
    let ran = run(scene, steps);
    assert_eq!(
        (ran.code, ran.complained.as_str()),
        (Some(0), ""),
        "{ran:?}"
    );
    assert_eq!(ran.journal.count("fault"), 0, "{ran:?}");
    ran.journal.count("compile")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            all.extend(files(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all
}

/// Waits until `ready` holds; panics after ten seconds.
fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !ready() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process's canary says that the driver reads a blob: the stage is not 0.
fn is_in_driver(run: &Path) -> bool {
    files(run).iter().any(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let page = fs::read(path).unwrap_or_default();
        name.starts_with("canary-") && page.get(8).is_some_and(|stage| *stage != 0)
    })
}

/// Starts a process, waits until the driver has a blob in its hands, and kills it.
fn kill_in_driver(stage: &Stage) {
    let slow = stage.scripted("load_us=5000000");
    let mut child = slow.start(&["compute=5"]).unwrap();
    wait_until("the driver's reading", || is_in_driver(&stage.path("run")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn of_several_saves_the_one_that_kills_the_driver_is_found_and_the_others_stay_warm() {
    let Some(stage) = stage("policy=aborting", "fill") else {
        return;
    };
    assert_eq!(compiles(&stage.scene, "compute=5"), 5);
    assert_eq!(compiles(&stage.scene, "compute=5 compute=5@200"), 5);
    let marking = stage.scripted("policy=aborting;mark=1");
    assert_eq!(compiles(&marking, "compute=5 compute=5@100"), 5);
    let all = "compute=5 compute=5@200 compute=5@100";
    let died = (0..5)
        .filter(|_| run(&stage.scene, "compute=1").code.is_none())
        .count();
    assert_eq!(died, 2, "one bad save, two strikes: {}", stage.log());
    // What was in the bad save is compiled again, and nothing else.
    assert_eq!(compiles(&stage.scene, all), 5, "{}", stage.log());
    assert_eq!(compiles(&stage.scene, all), 0);
    assert_eq!(stage.log().matches("is in quarantine now").count(), 1);
}

#[test]
fn a_process_killed_while_the_driver_reads_is_a_strike_that_the_next_start_takes_back() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    assert_eq!(compiles(&stage.scene, "compute=5"), 5);
    for round in 1..=3 {
        kill_in_driver(&stage);
        assert_eq!(compiles(&stage.scene, "compute=5"), 0, "{}", stage.log());
        assert_eq!(stage.log().matches("gets one more try").count(), round);
    }
    assert!(!stage.log().contains("quarantine"), "{}", stage.log());
}

#[test]
fn after_a_power_cut_while_the_driver_reads_nothing_is_blamed() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    assert_eq!(compiles(&stage.scene, "compute=5"), 5);
    for _ in 0..3 {
        kill_in_driver(&stage);
        // A reboot empties the folder, which is on tmpfs.
        fs::remove_dir_all(stage.path("run")).unwrap();
        fs::create_dir(stage.path("run")).unwrap();
    }
    assert_eq!(compiles(&stage.scene, "compute=5"), 0);
    assert!(!stage.log().contains("died"), "{}", stage.log());
}

#[test]
fn a_live_process_that_the_driver_keeps_busy_is_not_taken_for_a_dead_one() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    assert_eq!(compiles(&stage.scene, "compute=5"), 5);
    let slow = stage.scripted("load_us=2000000");
    let mut child = slow.start(&["compute=5"]).unwrap();
    wait_until("the driver's reading", || is_in_driver(&stage.path("run")));
    for _ in 0..3 {
        assert_eq!(compiles(&stage.scene, "compute=5"), 0);
    }
    assert!(
        is_in_driver(&stage.path("run")),
        "the first one was too quick"
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!stage.log().contains("died"), "{}", stage.log());
}

/// The thread of that name in a process that has `text` in its environment: its folder in `/proc`.
fn thread_of(name: &str, text: &str) -> Option<PathBuf> {
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if !String::from_utf8_lossy(&environment).contains(text) {
            continue;
        }
        for thread in fs::read_dir(process.path().join("task")).ok()?.flatten() {
            let comm = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            if comm.trim() == name {
                return Some(thread.path());
            }
        }
    }
    None
}

#[test]
fn the_thread_that_saves_is_of_the_idle_class_and_hears_no_signal() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    let mut child = stage.scene.start(&["compute=1", "sleep=3000"]).unwrap();
    let text = stage.path("store").to_string_lossy().into_owned();
    let mut found = None;
    wait_until("the thread's start", || {
        found = thread_of("towpath-cache", &text);
        found.is_some()
    });
    let thread = found.unwrap();
    // The thread has just begun: its first steps are these.
    std::thread::sleep(Duration::from_millis(50));
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = u64::from_str_radix(blocked.unwrap().trim(), 16).unwrap();
    for signal in [1, 2, 10, 12, 13, 14, 15, 17] {
        assert!(blocked >> (signal - 1) & 1 == 1, "signal {signal}");
    }
    let number = thread.file_name().unwrap().to_string_lossy().into_owned();
    let said = Command::new("ionice")
        .args(["-p", &number])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "idle");
    child.wait().unwrap();
}

#[test]
fn a_large_blob_is_taken_over_at_the_pace_of_play_and_quickly_once_the_program_ends() {
    let Some(stage) = stage("entry_bytes=60000", "takeover") else {
        return;
    };
    let bare = Scene::new(stage.folder.path()).script("entry_bytes=60000");
    assert_eq!(compiles(&bare, "cache=~none compute=400 save=~c"), 400);
    let bytes = fs::metadata(stage.path("c")).unwrap().len();
    let began = Instant::now();
    assert_eq!(compiles(&stage.scene, "cache=~c compute=400 sleep=2500"), 0);
    let all = began.elapsed().as_millis();
    let log = stage.log();
    let line = log
        .lines()
        .find(|line| line.contains("taken over"))
        .unwrap();
    let took: u64 = line
        .rsplit(", ")
        .next()
        .and_then(|end| end.strip_suffix(" ms"))
        .unwrap()
        .parse()
        .unwrap();
    // 48 MB/s, but for the first MiB, which goes at once.
    let least = (bytes - (1 << 20)) * 1000 / 48_000_000;
    assert!(
        took >= least,
        "{took} ms for {bytes} bytes, at least {least}"
    );
    assert!(u128::from(took) < all, "{took} of {all} ms");
}

/// 200 MB would take four seconds at the pace of play; a program that ends does not wait for that.
#[test]
fn a_program_that_ends_in_the_middle_of_a_take_over_does_not_wait_for_its_pace() {
    let Some(stage) = stage("entry_bytes=500000", "takeover") else {
        return;
    };
    let bare = Scene::new(stage.folder.path()).script("entry_bytes=500000");
    assert_eq!(compiles(&bare, "cache=~none compute=400 save=~c"), 400);
    for end in ["", "leave"] {
        // A busy disk may be as slow as that pace now and then, the pace is never quicker.
        let mut times = (0..4).map(|_| {
            fs::remove_dir_all(stage.path("store")).unwrap();
            fs::create_dir(stage.path("store")).unwrap();
            let began = Instant::now();
            let ran = run(&stage.scene, &format!("cache=~c compute=1 sleep=200 {end}"));
            assert_eq!(ran.code, Some(0), "{ran:?}");
            began.elapsed()
        });
        let is_quick = times.any(|took| took < Duration::from_secs(4));
        assert!(is_quick, "{end}");
    }
}

/// As in a 32-bit process: the program's file and the driver's copy of it fit, one more of ours would not.
#[test]
fn a_program_that_has_memory_for_its_cache_only_keeps_it() {
    let Some(stage) = stage("entry_bytes=500000", "takeover") else {
        return;
    };
    let bare = Scene::new(stage.folder.path()).script("entry_bytes=500000");
    assert_eq!(compiles(&bare, "cache=~none compute=400 save=~c"), 400);
    let limited = |scene: &Scene| {
        let mut command = Command::new("prlimit");
        command.arg("--as=600000000");
        command.arg(artifact("towpath-vulkan-steps"));
        command.arg(format!("cache={}", stage.path("c").display()));
        command.args(["compute=1", "sleep=300"]);
        scene.run(command)
    };
    let mut said = Vec::new();
    for scene in [&bare, &stage.scene] {
        let ran = limited(scene);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.journal.count("blob-loaded"), 1, "{ran:?}");
        said.push(ran.said);
    }
    assert_eq!(said.first(), said.last());
    let log = stage.log();
    assert_eq!(log.matches("too little memory").count(), 1, "{log}");
}

#[test]
fn pipelines_linked_from_libraries_are_served_and_shader_objects_passed_on() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    let steps = "library=5 shader-object=4";
    assert_eq!(compiles(&stage.scene, steps), 10);
    let second = run(&stage.scene, steps);
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(second.journal.count("compile"), 0, "{second:?}");
    assert_eq!(second.journal.count("hit"), 10);
    assert_eq!(second.journal.count("vkCreateShadersEXT"), 4);
    assert_eq!(
        second.said,
        "library made=10 required=0 failed=0\nshader-object made=4\n"
    );
    let (ledgers, _) = towpath_ledger::read_folder(&stage.path("ledger"));
    let sites = ledgers.iter().flat_map(towpath_ledger::LedgerFile::sites);
    let shaders: u64 = sites
        .filter(|site| site.call == "vkCreateShadersEXT")
        .map(|site| site.calls)
        .sum();
    assert_eq!(shaders, 2 * 4);
}

#[test]
fn many_short_sessions_end_in_few_files_and_stay_warm() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    let segments = || {
        let all = files(&stage.path("store"));
        let is_segment = |path: &&PathBuf| path.extension().is_some_and(|e| e == "seg");
        all.iter().filter(is_segment).count()
    };
    let mut most = 0;
    for session in 0..70 {
        assert_eq!(
            compiles(&stage.scene, &format!("compute=2@{}", session * 10)),
            2
        );
        most = most.max(segments());
    }
    assert!(most <= 65, "{most} segments");
    assert!(segments() < 20, "{} segments", segments());
    let all: Vec<String> = (0..70).map(|n| format!("compute=2@{}", n * 10)).collect();
    assert_eq!(compiles(&stage.scene, &all.join(" ")), 0);
}

#[test]
fn another_users_store_is_one_line_and_the_usual_place_serves() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    if !can_run(&[Need::Root]) {
        return;
    }
    assert_eq!(compiles(&stage.scene, "compute=5"), 5);
    for file in files(&stage.path("store")) {
        std::os::unix::fs::chown(file.parent().unwrap(), Some(12_345), None).unwrap();
    }
    let before = files(&stage.path("store")).len();
    assert_eq!(compiles(&stage.scene, "compute=5"), 5);
    let log = stage.log();
    assert_eq!(log.matches("belongs to user 12345").count(), 1, "{log}");
    assert_eq!(files(&stage.path("store")).len(), before);
    assert_eq!(compiles(&stage.scene, "compute=5"), 0, "the usual place");
}

/// The loader and the layer both take nothing from the environment of a setuid process.
#[test]
fn a_setuid_process_gets_no_layer_no_ledger_and_no_store() {
    let Some(stage) = stage("", "fill") else {
        return;
    };
    if !can_run(&[Need::Root]) {
        return;
    }
    let program = stage.path("steps");
    fs::copy(artifact("towpath-vulkan-steps"), &program).unwrap();
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(stage.folder.path(), 0o755);
    open(&stage.path("ledger"), 0o777);
    open(&stage.path("store"), 0o777);
    let start = |mode: u32, user: u32| {
        open(&program, mode);
        let mut command = Command::new(&program);
        command.arg("compute=2").uid(user);
        let journal = stage.path("journal-setuid");
        stage.scene.dress(&mut command, &journal);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (
            files(&stage.path("ledger")).len(),
            files(&stage.path("store")).len(),
        )
    };
    assert_eq!(start(0o4755, 65_534), (0, 0));
    // The same without the bit: the layer is there.
    let (ledgers, stored) = start(0o755, 0);
    assert!(ledgers > 0 && stored > 0);
}
