//! False alarms and power of every way to a verdict at full size; fails if a promise is broken.
//!
//! `cargo run --release -p towpath-measure --example false_alarms -- [EXPERIMENTS] [SEED]`

use std::process::ExitCode;

use towpath_measure::simulation::{self, Path};

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> towpath_measure::Result<ExitCode> {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u64>().unwrap_or(10_000));
    let experiments = usize::try_from(numbers.next().unwrap_or(10_000)).unwrap_or(10_000);
    let seed = numbers.next().unwrap_or(1);
    let mut is_kept = true;
    println!("{experiments} experiments each, seed {seed}");
    for path in Path::ALL {
        let share = path.false_alarms(experiments, seed)?;
        is_kept &= share <= 0.055;
        println!(
            "false alarms  {path:<22?} {:.2} % (at most 5.5 %)",
            share * 100.0
        );
    }
    for (pairs, effect) in [
        (6, 0.01),
        (8, 0.01),
        (12, 0.01),
        (13, 0.01),
        (20, 0.006),
        (60, 0.004),
    ] {
        let (promised, found) = simulation::power(pairs, 0.01, effect, experiments, seed)?;
        is_kept &= (promised - found).abs() <= 0.03;
        println!(
            "power {pairs:3} pairs   promised {:.1} %, found {:.1} %",
            promised * 100.0,
            found * 100.0
        );
    }
    let (promised, found) = simulation::power_unpaired(17, 0.01, 0.01, experiments, seed)?;
    is_kept &= (0.77..=0.83).contains(&found) && (promised - found).abs() <= 0.03;
    println!(
        "power 17 + 17 runs promised {:.1} %, found {:.1} %",
        promised * 100.0,
        found * 100.0
    );
    let held = simulation::frame_coverage(0.9, 3_000, experiments / 10, seed)?;
    is_kept &= held >= 0.88;
    println!(
        "coverage of a frame interval at correlation 0.9: {:.1} % (at least 88 %)",
        held * 100.0
    );
    Ok(if is_kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
