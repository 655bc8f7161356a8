//! Round trips of our timelines against a bare futex: the same two threads, or the same two processes,
//! take turns between both every few milliseconds, so that what the machine does meanwhile hits both.

use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Entry, Provider as _, WaitFor};

use super::compare::Comparison;
use super::cores::{self, Cores};
use super::lanes::{Futex, Lane, Local};
use super::words::{WordLane, Words};

/// Round trips of one block.
const TRIPS: u32 = 100;

/// All of them.
///
/// # Errors
///
/// If a thread, process or descriptor cannot be had.
pub(super) fn measure(blocks: u32) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for cores in Cores::BOTH {
        comparisons.push(threads(cores, blocks)?);
        comparisons.push(processes(cores, blocks)?);
    }
    Ok(comparisons)
}

/// Two directions of one way to tell a value.
type Pair<'a> = (&'a dyn Lane, &'a dyn Lane);

/// The side that asks: microseconds per trip of each block. The first block of each is thrown away.
fn ask(peer: Pair<'_>, ours: Pair<'_>, blocks: u32) -> (Vec<f64>, Vec<f64>) {
    let (mut theirs, mut timeline) = (Vec::new(), Vec::new());
    for block in 0..=blocks {
        for (lanes, samples) in [(peer, &mut theirs), (ours, &mut timeline)] {
            let start = Instant::now();
            for value in block * TRIPS + 1..=(block + 1) * TRIPS {
                lanes.0.raise(value);
                lanes.1.await_value(value);
            }
            if block > 0 {
                samples.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(TRIPS));
            }
        }
    }
    (theirs, timeline)
}

/// The side that answers.
fn answer(peer: Pair<'_>, ours: Pair<'_>, blocks: u32) {
    for block in 0..=blocks {
        for lanes in [peer, ours] {
            for value in block * TRIPS + 1..=(block + 1) * TRIPS {
                lanes.0.await_value(value);
                lanes.1.raise(value);
            }
        }
    }
}

fn threads(cores: Cores, blocks: u32) -> Result<Comparison> {
    let lanes = Arc::new((<(Futex, Futex)>::default(), <(Local, Local)>::default()));
    let there = Arc::clone(&lanes);
    let answering = std::thread::spawn(move || {
        cores.pin_answering();
        let (peer, ours) = &*there;
        answer((&peer.0, &peer.1), (&ours.0, &ours.1), blocks);
    });
    let asking = std::thread::spawn(move || {
        cores::pin_asking();
        let (peer, ours) = &*lanes;
        ask((&peer.0, &peer.1), (&ours.0, &ours.1), blocks)
    });
    let panicked = |_panic| anyhow!("a thread panicked");
    let (theirs, timeline) = asking.join().map_err(panicked)?;
    answering.join().map_err(panicked)?;
    let what = format!("round trip of threads {}", cores.text());
    Comparison::new(what, "bare futex", theirs, timeline)
}

/// One direction over a shared object: odd points ask, even ones answer.
struct Across<'a> {
    shared: &'a Shared,
    object: &'a Object,
    offset: u64,
}

impl Lane for Across<'_> {
    fn raise(&self, value: u32) {
        let point = u64::from(value) * 2 + self.offset;
        let _lost = self.shared.signal_point(self.object, point);
    }

    fn await_value(&self, value: u32) {
        let entry = Entry {
            object: self.object,
            point: u64::from(value) * 2 + self.offset,
        };
        // As the bare futex beside it: for ever.
        let what = WaitFor::ALL.for_submit();
        let _lost = self.shared.wait(&[entry], what, Deadline::NEVER);
    }
}

/// What both processes use.
fn with_lanes<T>(
    shared: &Shared,
    object: &Object,
    words: &Words,
    body: impl FnOnce(Pair<'_>, Pair<'_>) -> T,
) -> T {
    let way = |offset| Across {
        shared,
        object,
        offset,
    };
    let (asks, answers) = (way(1), way(2));
    body(
        (&WordLane(words, 0), &WordLane(words, 1)),
        (&asks, &answers),
    )
}

fn processes(cores: Cores, blocks: u32) -> Result<Comparison> {
    let shared = Shared::new();
    let object = shared.create(false)?;
    let words = Words::new()?;
    let mut child = other(&shared, &object, &words, cores, blocks)?;
    let asking = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            cores::pin_asking();
            with_lanes(&shared, &object, &words, |peer, ours| {
                ask(peer, ours, blocks)
            })
        });
        thread.join().map_err(|_panic| anyhow!("a thread panicked"))
    });
    let (theirs, timeline) = asking?;
    ensure!(child.wait()?.success(), "the other process failed");
    let what = format!("round trip of processes {}", cores.text());
    Comparison::new(what, "bare futex", theirs, timeline)
}

/// This program again: its standard input is the object, the words are a file of ours.
fn other(
    shared: &Shared,
    object: &Object,
    words: &Words,
    cores: Cores,
    blocks: u32,
) -> Result<Child> {
    let ticket = shared
        .export(object)?
        .context("no descriptor for the object")?;
    let child = Command::new(std::env::current_exe()?)
        .args(["bench", "waits", "--answer", &words.path()])
        .args(["--rounds", &blocks.to_string()])
        .args(matches!(cores, Cores::One).then_some("--one-core"))
        .stdin(Stdio::from(ticket))
        .spawn()?;
    Ok(child)
}

/// The other process.
///
/// # Errors
///
/// If the object or the words are not there.
pub(super) fn be_the_other(path: &str, cores: Cores, blocks: u32) -> Result<()> {
    let shared = Shared::new();
    let object = shared
        .import(std::io::stdin().as_fd())?
        .context("no object on standard input")?;
    let words = Words::open(path)?;
    cores.pin_answering();
    with_lanes(&shared, &object, &words, |peer, ours| {
        answer(peer, ours, blocks);
    });
    Ok(())
}
