//! One blob in one file, written only when it changed: what seed 000 did to its game, for any program.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bytes::len64;
use crate::error::{Error, Operation, Result};
use crate::safety::BlobHeader;
use crate::storage::{Bytes, Disk, SyncTarget};

/// Where the blob comes from: a VkPipelineCache, or a test.
pub trait BlobSource {
    /// The size that the driver reports, in bytes; copies no data.
    ///
    /// # Errors
    ///
    /// The driver's.
    fn size(&mut self) -> Result<u64>;

    /// The blob itself.
    ///
    /// # Errors
    ///
    /// The driver's.
    fn data(&mut self) -> Result<Fetched>;
}

/// An answer of the driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fetched {
    /// The bytes, cut to the length that the driver returned.
    pub bytes: Vec<u8>,
    /// Whether it said that this is all (not `VK_INCOMPLETE`).
    pub is_whole: bool,
}

/// What a save came to.
#[derive(Debug)]
pub enum SaveOutcome {
    /// The size is the one that the file has; nothing was fetched.
    Unchanged,
    /// It was asked a moment ago and asking costs; nothing was asked.
    AskedTooSoon,
    /// The driver has no data to keep, or a header alone; there is no file and no more ado.
    DriverKeepsItsOwn,
    /// Written, synced, renamed.
    Written,
    /// Not written; the file is as before and the next save tries again.
    Failed(Error),
}

/// One save, for a log and the ledger.
#[derive(Debug)]
pub struct SaveReport {
    /// What it came to.
    pub outcome: SaveOutcome,
    /// Bytes of the file now.
    pub bytes: u64,
    /// Bytes of the file before.
    pub bytes_before: u64,
    /// Time that the size query took.
    pub asked: Duration,
    /// Time that fetching and writing took.
    pub taken: Duration,
    /// Whether the driver said that the blob is complete.
    pub is_whole: bool,
}

impl SaveReport {
    /// One line for the log.
    #[must_use]
    pub fn line(&self) -> String {
        let asked = self.asked.as_secs_f64() * 1e3;
        let taken = self.taken.as_secs_f64() * 1e3;
        let kb = self.bytes / 1024;
        match &self.outcome {
            SaveOutcome::Unchanged => {
                format!(
                    "pipeline cache not saved: unchanged ({kb} KB, size asked in {asked:.1} ms)"
                )
            }
            SaveOutcome::AskedTooSoon => {
                format!("pipeline cache not saved: asked a moment ago ({kb} KB)")
            }
            SaveOutcome::DriverKeepsItsOwn => {
                format!(
                    "pipeline cache not saved: the driver keeps its own (asked in {asked:.1} ms)"
                )
            }
            SaveOutcome::Written => {
                let change = i128::from(self.bytes) - i128::from(self.bytes_before);
                let incomplete = if self.is_whole { "" } else { ", incomplete" };
                format!(
                    "pipeline cache saved ({kb} KB, {:+} KB{incomplete}, size asked in {asked:.1} ms, taken {taken:.1} ms)",
                    change / 1024
                )
            }
            SaveOutcome::Failed(error) => {
                format!(
                    "pipeline cache not saved: {} (old file kept)",
                    error.one_line()
                )
            }
        }
    }
}

/// A file that holds one blob.
#[derive(Debug)]
pub struct BlobFile {
    disk: Arc<dyn Disk>,
    name: String,
}

impl BlobFile {
    /// The file `name` in the folder of `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, name: &str) -> Self {
        let name = name.to_owned();
        Self { disk, name }
    }

    /// The bytes, if the file is there. Unchecked: see [`crate::safety::check`].
    pub fn read(&self) -> Option<Bytes> {
        self.disk.read(&self.name).ok()
    }

    /// Puts `bytes` in place of the old file: write, sync, close, rename, sync of the name.
    ///
    /// After a power cut at any moment the file has the old bytes or the new ones.
    ///
    /// # Errors
    ///
    /// [`Error::File`] says which step failed; the old file is as it was.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let temporary = format!("{}.{:016x}.new", self.name, crate::identity::random());
        let written = self.write_temporary(&temporary, bytes);
        // Closed after a sync that succeeded: a close has nothing left to fail with.
        self.disk.release(&temporary);
        let renamed = written.and_then(|()| {
            let failed = Error::file(Operation::Rename, &self.name);
            self.disk.rename(&temporary, &self.name).map_err(failed)
        });
        if let Err(error) = renamed {
            let _clutter = self.disk.remove(&temporary);
            return Err(error);
        }
        let place = self.disk.place();
        self.disk
            .sync(SyncTarget::Names)
            .map_err(Error::file(Operation::Sync, &place))
    }

    fn write_temporary(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.disk
            .create(name)
            .map_err(Error::file(Operation::Create, name))?;
        self.disk
            .append(name, &[bytes])
            .map_err(Error::file(Operation::Append, name))?;
        self.disk
            .sync(SyncTarget::File(name))
            .map_err(Error::file(Operation::Sync, name))
    }
}

/// Saves a blob when its size differs from the one read at start or last written.
#[derive(Debug)]
pub struct BlobSaver {
    file: BlobFile,
    /// Size of the data that is surely in the file, or `None` when a save must be tried again.
    recorded: Option<u64>,
    bytes_on_disk: u64,
    ask_again: Option<Instant>,
}

impl BlobSaver {
    /// A saver for `file`; `read_bytes` is the length of what was read from it at start.
    #[must_use]
    pub fn new(file: BlobFile, read_bytes: Option<u64>) -> Self {
        Self {
            file,
            recorded: read_bytes,
            bytes_on_disk: read_bytes.unwrap_or(0),
            ask_again: None,
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &BlobFile {
        &self.file
    }

    /// Saves if there is something to save; `force` asks and writes in any case.
    ///
    /// The size is asked first. On some drivers that is not free: after an answer that took more than
    /// 50 us it is not asked again for a thousand times as long, so that asking costs at most 0.1 %.
    /// A smaller size is a change like any other. The new size is recorded only once write, sync,
    /// close and rename all succeeded, and only if the driver said that the data is complete.
    pub fn save(&mut self, source: &mut dyn BlobSource, force: bool) -> SaveReport {
        let start = Instant::now();
        let mut report = SaveReport {
            outcome: SaveOutcome::Unchanged,
            bytes: self.bytes_on_disk,
            bytes_before: self.bytes_on_disk,
            asked: Duration::ZERO,
            taken: Duration::ZERO,
            is_whole: true,
        };
        if !force && self.ask_again.is_some_and(|at| start < at) {
            report.outcome = SaveOutcome::AskedTooSoon;
            return report;
        }
        let size = source.size();
        report.asked = start.elapsed();
        self.ask_again = ask_again(start, report.asked);
        let fetching = Instant::now();
        report.outcome = match size {
            Err(error) => SaveOutcome::Failed(error),
            Ok(size) if !force && Some(size) == self.recorded => SaveOutcome::Unchanged,
            Ok(size) if size <= len64(BlobHeader::LEN) => SaveOutcome::DriverKeepsItsOwn,
            Ok(size) => match self.fetch_and_write(source, size, &mut report) {
                Ok(()) => SaveOutcome::Written,
                Err(error) => SaveOutcome::Failed(error),
            },
        };
        report.taken = fetching.elapsed();
        report
    }

    fn fetch_and_write(
        &mut self,
        source: &mut dyn BlobSource,
        size: u64,
        report: &mut SaveReport,
    ) -> Result<()> {
        let Fetched { bytes, is_whole } = source.data()?;
        let len = len64(bytes.len());
        // 20 bytes after 32 were announced, or none: such an answer must not replace a good file.
        let header = BlobHeader::read(&bytes);
        if len <= len64(BlobHeader::LEN) || header.is_none_or(|h| h.header_bytes < 16) {
            return Err(Error::Driver {
                call: "vkGetPipelineCacheData",
                problem: format!("announces {size} bytes and gives {len}"),
            });
        }
        self.file.write(&bytes)?;
        self.bytes_on_disk = len;
        self.recorded = is_whole.then_some(len);
        report.bytes = len;
        report.is_whole = is_whole;
        Ok(())
    }
}

/// When the size may be asked again after a query that began at `start` and took `cost`.
fn ask_again(start: Instant, cost: Duration) -> Option<Instant> {
    const CHEAP: Duration = Duration::from_micros(50);
    (cost > CHEAP)
        .then(|| start.checked_add(cost.saturating_mul(1000)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_query_is_not_asked_again_soon() {
        let start = Instant::now();
        assert_eq!(ask_again(start, Duration::from_micros(50)), None);
        let later = ask_again(start, Duration::from_millis(2)).unwrap();
        assert_eq!(later - start, Duration::from_secs(2));
    }
}
