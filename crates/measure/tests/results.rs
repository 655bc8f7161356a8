//! Readers of other programs' results: the small inputs of the research note, and bad ones.

#![expect(clippy::unwrap_used, reason = "a fixture that does not fit must fail")]

use towpath_measure::judge::Direction;
use towpath_measure::results::{Columns, ReadError, Results, read};

fn parse(text: &str) -> Results {
    read(text.as_bytes(), &Columns::default()).unwrap()
}

fn refuse(text: &str) -> String {
    read(text.as_bytes(), &Columns::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn numbers_with_bom_crlf_comments_and_decimal_commas() {
    let found = parse("\u{feff}# made by hand\r\n1.5\r\n\r\n2,5 # cold\r\n3e0\r\n");
    assert_eq!(found.series[0].values, [1.5, 2.5, 3.0]);
    let columns = Columns {
        column: 2,
        ..Columns::default()
    };
    let found = read(b"run1 101.5 # cold\nrun2\t99.0\n", &columns).unwrap();
    assert_eq!(found.series[0].values, [101.5, 99.0]);
    let found = read(b"a;16,67\nb;16,70\n", &columns).unwrap();
    assert_eq!(found.series[0].values, [16.67, 16.7]);
}

/// Squares of larger values are no numbers, and a judgement of them would be NaN.
#[test]
fn values_that_cannot_be_judged_are_left_out_by_every_reader() {
    let inputs = [
        "1e200\n5\n",
        "[build] a: FPS: inf FrameTime: inf ms\n[build] a: FPS: 5 FrameTime: 5 ms\nglmark2 Score: nan\n",
        "1 frames in 1.0 seconds = 1e300 FPS\n5 frames in 1.0 seconds = 5.000 FPS\n",
        "@RESULT: fill = 1e300 mpixels_sec\n@RESULT: fill = 5 mpixels_sec\n",
        "1e300,,cycles,1,100.00,,\n5,,cycles,1,100.00,,\n",
        "{\"iters\":[1e-200,1],\"times\":[1e100,5e9]}",
        "{\"results\":[{\"command\":\"x\",\"times\":[1e300,5]}]}",
    ];
    for input in inputs {
        let found = parse(input);
        let values = found.series.iter().flat_map(|series| &series.values);
        assert_eq!(values.copied().collect::<Vec<_>>(), [5.0], "{input}");
    }
}

#[test]
fn bad_numbers_are_counted_with_their_place() {
    let found = parse("1\nnan\ninf\nx\n2\n");
    assert_eq!(found.series[0].values, [1.0, 2.0]);
    assert_eq!(found.rejected.count, 3);
    assert_eq!(
        found.rejected.summary().unwrap(),
        "3 values or rows were left out, first at line 2, column 1: `nan` is not finite"
    );
    assert_eq!(
        refuse("hello\n"),
        "line 1, column 1: `hello` is not a number"
    );
    assert_eq!(read(b"", &Columns::default()), Err(ReadError::Empty));
    assert_eq!(
        read(b"# only\n", &Columns::default()),
        Err(ReadError::Empty)
    );
}

#[test]
fn hyperfine_gives_raw_times_and_leaves_failed_runs_out() {
    let found = parse(
        r#"{"results":[{"command":"toy a","mean":0.20,"stddev":null,"median":0.20,"user":0.1,
        "system":0.05,"min":0.20,"max":0.20,"times":[0.20,0.21,0.5],"exit_codes":[0,null,1]}]}"#,
    );
    assert_eq!(
        (found.kind, &found.series[0].values[..]),
        ("hyperfine JSON", &[0.2, 0.21][..])
    );
    assert_eq!(
        found.rejected.first[0].why,
        "run 3 of `toy a` ended with code 1"
    );
    let only_means = r#"{"results":[{"command":"toy","mean":0.2}]}"#;
    assert!(refuse(only_means).contains("only averages"));
    assert!(refuse("{\"results\":[{").contains("breaks off"));
    assert!(refuse("{\"other\":1}").contains("no known kind (its keys: other)"));
}

#[test]
fn criterion_in_both_forms() {
    let found = parse(r#"{"sampling_mode":"Flat","iters":[10.0,20.0],"times":[1000.0,2200.0]}"#);
    assert!(
        found.series[0]
            .values
            .iter()
            .zip([1e-7, 1.1e-7])
            .all(|(v, w)| (v - w).abs() < 1e-18)
    );
    let found = parse(
        "group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count\n\
         g,f,,,,1000.0,ns,10\ng,f,,,,x,ns,10\nshort\n",
    );
    assert_eq!(
        (found.series[0].metric.as_str(), found.rejected.count),
        ("g/f", 2)
    );
}

#[test]
fn perf_stat_marks_what_it_could_not_count() {
    let found = parse(
        "0.55;msec;task-clock;8.20%;545842;100.00;0.625;CPUs utilized\n\
         <not supported>;;cycles;0.00%;0;100.00;;\n\
         12;;page-faults;0.00%;545842;40.00;;\n",
    );
    let names: Vec<&str> = found
        .series
        .iter()
        .map(|series| series.metric.as_str())
        .collect();
    assert_eq!(names, ["task-clock", "cycles", "page-faults"]);
    assert!((found.series[0].values[0] - 0.000_55).abs() < 1e-12);
    assert!(found.series[1].values.is_empty());
    assert_eq!(found.series[1].notes, ["unavailable: <not supported>"]);
    assert_eq!(
        found.series[2].notes,
        ["an estimate: the counter ran 40 % of the time"]
    );
    let found =
        parse("# started\n\n1.0,msec,task-clock,1000,100.00,0.6,CPUs utilized\n,,,,,0.1,stalled\n");
    assert_eq!(found.series.len(), 1);
    let found = parse(
        "{\"counter-value\" : \"2.0\", \"unit\" : \"msec\", \"event\" : \"task-clock\"}\n{\"counter-value\" : \"7\", \"unit\" : \"\", \"event\" : \"page-faults\"}\n",
    );
    assert_eq!(found.series[1].values, [7.0]);
}

#[test]
fn gears_lines_are_repeats_of_one_run() {
    let found = parse(
        "Running synchronized to the vertical refresh.\n35791 frames in 5.0 seconds = 7158.232 FPS\n\
         300 frames in 5.0 seconds = 60 FPS (3% usage)\n",
    );
    let fps = &found.series[0];
    assert_eq!(
        (&fps.values[..], fps.better, fps.are_repeats),
        (&[7158.232, 60.0][..], Direction::Higher, true)
    );
}

#[test]
fn glmark2_gives_frame_times_and_vkmark_whole_frames() {
    let found = parse(
        "    glmark2 2023.01\n[toy] mode=a: FPS: 250 FrameTime: 3.996 ms\n glmark2 Score: 250\n",
    );
    assert_eq!(
        (
            found.kind,
            found.series[0].values[0],
            found.series[0].unit.as_str()
        ),
        ("glmark2", 3.996, "ms")
    );
    assert_eq!(found.series[1].metric, "score");
    let found =
        parse("    vkmark 2017.08\n[vertex] device-local=true: FPS: 60 FrameTime: 16.667 ms\n");
    assert_eq!(
        (
            found.kind,
            found.series[0].values[0],
            found.series[0].better
        ),
        ("vkmark", 60.0, Direction::Higher)
    );
}

#[test]
fn glbench_errors_are_no_scores() {
    let found = parse(
        "@RESULT: texture_upload_rgba_teximage2d_32 = 697.376 mtexel_sec [none]\n\
         @RESULT: broken = -1.0 us [glerror=0x502]\n@RESULT: swap = 12.5 us [none]\n@TEST_END\n",
    );
    assert_eq!(found.series.len(), 2);
    assert_eq!(
        (found.series[0].better, found.series[1].better),
        (Direction::Higher, Direction::Lower)
    );
    assert_eq!(found.rejected.first[0].why, "broken: -1.0 is no score");
    assert!(found.series[0].notes.is_empty());
    let cut = parse("@RESULT: swap = 12.5 us [none]\n");
    assert!(cut.series[0].notes[0].contains("did not finish"));
}

#[test]
fn no_reader_falls_over_damaged_bytes() {
    let seeds: [&[u8]; 6] = [
        b"{\"results\":[{\"command\":\"a\",\"times\":[0.1]}]}",
        b"0.55;msec;task-clock;8.20%;545842;100.00;0.625;CPUs utilized\n",
        b"@RESULT: a = 1 us [none]\n@TEST_END\n",
        b"[toy] a=b: FPS: 250 FrameTime: 3.996 ms\n",
        b"300 frames in 5.0 seconds = 60 FPS\n",
        b"group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count\ng,f,,,,1,ns,1\n",
    ];
    let mut random = towpath_measure::random::Random::new(8);
    for seed in seeds {
        for _ in 0..2_000 {
            let mut bytes = seed.to_vec();
            for _ in 0..=random.below(4) {
                let place = random.below(bytes.len());
                bytes[place] = random.next_u64().to_le_bytes()[0];
            }
            bytes.truncate(1 + random.below(bytes.len()));
            if let Ok(found) = read(&bytes, &Columns::default()) {
                assert!(
                    found
                        .series
                        .iter()
                        .flat_map(|series| &series.values)
                        .all(|value| value.is_finite())
                );
            }
        }
    }
}
