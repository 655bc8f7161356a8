//! Plays a fixed route of a game with its own pipeline cache and prints the table of seed 000.
//!
//! ```text
//! towpath-mock-game FOLDER [pipelines=N] [new=N] [new-seed=N] [frames=N] [from=N] [fps=N] [reads=N]
//!                          [saves=before|size-first]
//! ```

#![expect(clippy::print_stdout, reason = "a program for people and measurements")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use towpath_mock_game::game::{Route, Saves, play};

fn main() -> Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let folder = words
        .next()
        .context("the first word is the game's folder")?;
    let mut route = Route {
        folder: PathBuf::from(folder),
        pipelines: 13_000,
        new: 0,
        new_seed: 1_000_000,
        frames: 3300 + 2820,
        counted_from: 3300,
        frame: Duration::from_nanos(16_666_667),
        reads: 2,
        saves: Saves::Before,
    };
    for word in words {
        set(&mut route, &word).with_context(|| format!("cannot read {word:?}"))?;
    }
    std::fs::create_dir_all(&route.folder)?;
    let outcome = play(&route)?;
    print!("{}", outcome.table(route.frame));
    Ok(ExitCode::SUCCESS)
}

fn set(route: &mut Route, word: &str) -> Result<()> {
    let (name, value) = word.split_once('=').context("no '='")?;
    match name {
        "pipelines" => route.pipelines = value.parse()?,
        "new" => route.new = value.parse()?,
        "new-seed" => route.new_seed = value.parse()?,
        "frames" => route.frames = value.parse()?,
        "from" => route.counted_from = value.parse()?,
        "fps" => route.frame = Duration::from_secs_f64(1.0 / value.parse::<f64>()?),
        "reads" => route.reads = value.parse()?,
        "saves" => {
            route.saves = match value {
                "before" => Saves::Before,
                "size-first" => Saves::SizeFirst,
                _ => bail!("neither before nor size-first"),
            }
        }
        _ => bail!("no such option"),
    }
    Ok(())
}
