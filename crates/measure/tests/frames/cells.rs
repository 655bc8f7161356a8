//! Rows and cells: text, units, what is damaged.

use std::fmt::Write as _;

use towpath_measure::frames::{LogError, ReadOptions, Source, Target, Unit, metrics, read};

use crate::common::{one, parse, refuse};
use crate::mangohud::SYSTEM;
use crate::presentmon::PM1;

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
