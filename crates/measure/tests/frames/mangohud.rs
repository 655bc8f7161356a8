//! MangoHud's logs, and towpath's own in the same form.

use std::fmt::Write as _;

use crate::common::{hundred, one, parse, refuse};

pub(crate) const SYSTEM: &str =
    "os,cpu,gpu,ram,kernel,driver,cpuscheduler\nToyOS,ToyCPU,ToyGPU,16384000,6.9.0,,performance\n";

/// The hundred frames as MangoHud's columns of some release.
fn mangohud(columns: &str, frame_scale: f64, clock_scale: f64) -> String {
    let mut text = format!("{columns}\n");
    let mut now = 0.0;
    for frame in hundred() {
        now += frame;
        for (place, name) in columns.split(',').enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let value = match name {
                "fps" => 1000.0 / frame,
                "frametime" => frame * frame_scale,
                "elapsed" => now * clock_scale,
                _ => 7.0,
            };
            write!(text, "{comma}{value:.3}").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn mangohud_of_every_generation_gives_the_same_frames() {
    let v050 = "fps,cpu_load,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,ram_used,elapsed";
    let v062 = "fps,frametime,cpu_load,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,elapsed";
    let v082 = "fps,frametime,cpu_load,cpu_power,gpu_load,cpu_temp,gpu_temp,gpu_core_clock,gpu_mem_clock,gpu_vram_used,gpu_power,ram_used,swap_used,process_rss,cpu_mhz,elapsed";
    let versioned = format!(
        "v1\n0.8.2\n---------------------SYSTEM INFO---------------------\n{SYSTEM}--------------------FRAME METRICS--------------------\n{}",
        mangohud(v082, 1.0, 1e6)
    );
    for (name, text) in [
        ("0.5.0", format!("{SYSTEM}{}", mangohud(v050, 1.0, 1e3))),
        ("0.6.2, us", format!("{SYSTEM}{}", mangohud(v062, 1e3, 1e6))),
        ("0.6.9, ms", format!("{SYSTEM}{}", mangohud(v062, 1.0, 1e6))),
        ("0.8.2 with versions", versioned),
    ] {
        let run = one(&text);
        assert_eq!(run.frame_ms.len(), 100, "{name}");
        for (got, want) in run.frame_ms.iter().zip(hundred()) {
            assert!((got - want).abs() < 0.02, "{name}: {got} {want}");
        }
        let coverage = run.coverage.unwrap();
        assert!(
            (coverage - 1.0).abs() < 0.02 && run.is_complete(),
            "{name}: {coverage}"
        );
        assert_eq!(
            name.ends_with("us"),
            run.notes.iter().any(|note| note.contains("microseconds")),
            "{name}"
        );
    }
    let old = one(&format!(
        "{SYSTEM}60,10,20,16666\n60,10,20,33333\n60,10,20,50000\n"
    ));
    assert_eq!(old.frame_ms.len(), 3);
    assert!((old.coverage.unwrap() - 1.0).abs() < 0.01);
}

#[test]
fn a_sampled_log_says_that_it_is_one() {
    let mut text = format!("{SYSTEM}fps,frametime,elapsed\n");
    for sample in 1..=50_u64 {
        writeln!(text, "240,4.2,{}", sample * 100_000_000).unwrap();
    }
    let run = one(&text);
    let coverage = run.coverage.unwrap();
    assert!(
        (coverage - 0.042).abs() < 0.002 && !run.is_complete(),
        "{coverage}"
    );
}

#[test]
fn a_pause_is_a_gap_and_a_clock_that_goes_back_is_said() {
    let mut text = "fps,frametime,elapsed\n".to_owned();
    for frame in 1..=100_u64 {
        let pause = if frame > 50 { 3_600_000_000_000 } else { 0 };
        writeln!(text, "100,10,{}", frame * 10_000_000 + pause).unwrap();
    }
    let run = one(&text);
    assert!(
        run.notes
            .iter()
            .any(|note| note == "a gap of 3600.0 s at line 52: a pause or suspend, not a frame")
    );
    assert!(run.is_complete());
    let back = one("fps,frametime,elapsed\n100,10,10000000\n100,10,20000000\n100,10,5000000\n");
    assert!(
        back.notes[0].contains("went back 1 times, first at line 4"),
        "{:?}",
        back.notes
    );
}

#[test]
fn towpaths_own_log_and_one_that_starts_again() {
    let text = format!(
        "{SYSTEM}submits per second,frametime,elapsed\n5,1,1\n{SYSTEM}fps,frametime,elapsed\n60.0,16.667,16666667\n60.0,16.667,33333334\n"
    );
    assert_eq!(one(&text).frame_ms, [16.667, 16.667]);
    assert!(
        refuse("submits per second,frametime,elapsed\n5,1,1\n")
            .contains("columns of no known log: submits per second")
    );
    let text = "fps,frametime,elapsed\n100,10,10000000\nfps,frametime,elapsed\n100,10,10000000\n100,10,20000000\n";
    let log = parse(text);
    assert_eq!(log.runs[0].frame_ms.len(), 2);
    assert_eq!(
        log.notes.len(),
        1,
        "the shorter log is left out, and that is said"
    );
}
