//! Programs that other tests start: ignored tests of this program, started by name.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use towpath_ledger::{Call, HostPath, Outcome, SiteKey, Stack, Writer};
use towpath_measure::Nanos;
use towpath_settings::{Fix, Settings};

fn writer() -> Writer {
    let (settings, _) = Settings::from_environment();
    Writer::create(&settings.ledger.unwrap(), "opencl-layer", settings.fix).unwrap()
}

fn record(writer: &Writer) {
    let key = SiteKey {
        path: HostPath::Readback,
        call: "clEnqueueReadBuffer",
        device: "a device",
        stack: Stack::capture(0),
    };
    let call = Call {
        bytes: 8 << 20,
        wall: Nanos::from_millis(50),
        faults: 2048,
        cold_bytes: 8 << 20,
        outcome: Outcome::Off,
        ..Call::default()
    };
    writer.record(writer.site(&key), &call);
}

#[test]
#[ignore = "a program for other tests"]
fn plays_one_read() {
    record(&writer());
}

#[test]
#[ignore = "a program for other tests"]
fn plays_one_read_and_is_killed() {
    record(&writer());
    super::common::kill("KILL", &std::process::id().to_string());
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_closes_its_descriptors() {
    let writer = writer();
    Command::new("true").status().unwrap();
    for fd in 0..256 {
        // Whatever is open goes, as daemons do it.
        let path = format!("/proc/self/fd/{fd}");
        if Path::new(&path).exists() {
            close(fd);
        }
    }
    record(&writer);
    std::process::exit(9);
}

fn close(fd: i32) {
    // SAFETY: the process ends right after; nobody uses a descriptor again.
    drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) });
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_leaves_a_damaged_ledger() {
    record(&writer());
    let (settings, _) = Settings::from_environment();
    let folder = settings.ledger.unwrap();
    fs::write(folder.join("1-cut.ledger"), "TOWPLEDG").unwrap();
    let mut other = b"TOWPLEDG".to_vec();
    other.extend_from_slice(&77_u32.to_le_bytes());
    fs::write(folder.join("2-later.ledger"), other).unwrap();
    let whole = fs::read_dir(&folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .max_by_key(|p| fs::metadata(p).unwrap().len());
    let bytes = fs::read(whole.unwrap()).unwrap();
    fs::write(folder.join("3-short.ledger"), &bytes[..9000]).unwrap();
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_waits_for_a_fix() {
    let writer = writer();
    println!("ready {}", std::process::id());
    let start = Instant::now();
    while !writer.fixes().mode(Fix::Upload).is_on() {
        if start.elapsed() > Duration::from_secs(30) {
            std::process::exit(3);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::process::exit(if writer.fixes().mode(Fix::Waits).is_on() {
        4
    } else {
        42
    });
}

/// Uses OpenCL as far as loading its layers.
fn ask_for_platforms() -> u32 {
    type GetPlatforms = unsafe extern "C" fn(u32, *mut *mut std::ffi::c_void, *mut u32) -> i32;
    // SAFETY: the loader's constructors do nothing that this program could break.
    let library = unsafe { libloading::Library::new("libOpenCL.so.1") }.unwrap();
    // SAFETY: the type is that of OpenCL's header.
    let get = unsafe { library.get::<GetPlatforms>(b"clGetPlatformIDs") }.unwrap();
    let mut count = 0;
    // SAFETY: no platforms are asked for, only their number, which goes to a local.
    let answer = unsafe { get(0, std::ptr::null_mut(), &raw mut count) };
    assert_eq!(answer, 0);
    // Drivers have threads that outlive a library that is closed.
    let _kept = std::mem::ManuallyDrop::new(library);
    count
}

#[test]
#[ignore = "a program for other tests"]
fn plays_a_program_that_uses_opencl_and_starts_another() {
    assert!(ask_for_platforms() > 0);
    Command::new("sh")
        .args(["-c", "echo layers=$OPENCL_LAYERS"])
        .status()
        .unwrap();
    // Long enough to be looked at from outside.
    std::thread::sleep(Duration::from_millis(300));
}
