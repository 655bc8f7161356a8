//! Every way to a verdict raises false alarms in at most 5.5 % of experiments, and finds what it promised to find.
//!
//! Seeds are fixed: what passes once passes always. `examples/false_alarms.rs` takes more experiments and other seeds.

use towpath_measure::simulation::{self, Path};

fn experiments(path: Path) -> usize {
    match path {
        // Twenty judgements each, or two hundred looks.
        Path::TwentyMetrics
        | Path::UntilProven
        | Path::UntilProvenDrift
        | Path::EquivalentUntilProven => 2_000,
        _ => 10_000,
    }
}

#[test]
fn false_alarms_stay_below_5_5_percent() {
    for path in Path::ALL {
        let share = path.false_alarms(experiments(path), 1).unwrap();
        assert!(share <= 0.055, "{path:?}: {share}");
    }
}

#[test]
fn power_is_what_was_promised() {
    for (pairs, effect) in [(6, 0.012), (8, 0.01), (12, 0.01), (13, 0.01), (20, 0.006)] {
        let (promised, found) = simulation::power(pairs, 0.01, effect, 10_000, 1).unwrap();
        assert!(
            (promised - found).abs() <= 0.03,
            "{pairs}: promised {promised}, found {found}"
        );
    }
    let (_, found) = simulation::power_unpaired(17, 0.01, 0.01, 10_000, 1).unwrap();
    assert!((0.77..=0.83).contains(&found), "17 runs per arm: {found}");
}

#[test]
fn an_interval_from_frames_holds_the_mean_in_spite_of_their_correlation() {
    let held = simulation::frame_coverage(0.9, 3_000, 400, 1).unwrap();
    assert!(held >= 0.88, "{held}");
}
