//! Debian's ministat against ours, byte for byte, on many random inputs and options.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a broken harness must fail"
)]

use std::path::Path;
use std::process::Command;

use towpath_measure::random::Random;
use towpath_needs::{Need, can_run};
use towpath_report::ministat::{LEVELS, Options, Set, render};

/// Values of one of several kinds: few, many, whole numbers with ties, far offsets, tiny, huge, constant.
fn values(random: &mut Random) -> Vec<f64> {
    let most = if random.below(4) == 0 { 120 } else { 12 };
    let count = 3 + random.below(most);
    let kind = random.below(8);
    (0..count)
        .map(|_| match kind {
            0 => random.normal(),
            1 => (random.uniform() * 6.0).floor(),
            2 => 1e9 + random.normal(),
            3 => 1e-9 * random.uniform(),
            4 => 7.0,
            5 => libm::exp(random.normal() * 3.0),
            6 => 1e6 * random.normal(),
            _ => 16.7 + (random.uniform() * 100.0).floor() / 10.0,
        })
        .collect()
}

fn check(folder: &Path, sets: &[Vec<f64>], options: &Options) {
    let mut command = Command::new("/usr/bin/ministat");
    command
        .current_dir(folder)
        .arg("-w")
        .arg(options.width.to_string());
    command.arg("-c").arg(LEVELS[options.level].0.to_string());
    for (flag, is_set) in [
        ("-s", options.separate_bars),
        ("-n", options.summary_only),
        ("-A", options.no_plot),
    ] {
        if is_set {
            command.arg(flag);
        }
    }
    let mut own = Vec::new();
    for (index, values) in sets.iter().enumerate() {
        let name = format!("set{index}");
        let lines: String = values.iter().map(|value| format!("{value}\n")).collect();
        std::fs::write(folder.join(&name), lines).unwrap();
        command.arg(&name);
        own.push(Set::new(&name, values));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let theirs = String::from_utf8(output.stdout).unwrap();
    let ours = render(&own, options);
    assert_eq!(ours, theirs, "ours first; {options:?} {sets:?}");
}

#[test]
fn ours_is_what_debians_prints() {
    if !can_run(&[Need::Ministat]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(20_150_715);
    for _ in 0..400 {
        let sets: Vec<Vec<f64>> = (0..=random.below(4)).map(|_| values(&mut random)).collect();
        let options = Options {
            level: random.below(LEVELS.len()),
            width: 2 + random.below(100),
            separate_bars: random.coin(),
            summary_only: random.below(5) == 0,
            no_plot: random.below(5) == 0,
        };
        check(folder.path(), &sets, &options);
    }
    // Each row of its table, at each level: two sets of 3 + (df - 4) values.
    for freedom in 4..=104_u32 {
        let a: Vec<f64> = (0..3).map(f64::from).collect();
        let b: Vec<f64> = (0..freedom - 1).map(|i| 9.0 + f64::from(i % 5)).collect();
        // Its misprints lie between 7 and 12.
        for level in
            (0..LEVELS.len()).filter(|level| freedom < 14 || freedom as usize % 6 == *level)
        {
            let options = Options {
                level,
                no_plot: true,
                ..Options::default()
            };
            check(folder.path(), &[a.clone(), b.clone()], &options);
        }
    }
}
