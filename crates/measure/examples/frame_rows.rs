//! Reads many rows of a frame log and says how long that took: what `bench/record` holds of `frame-rows`.
//!
//! `frame_rows make ROWS > FILE` writes a MangoHud log of 16 columns, `frame_rows read FILE` reads and measures it.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::process::ExitCode;

use towpath_measure::frames::{ReadOptions, Target, metrics, read};
use towpath_measure::{Clock as _, MonotonicClock, Nanos};

const COLUMNS: &str = "fps,frametime,cpu_load,cpu_power,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,swap_used,process_rss,cpu_mhz,elapsed";

fn make(rows: u64) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{COLUMNS}")?;
    let mut random = towpath_measure::random::Random::new(1);
    let mut elapsed = 0.0;
    for _ in 0..rows {
        let frame = 16.0 + random.uniform();
        elapsed += frame;
        writeln!(
            out,
            "{:.4},{frame:.4},12.5,0,80,55,60,1800,900,3.1,120,8.2,0,1.4,4200,{:.0}",
            1e3 / frame,
            elapsed * 1e6
        )?;
    }
    out.flush()
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures"
)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", rows] => {
            let made = make(rows.parse().unwrap_or(10_000_000));
            if made.is_ok() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        ["read", path] => {
            let start = MonotonicClock.now();
            let Some(log) = File::open(path)
                .ok()
                .and_then(|file| read(file, &ReadOptions::default()).ok())
            else {
                eprintln!("cannot read {path}");
                return ExitCode::FAILURE;
            };
            let parsed: Nanos = MonotonicClock.now().since(start);
            let rows: usize = log.runs.iter().map(|run| run.frame_ms.len()).sum();
            let values: usize = log
                .runs
                .iter()
                .map(|run| metrics::evaluate(&run.frame_ms, &Target::default()).len())
                .sum();
            let all = MonotonicClock.now().since(start);
            println!(
                "{rows} rows read in {} ns, {values} metrics after {} ns",
                parsed.0, all.0
            );
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("frame_rows make ROWS > FILE; frame_rows read FILE");
            ExitCode::FAILURE
        }
    }
}
