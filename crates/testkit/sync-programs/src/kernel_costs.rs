//! Counts what the kernel allocates for one call, by its own trace events.
//!
//! `kernel-costs NODE` prints `CALL OBJECTS ALLOCATIONS BYTES` per line, means of 100 calls.
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

fn main() -> ExitCode {
    match run(&std::env::args().nth(1).unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("kernel-costs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(node: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(TRACING)?;
    mount("tracefs", TRACING, "tracefs", MountFlags::empty(), None)?;
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
        count_calls("WAIT", count, || {
            drop(black_box(calls::wait(file.as_fd(), &wait)));
        })?;
        let mut points = vec![0; handles.len()];
        count_calls("QUERY", count, || {
            let _answer = calls::query(file.as_fd(), &handles, &mut points, 0);
        })?;
        let highest = vec![1; handles.len()];
        count_calls("TIMELINE_SIGNAL", count, || {
            let _answer = calls::timeline_signal(file.as_fd(), &handles, Some(&highest), 0);
        })?;
        count_calls("SIGNAL", count, || {
            drop(calls::signal(file.as_fd(), &handles, 0));
        })?;
        count_calls("RESET", count, || {
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
    count_calls("local-wait-that-sleeps", count, || {
        let until = Deadline::after(std::time::Duration::from_micros(50));
        drop(black_box(local::wait(
            &entries,
            WaitFor::ALL.for_submit(),
            until,
        )));
    })?;
    count_calls("local-signal", count, || {
        for object in &objects {
            object.signal_point(1);
        }
    })?;
    count_calls("local-wait", count, || {
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
fn count_calls(name: &str, count: usize, mut call: impl FnMut()) -> Result<(), Box<dyn Error>> {
    // Once before: a stack page of ours is no allocation of the call's.
    call();
    let (noise, noise_bytes) = traced(|| {})?;
    let (all, bytes) = traced(|| (0..CALLS).for_each(|_| call()))?;
    let mean = |all: u64, noise: u64| all.saturating_sub(noise) as f64 / f64::from(CALLS);
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
