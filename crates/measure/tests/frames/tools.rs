//! Logs of other tools.

use towpath_measure::frames::{ReadOptions, Unit, read};

use crate::common::{display, one, parse, refuse};

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
