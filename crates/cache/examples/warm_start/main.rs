//! How fast a program starts: cold, from the driver's own disk cache, and from the store.
//!
//! Makes thousands of different compute pipelines, each run in a fresh process with a private cache
//! folder of the driver, the arms in turn, and prints one JSON document with every sample.
//!
//! ```text
//! cargo run --release -p towpath-cache --example warm_start -- --count 2000 --rounds 5 --json out.json
//! ```
//!
//! `--threads 1,8` makes pipelines on one and on eight threads, in every arm; `--cold-threads` those of
//! them that are also run cold. `--idle N` gives each shader N steps that never run: `--form uncalled` in
//! functions that nothing calls, `--form switched` behind a specialization constant that is off.
//! `--only A,B` runs these arms and the cold one (names as in the result, without threads). `--evict 1` adds arms whose cache files are not in the page cache, as after a reboot.
//! `--seconds N` begins no further round after so long.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "an index into a JSON value answers null, it does not panic"
)]

mod arms;
mod gpu;
mod pages;
mod rounds;
mod spirv;

use std::path::PathBuf;

type Failure = Box<dyn std::error::Error>;

/// What the command line says.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) count: u64,
    pub(crate) size: spirv::Size,
    pub(crate) rounds: u32,
    pub(crate) cold_rounds: u32,
    pub(crate) threads: Vec<usize>,
    pub(crate) cold_threads: Vec<usize>,
    pub(crate) evict: bool,
    pub(crate) seconds_max: u64,
    pub(crate) only: Vec<String>,
    pub(crate) device: usize,
    pub(crate) json: Option<PathBuf>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) arm: Option<String>,
}

fn main() -> Result<(), Failure> {
    let settings = read_arguments(std::env::args().skip(1))?;
    match settings.arm.clone() {
        None => rounds::drive(&settings),
        Some(arm) => {
            println!("{}", arms::run(&arm, &settings)?);
            Ok(())
        }
    }
}

fn read_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Settings, Failure> {
    let mut settings = Settings {
        count: 2000,
        size: spirv::Size {
            steps: 300,
            idle: 0,
            form: spirv::Form::Uncalled,
        },
        rounds: 5,
        cold_rounds: 3,
        threads: vec![1],
        cold_threads: vec![1],
        evict: false,
        seconds_max: u64::MAX,
        only: Vec::new(),
        device: 0,
        json: None,
        folder: None,
        arm: None,
    };
    let numbers =
        |text: &str| -> Result<Vec<usize>, _> { text.split(',').map(str::parse).collect() };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--count" => settings.count = value.parse()?,
            "--steps" => settings.size.steps = value.parse()?,
            "--idle" => settings.size.idle = value.parse()?,
            "--form" => settings.size.form = value.parse()?,
            "--only" => settings.only = value.split(',').map(str::to_owned).collect(),
            "--rounds" => settings.rounds = value.parse()?,
            "--cold-rounds" => settings.cold_rounds = value.parse()?,
            "--threads" => settings.threads = numbers(&value)?,
            "--cold-threads" => {
                settings.cold_threads = numbers(&value)?;
            }
            "--seconds" => settings.seconds_max = value.parse()?,
            "--evict" => settings.evict = value == "1",
            "--device" => settings.device = value.parse()?,
            "--json" => settings.json = Some(value.into()),
            "--folder" => settings.folder = Some(value.into()),
            "--arm" => settings.arm = Some(value),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(settings)
}
