//! The mock driver under the real loader, as its scripts make it behave.

use towpath_mock_game::scene::{Ran, Scene};
use towpath_needs::{Need, can_run};

fn scene(folder: &tempfile::TempDir, script: &str) -> Option<Scene> {
    can_run(&[Need::Lavapipe]).then(|| Scene::new(folder.path()).script(script))
}

fn steps(scene: &Scene, steps: &str) -> Ran {
    let words: Vec<String> = steps
        .split(' ')
        .map(|word| word.replace('~', &scene.path("").to_string_lossy()))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = scene.steps(&words);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

#[test]
fn a_saved_cache_makes_the_next_start_compile_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(scene) = scene(&folder, "") else {
        return;
    };
    let first = steps(&scene, "cache=~c compute=20 batch=5@30 save=~c");
    assert_eq!(first.journal.count("compile"), 25);
    let second = steps(&scene, "cache=~c compute=20 batch=5@30 graphics=1 save=~d");
    assert_eq!(second.journal.count("compile"), 1);
    assert_eq!(second.journal.count("hit"), 25);
    assert_eq!(second.journal.count("fault"), 0);
}

#[test]
fn the_blob_of_another_driver_on_the_same_gpu_is_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let Some(scene) = scene(&folder, "devices=2") else {
        return;
    };
    let _first = steps(&scene, "cache=~c compute=3 save=~c");
    let other = steps(&scene, "device=1 cache=~c compute=3");
    assert_eq!(other.journal.count("blob-foreign"), 1);
    assert_eq!(other.journal.count("compile"), 3);
}

#[test]
fn each_policy_does_what_its_name_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(scene) = scene(&folder, "") else {
        return;
    };
    let _first = steps(&scene, "cache=~c compute=3 save=~c");
    let with = |policy: &str| scene.clone().script(&format!("policy={policy}"));
    let said = |policy: &str| {
        let ran = steps(&with(policy), "cache=~none compute=3 size save=~d");
        let lines: Vec<String> = ran.said.lines().skip(2).map(str::to_owned).collect();
        (lines.join(" "), ran)
    };
    let whole = std::fs::read(scene.path("c")).unwrap().len();
    assert_eq!(
        said("append").0,
        format!("size bytes={whole} save bytes={whole}")
    );
    assert_eq!(said("empty").0, "size bytes=0 save bytes=0");
    assert_eq!(said("header-only").0, "size bytes=32 save bytes=32");
    assert_eq!(
        said("lying-small").0,
        format!("size bytes={whole} save bytes=20")
    );
    let growing = said("growing").1;
    let fetch = growing
        .journal
        .lines("vkGetPipelineCacheData")
        .last()
        .unwrap()
        .to_owned();
    assert!(
        fetch.contains(&format!("room={whole} written={whole}")),
        "{fetch}"
    );
    let rejecting = steps(&with("rejecting"), "cache=~c compute=3");
    assert_eq!(rejecting.journal.count("compile"), 3);
    let failing = with("failing").steps(&["cache=c"]);
    assert_eq!(failing.code, Some(0), "an empty cache is made");
    let path = scene.path("c");
    let failing = with("failing").steps(&[&format!("cache={}", path.display())]);
    assert_eq!(failing.code, Some(1));
}

#[test]
fn a_marked_entry_kills_the_next_start_of_an_aborting_driver() {
    let folder = tempfile::tempdir().unwrap();
    let Some(scene) = scene(&folder, "policy=aborting;mark=2") else {
        return;
    };
    let _first = steps(&scene, "cache=~c compute=3 save=~c");
    let ran = scene.steps(&[&format!("cache={}", scene.path("c").display())]);
    assert_eq!(ran.code, None, "ended by a signal");
    assert_eq!(ran.journal.count("blob-marked"), 1);
}

#[test]
fn what_vulkan_forbids_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let Some(scene) = scene(&folder, "") else {
        return;
    };
    let ran = steps(&scene, "wrong-handle fail-on=1");
    let faults: Vec<_> = ran.journal.lines("fault").collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("no live Semaphore"), "{faults:?}");
    assert!(faults[1].contains("VUID-02878"), "{faults:?}");
    let ran = scene.script("strict=abort").steps(&["wrong-handle"]);
    assert_eq!(ran.code, None, "ended by a signal");
}

#[test]
fn a_lost_device_stays_lost() {
    let folder = tempfile::tempdir().unwrap();
    let Some(scene) = scene(&folder, "lost_after=3") else {
        return;
    };
    let ran = steps(&scene, "submit=5");
    assert_eq!(ran.said, "submit done=2 last=ERROR_DEVICE_LOST\n");
}
