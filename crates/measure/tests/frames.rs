//! Frame logs of every generation, the values of the research note's tables, and bad input.

#![expect(clippy::unwrap_used, reason = "a fixture that does not fit must fail")]

use std::fmt::Write as _;

use towpath_measure::frames::{
    FrameLog, FrameRun, LogError, ReadOptions, Source, Target, Unit, alternates, merge_short,
    metrics, read, sketch,
};

fn parse(text: &str) -> FrameLog {
    read(text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn one(text: &str) -> FrameRun {
    let mut log = parse(text);
    assert_eq!(log.runs.len(), 1, "{log:?}");
    log.runs.remove(0)
}

fn display(text: &str) -> FrameRun {
    let options = ReadOptions {
        source: Source::Display,
        ..ReadOptions::default()
    };
    read(text.as_bytes(), &options).unwrap().runs.remove(0)
}

fn refuse(text: &str) -> String {
    read(text.as_bytes(), &ReadOptions::default())
        .unwrap_err()
        .to_string()
}

/// 95 frames of 16.7 ms, then 20, 25, 30, 40, 100.
fn hundred() -> Vec<f64> {
    let mut frames = vec![16.7; 95];
    frames.extend([20.0, 25.0, 30.0, 40.0, 100.0]);
    frames
}

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

const SYSTEM: &str =
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

const PM1: &str = "\u{feff}Application,ProcessID,SwapChainAddress,Runtime,SyncInterval,PresentFlags,Dropped,TimeInSeconds,msInPresentAPI,msBetweenPresents,AllowsTearing,PresentMode,msUntilRenderComplete,msUntilDisplayed,msBetweenDisplayChange\n";

#[test]
fn presentmon_1_groups_swap_chains_and_counts_drops() {
    let mut text = PM1.to_owned();
    for frame in 0..10 {
        let dropped = i32::from(frame == 3);
        let shown = if frame == 3 { "0" } else { "16.7000" };
        writeln!(
            text,
            "toy.exe,41,0xA10,DXGI,1,0,{dropped},{:.6},0.09,16.7000,0,Flip,-1.5,20.0,{shown}",
            0.0167 * f64::from(frame + 1)
        )
        .unwrap();
        if frame < 4 {
            writeln!(
                text,
                "dwm.exe,9,0xB,DXGI,1,0,0,{:.6},0.09,16.7000,0,Flip,1,20.0,NA",
                0.01
            )
            .unwrap();
        }
    }
    let log = parse(&text);
    assert_eq!(
        (log.kind, log.runs[0].frame_ms.len()),
        ("PresentMon 1.x", 10)
    );
    assert_eq!(log.runs[0].name, "toy.exe 41 0xA10");
    assert_eq!(log.notes, ["left out: dwm.exe 9 0xB with 4 frames"]);
    assert!(
        log.runs[0]
            .notes
            .iter()
            .any(|note| note.starts_with("1 frames were dropped"))
    );
    assert!((log.runs[0].coverage.unwrap() - 1.0).abs() < 0.01);
    assert_eq!(log.rejected.count, 0);
    let shown = display(&text);
    assert_eq!(shown.frame_ms.len(), 9);
    assert!(
        shown
            .notes
            .iter()
            .any(|note| note.starts_with("1 frames were never shown"))
    );
}

#[test]
fn presentmon_2_and_2_3_1() {
    let v2 = "Application,ProcessID,SwapChainAddress,PresentRuntime,SyncInterval,PresentFlags,AllowsTearing,PresentMode,CPUStartTime,FrameTime,CPUBusy,CPUWait,GPULatency,GPUTime,GPUBusy,GPUWait,DisplayLatency,DisplayedTime,AnimationError,AnimationTime,MsFlipDelay,AllInputToPhotonLatency,ClickToPhotonLatency\n";
    let row = "toy.exe,41,0xA10,DXGI,1,0,0,Hardware: Independent Flip,16.7,16.7,9.0,7.7,0.5,8.0,7.5,0.5,25.1,NA,0.0,16.7,NA,NA,NA\n";
    let log = parse(&format!("{v2}{row}{row}"));
    assert_eq!(
        (log.kind, &log.runs[0].frame_ms[..]),
        ("PresentMon 2.x", &[16.7, 16.7][..])
    );
    let v231 = "Application,ProcessID,SwapChainAddress,PresentRuntime,SyncInterval,PresentFlags,AllowsTearing,PresentMode,TimeInSeconds,MsBetweenSimulationStart,MsBetweenPresents,MsBetweenDisplayChange,MsInPresentAPI,MsRenderPresentLatency,MsUntilDisplayed,CPUStartTimeInMs,MsBetweenAppStart,MsCPUBusy\n";
    let row = "toy.exe,41,0xA10,DXGI,1,0,0,Flip,0.1,NA,16.9,8.4,0.1,1,20,100,16.7,9\n";
    let log = parse(&format!("{v231}{row}"));
    assert_eq!(
        (log.kind, &log.runs[0].frame_ms[..]),
        ("PresentMon 2.3.1 or later", &[16.9][..])
    );
    assert_eq!(display(&format!("{v231}{row}")).frame_ms, [8.4]);
}

/// MSI Afterburner polls once a second: rates of periods, from which only an average follows.
#[test]
fn afterburner_polls_give_an_average_and_no_frames() {
    let text = "00, 19-09-2026 14:00:00, Hardware monitoring log v1.6 \r\n\
        01, 19-09-2026 14:00:00, Toy GPU\r\n\
        02, 19-09-2026 14:00:00, Power               ,Framerate           ,Frametime           \r\n\
        03, 19-09-2026 14:00:00,0,,,300,10,  ,  ,%.1f  \r\n\
        80, 19-09-2026 14:00:01, 137.1, 30.0, 33.3\r\n\
        80, 19-09-2026 14:00:02, 137.1, 90.0, 11.1\r\n\
        80, 19-09-2026 14:00:03, 137.1, N/A, N/A\r\n\
        80, 19-09-2026 14:00:04, 137.1\r\n\
        0, 19-09-2026 15:00:00, Hardware monitoring log v1.6\r\n\
        2, 19-09-2026 15:00:00, Frametime\r\n\
        80, 19-09-2026 15:00:01, 20.0\r\n";
    let log = parse(text);
    assert_eq!((log.kind, log.runs.len()), ("MSI Afterburner", 2));
    // 120 frames in two seconds: 60, not the 45 of the harmonic mean.
    assert!((log.runs[0].average_fps().unwrap() - 60.0).abs() < 1e-9);
    assert!(log.runs[0].frame_ms.is_empty() && !log.runs[0].is_complete());
    assert!((log.runs[1].average_fps().unwrap() - 50.0).abs() < 1e-9);
    assert!(log.runs[1].notes[0].contains("rough average"));
    let rejected: Vec<String> = log
        .rejected
        .first
        .iter()
        .map(|row| format!("{}:{} {}", row.line, row.column, row.why))
        .collect();
    assert_eq!(
        rejected,
        [
            "7:4 Framerate is `N/A`",
            "8:3 the row ends before Framerate"
        ]
    );
    let copy = one("02, 19-09-2026 14:00:00, Framerate\n80, 19-09-2026 14:00:01, 59.5\n");
    assert_eq!(copy.periods.len(), 1);
    assert!(
        refuse("0, x, Hardware monitoring log v1.6\n2, x, Power, GPU usage\n80, x, 1, 2\n")
            .starts_with(
                "line 2, column 3: neither Framerate nor Frametime among: Power, GPU usage"
            )
    );
}

#[test]
fn mesas_overlay_and_hud_give_averages() {
    let log = parse(
        "fps, frame_timing(us)\n100.00, 500000\n50.00, 1500000\nx, 500000\nfps, frame_timing(us)\n50, -1\n",
    );
    assert_eq!((log.kind, log.runs[0].periods.len()), ("Mesa overlay", 2));
    // 50 frames in 0.5 s and 75 in 1.5 s.
    assert!((log.runs[0].average_fps().unwrap() - 62.5).abs() < 1e-9);
    assert_eq!((log.rejected.count, log.rejected.first[0].line), (2, 4));
    let options = ReadOptions {
        unit: Unit::PeriodFps,
        ..ReadOptions::default()
    };
    let hud = read(&b"30\n90\n"[..], &options).unwrap();
    assert!((hud.runs[0].average_fps().unwrap() - 60.0).abs() < 1e-9);
    assert_eq!(
        (hud.kind, one("16.7\n").periods.len()),
        ("rates of periods", 0)
    );
}

#[test]
fn frameview_and_capframex_for_linux_are_known() {
    let text = "Application,GPU,CPU,Resolution,Runtime,AllowsTearing,ProcessID,SwapChainAddress,SyncInterval,PresentFlags,PresentMode,Dropped,TimeInSeconds,MsBetweenPresents,MsBetweenDisplayChange,MsInPresentAPI,MsRenderPresentLatency,MsUntilDisplayed,Render Queue Depth,MsPCLatency,GPU0Clk(MHz),GPU0Util(%)\n\
        toy.exe,Toy,ToyCPU,2560x1440,DXGI,1,41,0xA10,0,512,Flip,0,0.0167,16.7,16.6,0.1,10,20,1,NA,1900,97\n";
    let log = parse(text);
    assert_eq!(
        (log.kind, &log.runs[0].frame_ms[..]),
        ("FrameView", &[16.7][..])
    );
    assert_eq!(display(text).frame_ms, [16.6]);
    assert!(
        refuse("Timestamp,Application,Log Name,Avg FPS,1% Low FPS\nx,y,z,1,2\n")
            .contains("a summary, not a log")
    );
    let linux = parse(
        "MsBetweenPresents,MsUntilRenderComplete,MsUntilDisplayed,MsActualPresent\n16.7,0.00,0.00,0.00\n",
    );
    assert_eq!(
        (linux.kind, &linux.runs[0].frame_ms[..]),
        ("CapFrameX for Linux", &[16.7][..])
    );
    let own = parse(
        "//GameName=toy\n//Comment=x, y\nTimeInSeconds,MsBetweenPresents,Dropped\n0.0167,16.7,0\n",
    );
    assert_eq!(own.runs[0].frame_ms, [16.7]);
}

/// Older files write NaN as text, count drops as true, and may hold only what RTSS saw.
#[test]
fn capframex_of_other_versions() {
    let text = r#"{"Runs":[{"CaptureData":{"MsBetweenPresents":[16.7,"NaN",17,null],"Dropped":[false,true,0,1],
        "MsBetweenDisplayChange":["NaN",33.4,0,16.7]}},
        {"CaptureData":{"MsBetweenPresents":[]},"RTSSFrameTimes":[10,20]}]}"#;
    let log = parse(text);
    assert_eq!(log.runs[0].frame_ms, [16.7, 17.0]);
    assert_eq!(log.rejected.count, 2);
    assert!(
        log.runs[0]
            .notes
            .iter()
            .any(|note| note.starts_with("2 frames were dropped"))
    );
    assert_eq!(log.runs[1].frame_ms, [10.0, 20.0]);
    assert!(log.runs[1].notes[0].contains("RTSS"));
    assert_eq!(display(text).frame_ms, [33.4, 16.7]);
    for strange in [
        "{\"Runs\":null}",
        "{\"Runs\":[{\"CaptureData\":{\"MsBetweenPresents\":[[1]]}}]}",
    ] {
        assert!(
            refuse(strange).contains("JSON, but no CapFrameX record"),
            "{strange}"
        );
    }
}

/// PowerShell's `>` writes UTF-16; archives are named, not read as garbage.
#[test]
fn utf_16_is_read_and_archives_are_refused() {
    let text = "\u{feff}fps,frametime,elapsed\r\n100,10,10000000\r\n100,10,20000000\r\n";
    let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let log = read(&units[..], &ReadOptions::default()).unwrap();
    assert_eq!((log.kind, log.runs[0].frame_ms.len()), ("MangoHud", 2));
    let gzip = read(&b"\x1f\x8b\x08\x00\x00"[..], &ReadOptions::default());
    assert!(
        gzip.unwrap_err()
            .to_string()
            .starts_with("line 1, column 1: compressed by gzip")
    );
}

#[test]
fn lines_of_text_among_the_rows_are_markers() {
    let run = one("# start\nframe_ms,time_s\n10,1\n# level 1\n10,2\n// level 2\n10,3\n");
    let markers: Vec<(usize, &str)> = run
        .markers
        .iter()
        .map(|marker| (marker.frame, marker.text.as_str()))
        .collect();
    assert_eq!(markers, [(1, "level 1"), (2, "level 2")]);
}

#[test]
fn ocat_rows_are_ragged_and_quoted() {
    let text = "Application,ProcessID,SwapChainAddress,Runtime,WasBatched,Dropped,TimeInSeconds,MsBetweenPresents,MsUntilDisplayed,Motherboard,OS,Processor,System RAM\n\
        toy.exe,41,0x1,DXGI,0,0,0.0167,16.7,24.0,\"Toy, Inc. B1\",\"ToyOS\",\"ToyCPU\",\"16 GB, 3200\"\n\
        toy.exe,41,0x1,DXGI,0,0,0.0334,16.7,24.1\n";
    let log = parse(text);
    assert_eq!(
        (log.kind, log.runs[0].frame_ms.len(), log.rejected.count),
        ("OCAT", 2, 0)
    );
}

#[test]
fn capframex_keeps_runs_apart() {
    let text = r#"{"Hash":"x","Info":{"GameName":"toy"},"Runs":[
        {"CaptureData":{"TimeInSeconds":[0,0.0167],"MsBetweenPresents":[16.7,16.7],"Dropped":[0,1]}},
        {"CaptureData":{"MsBetweenPresents":[10,null,0,20],"MsBetweenDisplayChange":null}},
        {"CaptureData":null}]}"#;
    let log = parse(text);
    assert_eq!(log.runs.len(), 3);
    assert_eq!(
        (log.runs[0].name.as_str(), log.runs[1].frame_ms.as_slice()),
        ("toy run 1", &[10.0, 20.0][..])
    );
    assert_eq!(log.rejected.count, 2);
    assert!(refuse("{\"Runs\":").starts_with("line 1, column 8: JSON, but no CapFrameX record"));
}

#[test]
fn plain_columns_in_any_unit() {
    assert_eq!(one("16.7\n16.8\r\n\n16.9").frame_ms, [16.7, 16.8, 16.9]);
    assert_eq!(one("16,67;1\n16,70;2\n").frame_ms, [16.67, 16.7]);
    let with = |text: &str, column, unit| {
        let options = ReadOptions {
            column,
            unit,
            ..ReadOptions::default()
        };
        read(text.as_bytes(), &options)
            .unwrap()
            .runs
            .remove(0)
            .frame_ms
    };
    assert_eq!(with("1 16700\n2 16800\n", 2, Unit::Micros), [16.7, 16.8]);
    assert_eq!(with("a,0.02\n", 2, Unit::Seconds), [20.0]);
    assert_eq!(with("50\n", 1, Unit::Fps), [20.0]);
}

/// `1e-320` frames per second are an infinite frame time, `1e308` s an infinite number of milliseconds,
/// `1e-323` us none: what was finite in the log must stay so in every unit.
#[test]
fn cells_that_no_unit_can_hold_are_left_out() {
    for unit in [Unit::Millis, Unit::Micros, Unit::Seconds, Unit::Fps] {
        let options = ReadOptions {
            unit,
            ..ReadOptions::default()
        };
        let log = read(&b"1e-320\n1e308\n1e-323\n1.7e308\n20\n"[..], &options).unwrap();
        assert_eq!((log.runs[0].frame_ms.len(), log.rejected.count), (1, 4));
    }
    let log = parse("fps,frametime,elapsed\n1e-320,10,-1.7e308\n100,1e308,1.7e308\n100,10,1\n");
    assert_eq!(log.runs[0].frame_ms, [10.0, 10.0]);
    assert!(log.runs[0].coverage.is_none_or(f64::is_finite));
}

#[test]
fn processes_keep_their_rows_however_they_alternate() {
    let mut text = "Application,ProcessID,SwapChainAddress,msBetweenPresents\n".to_owned();
    for row in 0..60 {
        writeln!(text, "game,{},0x1,{}", row % 3, 1 + row % 3).unwrap();
    }
    let log = parse(&text);
    assert_eq!(log.runs[0].frame_ms, [3.0; 20]);
    assert_eq!(log.notes.len(), 2);
}

#[test]
fn one_bad_cell_costs_its_row_and_nothing_shifts() {
    let log = parse(
        "fps,frametime,elapsed\n100,10,1\n100,x,2\n100,0,3\n100\n100,nan,4\n100,-5,5\n100,30,6\n100,4",
    );
    assert_eq!(log.runs[0].frame_ms, [10.0, 30.0]);
    assert_eq!(log.rejected.count, 6);
    let first: Vec<String> = log
        .rejected
        .first
        .iter()
        .map(|row| format!("{}:{} {}", row.line, row.column, row.why))
        .collect();
    assert_eq!(first[0], "3:2 frametime is `x`");
    assert_eq!(first[1], "4:2 frametime is `0`");
    assert!(
        log.rejected
            .summary()
            .unwrap()
            .starts_with("6 values or rows were left out, first at line 3")
    );
    let twice = one("fps,frametime,frametime,elapsed\n100,10,99,1\n100,10,99,2\n");
    assert!(
        twice
            .notes
            .iter()
            .any(|note| note.contains("appears twice"))
    );
    assert_eq!(twice.frame_ms, [10.0, 10.0]);
}

/// mangoplot (MangoHud#1362) skipped the first row, deleted rates over 1000 fps and refused short logs.
#[test]
fn no_row_is_skipped_or_deleted_and_short_logs_are_read() {
    let run = one("fps,frametime,elapsed\n90.9,11,11000000\n45.45,22,33000000\n30.3,33,66000000\n");
    assert_eq!(run.frame_ms, [11.0, 22.0, 33.0]);
    let fast = one("fps,frametime,elapsed\n4000,0.25,250000\n100,10,10250000\n");
    assert_eq!(fast.frame_ms, [0.25, 10.0]);
    let huge = one("10\n1e9\n10\n");
    assert_eq!(
        huge.frame_ms,
        [10.0, 1e9, 10.0],
        "a huge value is kept, not filtered"
    );
    assert_eq!(one("16.7\n").frame_ms.len(), 1);
}

/// A reader that fails.
struct Broken;
impl std::io::Read for Broken {
    fn read(&mut self, _out: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("gone"))
    }
}

#[test]
fn what_is_no_log_is_refused_with_what_was_found() {
    assert_eq!(
        refuse(""),
        "line 1, column 1: nothing that looks like a frame log"
    );
    assert_eq!(
        refuse("fps,frametime,elapsed\n"),
        "there is no frame in it (0 rows were left out)"
    );
    assert!(
        refuse("0.1% Min FPS,1% Min FPS,97% Percentile FPS,Average FPS\n1,2,3,4\n")
            .contains("a summary, not a log")
    );
    assert!(refuse("when,what\nnow,this\n").contains("columns of no known log: when, what"));
    assert!(matches!(
        read(Broken, &ReadOptions::default()),
        Err(LogError::Read { .. })
    ));
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

#[test]
fn no_reader_falls_over_damaged_bytes() {
    let seeds = [
        format!("{SYSTEM}fps,frametime,elapsed\n100,10,10000000\n100,10,20000000\n"),
        format!("{PM1}toy.exe,41,0xA10,DXGI,1,0,0,0.1,0.09,16.7,0,Flip,-1.5,20.0,16.7\n"),
        "{\"Runs\":[{\"CaptureData\":{\"TimeInSeconds\":[0,1],\"MsBetweenPresents\":[1,2]}}]}"
            .to_owned(),
        "16,7;x\n\"a\";3\n".to_owned(),
        "0, x, Hardware monitoring log v1.6\n2, x, Framerate\n80, x, 60\n80, x, N/A\n".to_owned(),
        "fps, frame_timing(us)\n100.00, 500000\n50.00, 1500000\n".to_owned(),
    ];
    let mut random = towpath_measure::random::Random::new(10);
    for seed in seeds {
        for _ in 0..3_000 {
            let mut bytes = seed.clone().into_bytes();
            for _ in 0..=random.below(5) {
                let place = random.below(bytes.len());
                bytes[place] = random.next_u64().to_le_bytes()[0];
            }
            bytes.truncate(1 + random.below(bytes.len()));
            for source in [Source::Present, Source::Display] {
                let options = ReadOptions {
                    source,
                    ..ReadOptions::default()
                };
                if let Ok(log) = read(&bytes[..], &options) {
                    for run in log.runs {
                        assert!(
                            run.frame_ms
                                .iter()
                                .all(|frame| frame.is_finite() && *frame > 0.0)
                        );
                        assert!(
                            metrics::evaluate(&run.frame_ms, &Target::default())
                                .iter()
                                .all(|metric| !metric.name.is_empty())
                        );
                    }
                }
            }
        }
    }
}

/// `16,634` is a number where commas are decimal points; taken for two columns each frame lost its fraction.
#[test]
fn a_plain_column_may_have_decimal_commas() {
    for text in ["16,5\n17,25\n", "16,5\r\n17,25\r\n", "16,5\n17,25"] {
        let log = parse(text);
        assert_eq!(log.runs[0].frame_ms, [16.5, 17.25], "{text:?}");
        let notes = &log.runs[0].notes;
        assert!(
            notes.iter().any(|note| note.contains("--column 2")),
            "{notes:?}"
        );
    }
    // A point, a blank or a second comma says that commas part columns; so does a column that was asked for.
    for text in ["16,1.5\n17,1.5\n", "16, 5\n17, 5\n", "16,5,1\n17,5,1\n"] {
        assert_eq!(parse(text).runs[0].frame_ms, [16.0, 17.0], "{text:?}");
    }
    let second = ReadOptions {
        column: 2,
        ..ReadOptions::default()
    };
    let log = read("1,16\n2,17\n".as_bytes(), &second).unwrap();
    assert_eq!(log.runs[0].frame_ms, [16.0, 17.0]);
}
