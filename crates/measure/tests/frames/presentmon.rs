//! PresentMon's logs.

use std::fmt::Write as _;

use crate::common::{display, parse};

pub(crate) const PM1: &str = "\u{feff}Application,ProcessID,SwapChainAddress,Runtime,SyncInterval,PresentFlags,Dropped,TimeInSeconds,msInPresentAPI,msBetweenPresents,AllowsTearing,PresentMode,msUntilRenderComplete,msUntilDisplayed,msBetweenDisplayChange\n";

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
