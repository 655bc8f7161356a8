//! Every rule of the suites that ours follow has its place: the names of intel-gpu-tools' subtests
//! (`tests/syncobj_*.c`, October 2025: 212), and the leaves of the Vulkan tests that speak of objects.

use std::collections::BTreeSet;

const BASIC: &str = "bad-destroy bad-create-flags bad-handle-to-fd bad-fd-to-handle \
    illegal-fd-to-handle bad-flags-handle-to-fd bad-flags-fd-to-handle bad-pad-handle-to-fd \
    bad-pad-fd-to-handle bad-destroy-pad create-signaled test-valid-cycle";

/// What `syncobj_wait` and `syncobj_timeline` share.
const BOTH: &str = "invalid-wait-bad-flags wait-zero-handles invalid-wait-illegal-handle \
    invalid-signal-zero-handles invalid-signal-illegal-handle invalid-signal-one-illegal-handle \
    invalid-signal-bad-pad reset-unsignaled reset-signaled reset-multiple-signaled \
    reset-during-wait-for-submit signal wait-delayed-signal wait-all-delayed-signal \
    wait-for-submit-delayed-submit wait-all-for-submit-delayed-submit wait-any-snapshot \
    wait-all-snapshot wait-for-submit-snapshot wait-all-for-submit-snapshot wait-any-complex \
    wait-all-complex wait-for-submit-complex wait-all-for-submit-complex wait-any-interrupted \
    wait-all-interrupted";

const WAIT: &str = "invalid-reset-zero-handles invalid-reset-illegal-handle \
    invalid-reset-one-illegal-handle invalid-reset-bad-pad";

const TIMELINE: &str = "invalid-query-zero-handles invalid-query-illegal-handle \
    invalid-query-one-illegal-handle invalid-query-bad-pad invalid-signal-illegal-point \
    invalid-transfer-illegal-handle invalid-transfer-bad-pad invalid-transfer-non-existent-point \
    transfer-timeline-point signal-array signal-point-0 host-signal-points device-signal-unordered \
    device-submit-unordered host-signal-ordered 32bits-limit";

const EVENTFD: &str = "invalid-bad-flags invalid-illegal-handle invalid-illegal-eventfd \
    invalid-bad-pad binary-wait binary-wait-before-signal binary-wait-signaled timeline-wait \
    timeline-wait-before-signal timeline-wait-signaled";

/// Of `synchronization` and `api.external.semaphore`. Not here: what only a queue can show (one_queue,
/// multi_queue, none_wait_submit, sparse_bind, info queries, several instances).
const VULKAN: &str = "basic.binary_semaphore.chain basic.timeline_semaphore.chain \
    basic.timeline_semaphore.two_threads basic.timeline_semaphore.wait_for_any_current_value \
    basic.timeline_semaphore.wait_for_all_current_value \
    basic.timeline_semaphore.wait_for_any_lesser_value \
    basic.timeline_semaphore.wait_for_all_lesser_value \
    timeline_semaphore.wait.all_signal_from_device timeline_semaphore.wait.one_signal_from_device \
    timeline_semaphore.wait.all_signal_from_host timeline_semaphore.wait.one_signal_from_host \
    timeline_semaphore.wait.host_wait_before_signal \
    timeline_semaphore.wait.poll_signal_from_device timeline_semaphore.wait.poll_signal_from_host \
    timeline_semaphore.device_host.max_difference_value \
    timeline_semaphore.device_host.initial_value \
    timeline_semaphore.device_host.wait_before_signal timeline_semaphore.one_to_n \
    signal_order.opaque_fd external.opaque_fd.import_twice external.opaque_fd.reimport \
    external.opaque_fd.export_multiple_times external.opaque_fd.signal_export_import_wait \
    external.opaque_fd.export_signal_import_wait external.opaque_fd.export_import_signal_wait \
    external.opaque_fd.signal_wait_import external.sync_fd.import_twice external.sync_fd.reimport \
    external.sync_fd.export_multiple_times external.sync_fd.export_import_signal_wait \
    external.sync_fd.import_signaled";

/// `[invalid-]single-wait...` and `...multi-wait...` for all sets of flags and states.
fn generated(timeline: bool, multi: bool) -> Vec<String> {
    let states = ["-unsubmitted", "-submitted", "-signaled"];
    let flags = ["-all", "-for-submit", "-available"];
    let mut names = Vec::new();
    for flag_set in 0..if timeline { 8_u32 } else { 4 } {
        for state_set in 1..8_u32 {
            if !multi && state_set.count_ones() != 1 {
                continue;
            }
            let picked = |set: u32, names: &[&str]| -> String {
                let names = names.iter().enumerate();
                let names = names.filter(|(bit, _)| set & (1 << bit) != 0);
                names.map(|(_, name)| *name).collect()
            };
            let is_invalid = state_set & 1 != 0 && flag_set & 6 == 0;
            let family = if multi { "multi-wait" } else { "single-wait" };
            names.push(format!(
                "{}{family}{}{}",
                if is_invalid { "invalid-" } else { "" },
                picked(flag_set, &flags),
                picked(state_set, &states)
            ));
        }
    }
    names
}

fn named(suite: &str, names: &str) -> Vec<String> {
    let names = names.split_whitespace();
    names.map(|name| format!("{suite}/{name}")).collect()
}

#[test]
fn every_subtest_of_intel_gpu_tools_has_its_rule() {
    let rules = towpath_sync_conformance::rules::all();
    let ours: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(ours.len(), rules.len(), "a name used twice");

    let mut theirs = named("syncobj_basic", BASIC);
    assert_eq!(theirs.len(), 12);
    theirs.extend(named("syncobj_eventfd", EVENTFD));
    assert_eq!(theirs.len(), 12 + 10);
    for (suite, more, count) in [
        ("syncobj_wait", WAIT, 30),
        ("syncobj_timeline", TIMELINE, 42),
    ] {
        let mut all = named(suite, BOTH);
        all.extend(named(suite, more));
        assert_eq!(all.len(), count, "{suite}");
        theirs.append(&mut all);
    }
    for (suite, timeline) in [("syncobj_wait", false), ("syncobj_timeline", true)] {
        for multi in [false, true] {
            let all = generated(timeline, multi);
            theirs.extend(all.iter().map(|name| format!("{suite}/{name}")));
        }
    }
    // Theirs are 27 and 55 of the 28 and 56 multi-waits: one set of states has no subtest there.
    assert_eq!(theirs.len(), 212 + 2);
    let missing: Vec<_> = theirs
        .iter()
        .filter(|name| !ours.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_vulkan_test_of_objects_has_its_rule() {
    let rules = towpath_sync_conformance::rules::all();
    let mut theirs = named("vulkan", VULKAN);
    for kind in ["opaque_fd", "sync_fd"] {
        for way in ["transference", "dup", "dup2", "dup3", "send_over_socket"] {
            theirs.push(format!("vulkan/external.{kind}.{way}"));
        }
    }
    for name in theirs {
        let found = rules.iter().find(|rule| rule.name == name);
        assert_eq!(found.map(|rule| &rule.name).unwrap(), &name);
    }
}
