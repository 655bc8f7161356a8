//! What is watched beside a program, and how it is told: writes below folders, the disk, pressure.

use std::path::PathBuf;

use serde_json::{Value, json};
use towpath_measure::Nanos;
use towpath_report::Run;
use towpath_report::numbers::with_unit;
use towpath_watch::{DiskProbe, Known, PROBE_BYTES, Pressure, Probed, Stall, WriteWatch, Writes};

/// What to watch.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Count the files written below this folder (may be given more than once)
    #[arg(long = "watch", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Time small reads from the disk of this folder meanwhile; writes a file of 256 MiB there first
    #[arg(long = "watch-disk", value_name = "PATH")]
    disk: Option<PathBuf>,
}

/// Watches that run.
#[derive(Debug)]
pub(crate) struct Beside {
    before: Pressure,
    writes: Option<Known<WriteWatch>>,
    probe: Option<Known<DiskProbe>>,
}

/// What was seen. What was not asked for is absent; what could not be watched has its reason.
#[derive(Debug)]
pub(crate) struct Seen {
    pressure: Pressure,
    writes: Option<Known<Writes>>,
    probed: Option<Known<Probed>>,
}

/// Reads slower than this are counted, as seed 000 did.
const SLOW_READ: Nanos = Nanos::from_millis(10);

impl Beside {
    /// Starts what `options` ask for. What cannot be started never keeps the program from running.
    pub(crate) fn start(options: &Options) -> Self {
        let probe = options.disk.as_ref().map(|folder| {
            DiskProbe::start(folder, PROBE_BYTES).map_or_else(
                |error| Known::Unavailable(format!("{}: {error}", folder.display())),
                Known::Value,
            )
        });
        let writes = (!options.folders.is_empty()).then(|| {
            WriteWatch::start(&options.folders).map_or_else(
                |error| {
                    let names: Vec<String> = options
                        .folders
                        .iter()
                        .map(|f| f.display().to_string())
                        .collect();
                    Known::Unavailable(format!("{}: {error}", names.join(", ")))
                },
                Known::Value,
            )
        });
        Self {
            before: Pressure::now(),
            writes,
            probe,
        }
    }

    /// Ends the watches.
    pub(crate) fn end(self) -> Seen {
        Seen {
            pressure: Pressure::now().since(&self.before),
            writes: self.writes.map(|watch| watch.map(WriteWatch::end)),
            probed: self.probe.map(|probe| probe.map(DiskProbe::end)),
        }
    }
}

/// What [`Seen::read_into`] adds to a run: name, unit, definition. Lower is better in all of them.
pub(crate) const METRICS: &[(&str, &str, &str)] = &[
    (
        "files-written",
        "",
        "files written below the watched folders",
    ),
    (
        "bytes-written",
        "MiB",
        "sum of their lengths after each write",
    ),
    ("slow-reads", "", "4 KiB reads of the disk probe over 10 ms"),
    ("worst-read", "ms", "longest 4 KiB read of the disk probe"),
];

impl Options {
    /// Whether there is anything to watch.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.disk.is_none()
    }
}

impl Seen {
    /// Adds what was seen to a run; what could not be seen is unavailable, with the reason.
    pub(crate) fn read_into(&self, run: &mut Run) {
        match &self.writes {
            Some(Known::Value(writes)) => {
                run.read("files-written", writes.writes.len() as f64);
                run.read("bytes-written", writes.bytes() as f64 / f64::from(1 << 20));
            }
            Some(Known::Unavailable(reason)) => {
                run.cannot_read("files-written", reason);
                run.cannot_read("bytes-written", reason);
            }
            None => {}
        }
        match &self.probed {
            Some(Known::Value(probed)) => {
                run.read("slow-reads", probed.over(SLOW_READ) as f64);
                let worst = probed
                    .worst()
                    .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
                run.read("worst-read", worst);
                let first = probed.reads.first().map_or(0, |read| read.at.0);
                run.disk_reads = probed
                    .reads
                    .iter()
                    .map(|read| {
                        let since = Nanos(read.at.0.saturating_sub(first));
                        (since.as_secs_f64(), read.took.as_secs_f64() * 1e3)
                    })
                    .collect();
            }
            Some(Known::Unavailable(reason)) => {
                run.cannot_read("slow-reads", reason);
                run.cannot_read("worst-read", reason);
            }
            None => {}
        }
    }

    /// For a terminal: what was asked for.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.writes {
            Some(Known::Value(writes)) => lines.push(format!(
                "files written: {}{}, {}",
                if writes.is_incomplete {
                    "at least "
                } else {
                    ""
                },
                writes.writes.len(),
                with_unit(writes.bytes() as f64, "bytes"),
            )),
            Some(Known::Unavailable(reason)) => {
                lines.push(format!("files written: unavailable ({reason})"));
            }
            None => {}
        }
        match &self.probed {
            Some(Known::Value(probed)) => lines.push(disk_line(probed)),
            Some(Known::Unavailable(reason)) => {
                lines.push(format!("disk probe: unavailable ({reason})"));
            }
            None => {}
        }
        lines
    }

    /// Everything, raw.
    pub(crate) fn json(&self) -> Value {
        let writes = self.writes.as_ref().map(|writes| match writes {
            Known::Value(writes) => writes_json(writes),
            Known::Unavailable(reason) => json!({"unavailable": reason}),
        });
        let probed = self.probed.as_ref().map(|probed| match probed {
            Known::Value(probed) => probed_json(probed),
            Known::Unavailable(reason) => json!({"unavailable": reason}),
        });
        json!({
            "pressure_of_the_machine": {
                "cpu": stall_json(&self.pressure.cpu),
                "memory": stall_json(&self.pressure.memory),
                "io": stall_json(&self.pressure.io),
            },
            "writes": writes,
            "disk_probe": probed,
        })
    }
}

fn disk_line(probed: &Probed) -> String {
    let time = |time: Option<Nanos>| {
        time.map_or("-".to_owned(), |time| with_unit(time.as_secs_f64(), "s"))
    };
    format!(
        "disk probe: {} reads of 4 KiB, median {}, 99 % {}, worst {}, {} over 10 ms{}{}",
        probed.reads.len(),
        time(probed.quantile(0.5)),
        time(probed.quantile(0.99)),
        time(probed.worst()),
        probed.over(SLOW_READ),
        if probed.failed > 0 {
            format!(", {} failed", probed.failed)
        } else {
            String::new()
        },
        if probed.is_direct {
            ""
        } else {
            " (through the page cache)"
        },
    )
}

fn writes_json(writes: &Writes) -> Value {
    let each: Vec<Value> = writes
        .writes
        .iter()
        .map(|write| json!({"at_ns": write.at.0, "path": write.path, "bytes": write.bytes}))
        .collect();
    json!({"is_incomplete": writes.is_incomplete, "bytes": writes.bytes(), "writes": each})
}

fn probed_json(probed: &Probed) -> Value {
    let reads: Vec<[u64; 2]> = probed
        .reads
        .iter()
        .map(|read| [read.at.0, read.took.0])
        .collect();
    json!({
        "is_direct": probed.is_direct,
        "failed": probed.failed,
        "over_10_ms": probed.over(SLOW_READ),
        "worst_ns": probed.worst().map(|worst| worst.0),
        "reads_at_took_ns": reads,
    })
}

fn stall_json(stall: &Known<Stall>) -> Value {
    match stall {
        Known::Value(stall) => json!({"some_ns": stall.some.0, "full_ns": stall.full.0}),
        Known::Unavailable(reason) => json!({"unavailable": reason}),
    }
}
