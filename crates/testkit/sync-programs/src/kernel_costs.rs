//! Counts what the kernel allocates for one call, by its own trace events.
//!
//! `kernel-costs NODE [BUFFER_KB]` prints `CALL OBJECTS ALLOCATIONS BYTES` per line, means of 100 calls, of 20
//! where a request has 64 objects or more.
//! A window of which the kernel lost an event is an error: what is printed was counted whole. The
//! buffer's size is an argument so that a test can make it too small.
#![expect(clippy::print_stdout, reason = "a test program reports on its output")]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use rustix::mount::{MountFlags, mount};
use towpath_sync::local::{self, Object};
use towpath_sync::{Deadline, Entry, WaitFor};
use towpath_sys::drm::{self, SyncobjCreate, calls};

const TRACING: &str = "/tmp-tracing";
const CALLS: u32 = 100;
/// Calls of a request on many objects: each makes hundreds of events, which a guest prints slowly.
const CALLS_WIDE: u32 = 20;
/// Kilobytes of trace buffer for each processor: the widest window is some 5,200 events of at most
/// 100 bytes.
const BUFFER_KB: &str = "16384";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let node = args.next().unwrap_or_default();
    let buffer_kb = args.next().unwrap_or_else(|| BUFFER_KB.to_owned());
    match run(&node, &buffer_kb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("kernel-costs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(node: &str, buffer_kb: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(TRACING)?;
    mount("tracefs", TRACING, "tracefs", MountFlags::empty(), None)?;
    set("buffer_size_kb", buffer_kb)?;
    set("set_event_pid", &std::process::id().to_string())?;
    for event in ["kmem/kmalloc", "kmem/kmem_cache_alloc"] {
        set(&format!("events/{event}/enable"), "1")?;
    }
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(Path::new(node))?;
    for count in [1, 2, 3, 4, 5, 8, 16, 64, 256] {
        let mut handles = Vec::new();
        let calls = if count < 64 { CALLS } else { CALLS_WIDE };
        for _ in 0..count {
            let mut create = SyncobjCreate {
                handle: 0,
                flags: drm::CREATE_SIGNALED,
            };
            calls::create(file.as_fd(), &mut create)?;
            handles.push(create.handle);
        }
        let wait = calls::Wait {
            handles: &handles,
            points: None,
            timeout_nsec: 0,
            flags: drm::WAIT_ALL,
            deadline_nsec: 0,
            first_before: 0,
        };
        count_calls("WAIT", count, calls, || {
            drop(black_box(calls::wait(file.as_fd(), &wait)));
        })?;
        let mut points = vec![0; handles.len()];
        count_calls("QUERY", count, calls, || {
            let _answer = calls::query(file.as_fd(), &handles, &mut points, 0);
        })?;
        let highest = vec![1; handles.len()];
        count_calls("TIMELINE_SIGNAL", count, calls, || {
            let _answer = calls::timeline_signal(file.as_fd(), &handles, Some(&highest), 0);
        })?;
        count_calls("SIGNAL", count, calls, || {
            drop(calls::signal(file.as_fd(), &handles, 0));
        })?;
        count_calls("RESET", count, calls, || {
            drop(calls::reset(file.as_fd(), &handles, 0));
        })?;
        own(count)?;
    }
    Ok(())
}

/// Ours: a wait that finds all done, and one that sleeps until its time is over.
fn own(count: usize) -> Result<(), Box<dyn Error>> {
    let objects: Vec<Object> = (0..count).map(|_| Object::new(false)).collect();
    let entries: Vec<_> = objects
        .iter()
        .map(|object| Entry { object, point: 1 })
        .collect();
    count_calls("local-wait-that-sleeps", count, CALLS, || {
        let until = Deadline::after(std::time::Duration::from_micros(50));
        drop(black_box(local::wait(
            &entries,
            WaitFor::ALL.for_submit(),
            until,
        )));
    })?;
    count_calls("local-signal", count, CALLS, || {
        for object in &objects {
            object.signal_point(1);
        }
    })?;
    count_calls("local-wait", count, CALLS, || {
        drop(black_box(local::wait(
            &entries,
            WaitFor::ALL,
            Deadline::NEVER,
        )));
    })
}

fn set(name: &str, value: &str) -> std::io::Result<()> {
    fs::write(format!("{TRACING}/{name}"), value)
}

/// Runs the calls and prints what the kernel allocated meanwhile, less what counting costs.
fn count_calls(
    name: &str,
    count: usize,
    calls: u32,
    mut call: impl FnMut(),
) -> Result<(), Box<dyn Error>> {
    // Once before: a stack page of ours is no allocation of the call's.
    call();
    let (noise, noise_bytes) = traced(|| {})?;
    let (all, bytes) = traced(|| (0..calls).for_each(|_| call()))?;
    let mean = |all: u64, noise: u64| all.saturating_sub(noise) as f64 / f64::from(calls);
    println!(
        "{name} {count} {:.2} {:.0}",
        mean(all, noise),
        mean(bytes, noise_bytes)
    );
    Ok(())
}

fn traced(body: impl FnOnce()) -> Result<(u64, u64), Box<dyn Error>> {
    set("trace", "")?;
    set("tracing_on", "1")?;
    body();
    set("tracing_on", "0")?;
    nothing_lost()?;
    let trace = fs::read_to_string(format!("{TRACING}/trace"))?;
    let lines = trace.lines().filter(|line| line.contains("bytes_alloc="));
    let mut total = (0, 0);
    for line in lines {
        let bytes = line
            .split("bytes_alloc=")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        total = (
            total.0 + 1,
            total.1 + bytes.and_then(|text| text.parse().ok()).unwrap_or(0),
        );
    }
    Ok(total)
}

/// Whether the buffers of all processors still hold every event since they were last emptied.
fn nothing_lost() -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(format!("{TRACING}/per_cpu"))? {
        let stats = fs::read_to_string(entry?.path().join("stats"))?;
        for name in ["overrun", "commit overrun", "dropped events"] {
            let lost = stats
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .ok_or_else(|| format!("the kernel does not say its {name}"))?;
            if lost.trim() != "0" {
                return Err(format!("the trace lost events ({name} {lost}): too low").into());
            }
        }
    }
    Ok(())
}
