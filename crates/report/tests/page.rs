//! The HTML report in a real browser: nothing is wider than the window, light and dark have their colours.

#![expect(
    clippy::unwrap_used,
    reason = "tests; helpers stand outside of test functions"
)]

use std::path::Path;
use std::process::Command;

use towpath_measure::Arm;
use towpath_measure::judge::Direction;
use towpath_needs::{Need, can_run};
use towpath_report::result::{FrameLine, SCHEMA_AB};
use towpath_report::{Metric, ResultFile, Run, html};

/// A result with everything that a page can show: long labels, frames, disk reads, a third arm.
fn full() -> ResultFile {
    let mut file = ResultFile::new(SCHEMA_AB, &"a-program-with-a-long-name/".repeat(8));
    file.metrics = vec![
        Metric::new("wall", "s", Direction::Lower, "from start to end"),
        Metric::new("bytes-written-by-the-program", "MiB", Direction::Lower, ""),
    ];
    file.design.primary = Some("wall".to_owned());
    "A_RATHER_LONG_VARIABLE=with-a-long-value".clone_into(&mut file.b.label);
    "third".clone_into(&mut file.c.label);
    for pair in 0..8_u32 {
        for (arm, base) in [(Arm::A, 2.0), (Arm::B, 1.9), (Arm::C, 1.8)] {
            let mut run = Run::new(arm, pair as usize);
            run.read("wall", base + 0.01 * f64::from(pair % 3));
            run.read("bytes-written-by-the-program", 1234.5678);
            run.frames = Some(FrameLine {
                frames: 900,
                slice_s: 0.1,
                slices: (0..150)
                    .map(|i| (16.0, if i == 70 { 90.0 } else { 17.0 }))
                    .collect(),
                ladder: (0..=100)
                    .map(|i| (f64::from(i) / 100.0, 16.0 + f64::from(i)))
                    .collect(),
            });
            run.disk_reads = vec![(1.0, 0.1), (9.0, 27.0)];
            file.runs.push(run);
        }
    }
    file.notes.push("x".repeat(300));
    file.judge().unwrap();
    file
}

/// The title that a script of ours gives the page: what it measured in the window.
fn measured(folder: &Path, page: &str, width: u32, dark: bool) -> String {
    // The report forbids scripts: this copy does not.
    let start = page
        .find("<meta http-equiv=\"Content-Security-Policy\"")
        .unwrap();
    let end = start + page[start..].find('>').unwrap() + 1;
    let script = "<script>document.title = 'seen:' + document.documentElement.scrollWidth + ':' + innerWidth + ':' + \
        getComputedStyle(document.body).backgroundColor + ':' + document.querySelectorAll('svg').length + ':end';</script>";
    let page = format!("{}{}", &page[..start], &page[end..])
        .replace("</body>", &format!("{script}</body>"));
    let path = folder.join("page.html");
    std::fs::write(&path, page).unwrap();
    let scheme = u8::from(!dark);
    let output = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("--window-size={width},900"))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = dom
        .split("seen:")
        .nth(1)
        .and_then(|rest| rest.split(":end").next());
    seen.map_or_else(|| format!("{output:?}"), str::to_owned)
}

#[test]
fn nothing_is_wider_than_the_window_and_the_colours_follow_the_reader() {
    if !can_run(&[Need::Chromium]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let judged = full();
    let mut described = full();
    described.design.is_described = true;
    described.judge().unwrap();
    for file in [judged, described] {
        let page = html::render(&file);
        for (width, dark) in [(1200, false), (400, true)] {
            let seen = measured(folder.path(), &page, width, dark);
            let parts: Vec<&str> = seen.split(':').collect();
            let [scroll, inner, colour, pictures] = parts[..] else {
                panic!("{seen}");
            };
            let number = |text: &str| text.parse::<u32>().unwrap();
            assert!(number(scroll) <= number(inner), "{seen}");
            let wanted = if dark {
                "rgb(22, 24, 26)"
            } else {
                "rgb(255, 255, 255)"
            };
            assert_eq!(colour, wanted, "{seen}");
            assert!(number(pictures) >= 13, "{seen}");
        }
    }
}
