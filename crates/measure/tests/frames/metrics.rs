//! What is computed from frames, whoever wrote them.

use towpath_measure::frames::{Target, alternates, merge_short, metrics, sketch};

use crate::common::hundred;

#[test]
fn the_hundred_frames_give_every_value_of_the_table() {
    let found = metrics::evaluate(&hundred(), &Target::default());
    let value = |name: &str| {
        found
            .iter()
            .find(|metric| metric.name == name)
            .unwrap()
            .value
    };
    for (name, want, unit) in [
        ("fps", 55.5, 0.1),
        ("low-5%", 23.3, 0.1),
        ("low-5%-time", 10.0, 0.01),
        ("low-5%-mangohud", 50.0, 0.01),
        ("low-5%-percentile", 59.3, 0.1),
        ("late", 134.83, 0.01),
        ("late-10%", 131.67, 0.01),
        ("missed", 8.0, 0.01),
        ("over-16.7ms", 5.0, 0.01),
        ("over-25ms", 3.0, 0.01),
        ("over-33.4ms", 2.0, 0.01),
        ("slip", 134.83, 0.01),
    ] {
        assert!(
            (value(name) - want).abs() <= unit / 2.0 + 1e-9,
            "{name}: {} not {want}",
            value(name)
        );
    }
    assert!(
        found
            .iter()
            .all(|metric| !metric.definition.is_empty() && metric.value.is_finite())
    );
    // The wrong average that some tools print: mean of fps 58.5, and 625 for frames of 1 and 4 ms.
    let two = metrics::evaluate(&[1.0, 4.0], &Target::default());
    assert!((two[0].value - 400.0).abs() < 1e-9);
    assert!(metrics::evaluate(&[], &Target::default()).is_empty());
}

#[test]
fn alternating_presents_are_suspicious_and_can_be_joined() {
    let pairs: Vec<f64> = (0..200)
        .map(|i| if i % 2 == 0 { 0.6 } else { 16.0 })
        .collect();
    assert!(alternates(&pairs));
    assert!(
        merge_short(&pairs, 1.0)
            .iter()
            .all(|frame| (frame - 16.6).abs() < 1e-9)
    );
    assert!(!alternates(&hundred()));
    assert_eq!(merge_short(&[0.5], 1.0), [0.5]);
    assert!(metrics::is_capped(&vec![16.7; 200]) && !metrics::is_capped(&pairs));
}

#[test]
fn a_spike_survives_the_sketch() {
    let mut frames = vec![10.0; 100_000];
    frames[77_777] = 500.0;
    let sketch = sketch::sketch(&frames, 500);
    assert!(sketch.slices.len() == 500 && sketch.slices.iter().any(|slice| slice.1 >= 500.0));
    assert!((sketch.ladder.last().unwrap().1 - 500.0).abs() < 1e-9);
    assert!(sketch.ladder.is_sorted_by(|x, y| x.0 <= y.0 && x.1 <= y.1));
    assert!(sketch::sketch(&[], 500).slices.is_empty());
}
