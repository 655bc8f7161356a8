//! `towpath frames` as a user calls it.

#![expect(clippy::unwrap_used, reason = "a broken harness must fail")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use towpath_measure::random::Random;

fn towpath(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command
        .current_dir(folder)
        .arg("frames")
        .args(arguments)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Output with all white space as single spaces: lines break where the width says.
fn flat(output: &Output) -> String {
    out(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A MangoHud log around a frame time, with one long frame.
fn log(folder: &Path, name: &str, frame_ms: f64, random: &mut Random) {
    let mut text =
        "os,cpu,gpu,ram,kernel,driver,cpuscheduler\nToy,,,,,,\nfps,frametime,elapsed\n".to_owned();
    let mut now = 0.0;
    for index in 0..600 {
        let long = if index == 300 { 80.0 } else { 0.0 };
        let frame = frame_ms * (1.0 + 0.02 * random.normal().abs()) + long;
        now += frame;
        writeln!(text, "{:.2},{frame:.4},{:.0}", 1e3 / frame, now * 1e6).unwrap();
    }
    std::fs::write(folder.join(name), text).unwrap();
}

#[test]
fn one_log_shows_every_metric_with_its_definition() {
    let folder = tempfile::tempdir().unwrap();
    log(folder.path(), "log.csv", 16.0, &mut Random::new(1));
    let shown = out(&towpath(
        folder.path(),
        &["log.csv", "--over", "50", "--mail"],
    ));
    assert!(
        shown.starts_with("log.csv\n  MangoHud of 600 frames\n"),
        "{shown}"
    );
    assert!(shown.contains("within this run only: fps"), "{shown}");
    for name in [
        "fps ",
        "low-1% ",
        "low-0.1%-time",
        "over-50ms",
        "late-10%",
        "missed",
        "slip",
        "stutter",
        "change",
    ] {
        assert!(shown.contains(&format!("\n  {name}")), "{name}: {shown}");
    }

    assert!(
        shown.lines().all(|line| line.chars().count() <= 74),
        "{shown}"
    );
    let cut = flat(&towpath(
        folder.path(),
        &["log.csv", "--after", "50", "--take", "100"],
    ));
    assert!(
        cut.contains(
            "started after frame 301, the first longer than 50 ms, at most 100 frames kept: 100 of"
        ),
        "{cut}"
    );
    let cut = flat(&towpath(
        folder.path(),
        &["log.csv", "--from", "1", "--to", "2"],
    ));
    assert!(
        cut.contains("cut to 1 s .. 2 s: 6") && cut.contains("of 600 frames remain"),
        "{cut}"
    );
}

#[test]
fn several_logs_per_side_go_through_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(2);
    for index in 0..4 {
        log(folder.path(), &format!("off{index}.csv"), 17.5, &mut random);
        log(folder.path(), &format!("on{index}.csv"), 16.0, &mut random);
    }
    let off = ["off0.csv", "off1.csv", "off2.csv", "off3.csv"];
    let on = ["on0.csv", "on1.csv", "on2.csv", "on3.csv"];
    let better = [
        &off[..],
        &["--vs"],
        &on,
        &["--html", "f.html", "--json", "f.json"],
    ]
    .concat();
    let output = towpath(folder.path(), &better);
    let shown = out(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(
        shown.starts_with("fps: on0.csv and 3 more is better than off0.csv and 3 more: +9."),
        "{shown}"
    );
    assert!(
        shown.contains("definitions:") && shown.contains("4 + 4 runs"),
        "{shown}"
    );
    assert!(
        std::fs::read_to_string(folder.path().join("f.html"))
            .unwrap()
            .contains("Frame times, on0.csv")
    );
    let worse = [&on[..], &["--vs"], &off, &["--primary", "fps"]].concat();
    assert_eq!(towpath(folder.path(), &worse).status.code(), Some(2));
    let one = towpath(folder.path(), &["on0.csv", "--vs", "off0.csv"]);
    assert!(
        out(&one).contains("two runs per arm are the least"),
        "{}",
        out(&one)
    );
}

#[test]
fn a_sampled_log_refuses_percentiles_and_a_strange_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "fps,frametime,elapsed\n".to_owned();
    for sample in 1..=200_u64 {
        writeln!(text, "240,4.2,{}", sample * 100_000_000).unwrap();
    }
    std::fs::write(folder.path().join("sampled.csv"), text).unwrap();
    let shown = flat(&towpath(folder.path(), &["sampled.csv"]));
    assert!(
        shown.contains("cover 4.2 % of the time: a sample"),
        "{shown}"
    );
    assert!(
        shown.contains("low-1% unavailable 1000 / mean of the longest"),
        "{shown}"
    );
    assert!(
        shown.matches("unavailable").count() > 15 && shown.contains("fps 238.1 fps"),
        "{shown}"
    );
    std::fs::write(folder.path().join("other.csv"), "when,what\n").unwrap();
    let refused = towpath(folder.path(), &["other.csv"]);
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        why.contains("cannot use other.csv: line 1, column 1: columns of no known log"),
        "{why}"
    );
}

#[test]
fn logs_of_different_refresh_rates_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    for (name, frame) in [
        ("slow", 16.667),
        ("slow2", 16.667),
        ("fast", 6.944),
        ("fast2", 6.944),
    ] {
        std::fs::write(folder.path().join(name), format!("{frame}\n").repeat(300)).unwrap();
    }
    let mixed = flat(&towpath(
        folder.path(),
        &["slow", "slow2", "--vs", "fast", "fast2"],
    ));
    assert!(
        mixed.contains("held at different rates, 60.0 to 144.0 fps"),
        "{mixed}"
    );
    let alike = flat(&towpath(folder.path(), &["slow", "--vs", "slow2"]));
    assert!(!alike.contains("different rates"), "{alike}");
}

#[test]
fn markers_cut_and_a_cut_that_cannot_be_made_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let text = "frame_ms\n100\n# level 1\n10\n10\n# level 2\n20\n";
    std::fs::write(folder.path().join("log"), text).unwrap();
    let cut = flat(&towpath(
        folder.path(),
        &["log", "--from-marker", "level 1", "--to-marker", "level 2"],
    ));
    assert!(
        cut.contains("from marker `level 1` before frame 2, to marker `level 2` after frame 3: 2 of 4 frames remain")
            && cut.contains("fps 100.0 fps"),
        "{cut}"
    );
    for (arguments, wanted) in [
        (
            &["log", "--from-marker", "boss"][..],
            "the log has 2 markers: `level 1`, `level 2`",
        ),
        (&["log", "--after", "500"], "no frame is longer than 500 ms"),
        (&["log", "--skip", "9"], "no frame of 4 remains"),
    ] {
        let refused = towpath(folder.path(), arguments);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(1) && why.contains(wanted),
            "{why}"
        );
    }
}

/// GALLIUM_HUD_DUMP_DIR holds a file per graph: rates of periods in `fps`, every frame in `frametime_(ms)`.
#[test]
fn averages_have_one_metric_and_the_files_of_mesas_hud_are_known_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fps"), "30\n90\n").unwrap();
    std::fs::write(folder.path().join("frametime_(ms)"), "10\n30\n").unwrap();
    let rates = flat(&towpath(folder.path(), &["fps"]));
    assert!(
        rates.contains("rates of periods of 2 averages")
            && rates.contains("fps 60.00 fps")
            && rates.contains("low-1% unavailable"),
        "{rates}"
    );
    let frames = flat(&towpath(folder.path(), &["frametime_(ms)"]));
    assert!(
        frames.contains("fps 50.00 fps") && !frames.contains("unavailable"),
        "{frames}"
    );
    let refused = towpath(folder.path(), &["fps", "--skip", "1"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr)
            .contains("it holds averages of periods, not frames")
    );
}
