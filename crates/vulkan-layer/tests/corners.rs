//! Faults that other layers had: each corner of Vulkan gives the same with the layer and without, on the
//! mock driver and, where it can go there, on lavapipe. `docs/vulkan-layer.md` has the table.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use towpath_ledger::{Counter, read_folder};
use towpath_mock_game::scene::{Ran, Scene};
use towpath_needs::{Need, artifact, can_run};

const LAYER: &str = "VK_LAYER_TOWPATH_host";
const LAVAPIPE: &str = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";
const MODES: [&str; 3] = ["fill", "takeover", "observe"];

struct Stage {
    folder: tempfile::TempDir,
    bare: Scene,
}

fn stage(script: &str) -> Option<Stage> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("ledger")).unwrap();
    let bare = Scene::new(folder.path()).script(script);
    can_run(&[Need::Lavapipe]).then_some(Stage { folder, bare })
}

fn go(scene: &Scene, corner: &str) -> Ran {
    let mut command = Command::new(artifact("towpath-vulkan-corners"));
    command.arg(corner);
    let ran = scene.run(command);
    assert_eq!(
        (ran.code, ran.complained.as_str()),
        (Some(0), ""),
        "{ran:?}"
    );
    ran
}

impl Stage {
    /// Everything on; each mode has a store of its own.
    fn layered(&self, mode: &str) -> Scene {
        let path = |name: &str| self.folder.path().join(name);
        self.bare
            .clone()
            .layer(LAYER)
            .var("TOWPATH_LEDGER", path("ledger"))
            .var("TOWPATH_LOG", path("log"))
            .var("TOWPATH_FIX", "cache,waits")
            .var("TOWPATH_CACHE_MODE", mode)
            .var("TOWPATH_CACHE_DIR", path(&format!("store-{mode}")))
            .var("XDG_RUNTIME_DIR", self.folder.path())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What the corner says without the layer and, twice, with it in each mode.
    fn same(&self, corner: &str) -> String {
        let without = go(&self.bare, corner);
        for mode in MODES {
            for start in 1..=2 {
                let with = go(&self.layered(mode), corner);
                assert_eq!(with.said, without.said, "{mode}, start {start}");
                let faults = |ran: &Ran| ran.journal.count("fault");
                assert_eq!(faults(&with), faults(&without), "{mode}: {with:?}");
            }
        }
        let (ledgers, problems) = read_folder(&self.folder.path().join("ledger"));
        assert!(problems.is_empty(), "{problems:?}");
        let panics = ledgers.iter().map(|one| one.counter(Counter::PanicsCaught));
        assert_eq!(panics.sum::<u64>(), 0);
        without.said
    }
}

/// On both drivers; what the mock says.
fn same_on_both(corner: &str) -> Option<String> {
    let stage = stage("")?;
    let said = stage.same(corner);
    let lavapipe = Stage {
        bare: stage.bare.clone().icd(LAVAPIPE),
        ..stage
    };
    lavapipe.same(corner);
    Some(said)
}

#[test]
fn a_function_is_there_by_the_look_up_by_which_it_would_be_without_the_layer() {
    let Some(said) = same_on_both("names") else {
        return;
    };
    // By no instance, an instance, a device.
    for row in [
        "vkCreateInstance=[1, 0, 0]",
        "vkCreateDevice=[0, 1, 0]",
        "vkGetDeviceProcAddr=[0, 1, 1]",
        "vkNoSuchFunction=[0, 0, 0]",
    ] {
        assert!(said.contains(row), "{said}");
    }
}

#[test]
fn nothing_is_destroyed_for_null() {
    same_on_both("nulls");
}

#[test]
fn a_structure_that_nobody_knows_reaches_the_driver_in_its_place() {
    let Some(stage) = stage("") else { return };
    assert_eq!(stage.same("chain"), "chain control=0\n");
    let chain = |scene: &Scene| {
        let ran = go(scene, "chain");
        ran.journal
            .lines("vkCreateDevice")
            .last()
            .unwrap()
            .to_owned()
    };
    let without = chain(&stage.bare);
    assert!(without.ends_with("chain=[2147483632, 53]"), "{without}");
    for mode in MODES {
        assert_eq!(chain(&stage.layered(mode)), without, "{mode}");
    }
}

#[test]
fn a_function_is_recorded_by_either_of_its_names() {
    let Some(stage) = stage("") else { return };
    assert_eq!(stage.same("aliases"), "aliases [1, 2]\n");
    let (ledgers, _) = read_folder(&stage.folder.path().join("ledger"));
    for ledger in ledgers {
        for call in [
            "vkQueueSubmit",
            "vkWaitSemaphores",
            "vkGetSemaphoreCounterValue",
        ] {
            let sites = ledger.sites();
            let found = sites.iter().find(|site| site.call == call);
            assert_eq!(found.unwrap().calls, 2, "{call}");
        }
    }
}

#[test]
fn a_device_of_a_group_and_a_queue_by_the_newer_call_are_known() {
    let Some(said) = same_on_both("group") else {
        return;
    };
    assert_eq!(said, "group groups=1 listed=true\n");
}

#[test]
fn instances_of_two_threads_do_not_disturb_each_other() {
    same_on_both("instances");
}

#[test]
fn what_the_programs_allocator_gave_is_given_back_to_it() {
    let Some(said) = same_on_both("allocator") else {
        return;
    };
    assert_eq!(said, "allocator used=true left=0\n");
}

#[test]
fn the_loader_can_be_unloaded_and_loaded_again() {
    let Some(said) = same_on_both("reload") else {
        return;
    };
    assert_eq!(said, "reload mapped=[false, false, false]\n");
}

#[test]
fn a_present_of_two_swapchains_answers_for_each() {
    let Some(stage) = stage("") else { return };
    let said = stage.same("swapchains");
    assert_eq!(said, "swapchains Ok(false) [SUCCESS, SUCCESS]\n");
    let (ledgers, _) = read_folder(&stage.folder.path().join("ledger"));
    assert!(ledgers.iter().all(|one| one.counter(Counter::Frames) == 1));
}

#[test]
fn a_pipeline_that_fails_is_null_and_the_others_of_its_batch_are_made() {
    for (fail, slots) in [
        (1, "[false, true, true, true, true]"),
        (3, "[true, true, false, true, true]"),
        (5, "[true, true, true, true, false]"),
    ] {
        let Some(stage) = stage(&format!("fail={fail}")) else {
            return;
        };
        let without = go(&stage.bare, "batch").said;
        assert_eq!(without, format!("batch ERROR_OUT_OF_HOST_MEMORY {slots}\n"));
        for mode in MODES {
            assert_eq!(go(&stage.layered(mode), "batch").said, without, "{mode}");
        }
    }
}

#[test]
fn a_call_that_asks_for_nothing_reaches_the_driver() {
    let Some(stage) = stage("") else { return };
    stage.same("empty");
    for mode in MODES {
        let ran = go(&stage.layered(mode), "empty");
        assert_eq!(ran.journal.count("vkCreateComputePipelines"), 1, "{mode}");
    }
}

#[test]
fn creation_feedback_is_the_drivers() {
    let Some(said) = same_on_both("feedback") else {
        return;
    };
    assert_eq!(said, "feedback valid=true\n");
}

#[test]
fn merged_caches_serve_the_program_as_before() {
    let Some(said) = same_on_both("merge") else {
        return;
    };
    assert_eq!(said, "merge made=12\n");
}

#[test]
fn a_driver_that_refuses_the_feature_it_offers_makes_the_device_without() {
    let Some(stage) = stage("refuse_control=1") else {
        return;
    };
    let without = stage.bare.steps(&["compute=3"]);
    let with = stage.layered("fill").steps(&["compute=3"]);
    assert_eq!(without.code, Some(0), "{without:?}");
    assert_eq!((with.code, &with.said), (without.code, &without.said));
    assert_eq!(with.journal.count("vkCreateDevice"), 2);
    let reason = "cache fix off: with pipelineCreationCacheControl vkCreateDevice answers ERROR_FEATURE_NOT_PRESENT";
    assert_eq!(stage.log().matches(reason).count(), 1, "{}", stage.log());
}

/// All Windows programs run as one program of Wine's.
#[test]
fn two_windows_programs_do_not_share_a_store() {
    let Some(stage) = stage("") else { return };
    let wine = stage.folder.path().join("wine64-preloader");
    fs::copy(artifact("towpath-vulkan-steps"), &wine).unwrap();
    let compiles = |shown: &str| {
        let mut command = Command::new(&wine);
        command.arg0(shown).arg("compute=4");
        let ran = stage.layered("fill").run(command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.journal.count("compile")
    };
    for (shown, count) in [
        ("C:\\one\\One.exe", 4),
        ("D:\\two\\Two.exe", 4),
        ("C:\\one\\One.exe", 0),
    ] {
        assert_eq!(compiles(shown), count, "{shown}");
    }
    let store = stage.folder.path().join("store-fill");
    assert!(store.join("One.exe").is_dir() && store.join("Two.exe").is_dir());
}
