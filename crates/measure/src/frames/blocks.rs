//! A reader cut into blocks of whole lines, parsed by as many threads as there are processors (at most
//! [`THREADS_MAX`]), and put together in the file's order.
//!
//! One thread at a time reads; the others parse what they have read. Results wait for their place, so that
//! what comes out does not depend on the number of threads.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::LogError;
use super::lines::LINE_MAX;

/// Bytes of a block: some ten thousand rows, small enough to stay in a processor's cache while it is parsed.
const BLOCK: usize = 1 << 20;

/// More threads would wait for the one that reads.
const THREADS_MAX: usize = 4;

/// Whole lines of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    /// Its place in the file, from 0.
    pub(super) place: usize,
    /// Its lines. All end with a line feed, except perhaps the last one of the file.
    pub(super) bytes: &'a [u8],
}

/// What a block gave, put to what came before it.
pub(super) trait Parts: Send {
    /// What one block gives.
    type Part: Send;

    /// Parses a block; runs on any thread.
    fn parse(&self, block: Block<'_>) -> Self::Part;
}

/// Why the blocks ended early.
enum Broken {
    Read(std::io::Error),
    TooLong,
}

/// The reader and what was read beyond the last whole line.
struct Source<R> {
    reader: R,
    carry: Vec<u8>,
    next: usize,
    is_over: bool,
}

impl<R: Read> Source<R> {
    /// Fills `buffer` with whole lines; gives the block's place and length, `None` at the end.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> Option<(usize, Result<usize, Broken>)> {
        if self.is_over {
            return None;
        }
        let place = self.next;
        self.next += 1;
        let filled = self.lines(buffer);
        match filled {
            Ok(0) => {
                self.is_over = true;
                None
            }
            Ok(length) => Some((place, Ok(length))),
            Err(broken) => {
                self.is_over = true;
                Some((place, Err(broken)))
            }
        }
    }

    fn lines(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Broken> {
        let mut end = self.carry.len();
        buffer.resize(buffer.len().max(BLOCK).max(2 * end), 0);
        if let Some(start) = buffer.get_mut(..end) {
            start.copy_from_slice(&self.carry);
        }
        self.carry.clear();
        loop {
            let space = buffer.get_mut(end..).unwrap_or_default();
            if space.is_empty() {
                let whole = buffer.get(..end).unwrap_or_default();
                if let Some(last) = memchr::memrchr(b'\n', whole) {
                    let rest = whole.get(last + 1..).unwrap_or_default();
                    self.carry.extend_from_slice(rest);
                    return Ok(last + 1);
                }
                if end >= LINE_MAX {
                    return Err(Broken::TooLong);
                }
                buffer.resize(2 * end, 0);
                continue;
            }
            match self.reader.read(space) {
                Ok(0) => {
                    self.is_over = true;
                    return Ok(end);
                }
                Ok(read) => end += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken::Read(error)),
            }
        }
    }
}

/// Parts that came before their turn.
struct Waiting<P> {
    next: usize,
    early: BTreeMap<usize, Result<P, Broken>>,
    lines: usize,
    failed: Option<LogError>,
}

/// Parses all of `reader` with `parts` and hands each part to `join` in the file's order; `join` adds to the number
/// of lines so far, which starts at `lines`.
///
/// # Errors
///
/// [`LogError::Read`], [`LogError::Unusable`] for a line that is too long. What came before it was joined.
pub(super) fn parse<R: Read + Send, P: Parts + Sync>(
    reader: R,
    carry: Vec<u8>,
    parts: &P,
    lines: usize,
    join: &mut (dyn FnMut(P::Part, &mut usize) + Send),
) -> Result<(), LogError> {
    let source = Mutex::new(Source {
        reader,
        carry,
        next: 0,
        is_over: false,
    });
    let waiting = Mutex::new((
        Waiting {
            next: 0,
            early: BTreeMap::new(),
            lines,
            failed: None,
        },
        join,
    ));
    let one = |buffer: &mut Vec<u8>| -> bool {
        let Some((place, filled)) = lock(&source).fill(buffer) else {
            return false;
        };
        let part = filled.map(|length| {
            let bytes = buffer.get(..length).unwrap_or_default();
            parts.parse(Block { place, bytes })
        });
        let mut guard = lock(&waiting);
        let (waiting, join) = &mut *guard;
        waiting.put(place, part, *join);
        true
    };
    let all = || {
        let mut buffer = Vec::new();
        while one(&mut buffer) {}
    };
    // A small log is done before a thread would have started.
    let mut buffer = Vec::new();
    if one(&mut buffer) && !lock(&source).is_over {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 1..threads.min(THREADS_MAX) {
                // No thread to be had: this one does the work.
                let _started = std::thread::Builder::new().spawn_scoped(scope, all);
            }
            while one(&mut buffer) {}
        });
    }
    let (waiting, _) = waiting.into_inner().unwrap_or_else(PoisonError::into_inner);
    waiting.failed.map_or(Ok(()), Err)
}

impl<P> Waiting<P> {
    fn put(
        &mut self,
        place: usize,
        part: Result<P, Broken>,
        join: &mut (dyn FnMut(P, &mut usize) + Send),
    ) {
        self.early.insert(place, part);
        while let Some(part) = self.early.remove(&self.next) {
            self.next += 1;
            match part {
                Ok(part) => join(part, &mut self.lines),
                Err(Broken::Read(source)) => {
                    let line = self.lines;
                    self.failed = Some(LogError::Read { line, source });
                }
                Err(Broken::TooLong) => {
                    self.failed = Some(LogError::Unusable {
                        line: self.lines + 1,
                        column: 1,
                        why: "a line of more than 16 MiB".to_owned(),
                    });
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;
    impl Parts for Echo {
        type Part = (usize, Vec<u8>);
        fn parse(&self, block: Block<'_>) -> Self::Part {
            (block.place, block.bytes.to_vec())
        }
    }

    /// Gives at most `step` bytes at once, and fails at the end if asked to.
    struct Stepwise<'a> {
        bytes: &'a [u8],
        step: usize,
        fails: bool,
    }
    impl Read for Stepwise<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.bytes.is_empty() && self.fails {
                return Err(std::io::Error::other("gone"));
            }
            let take = self.bytes.len().min(out.len()).min(self.step);
            out[..take].copy_from_slice(&self.bytes[..take]);
            self.bytes = &self.bytes[take..];
            Ok(take)
        }
    }

    fn collect(bytes: &[u8], step: usize, fails: bool) -> (Vec<u8>, Result<(), LogError>) {
        let mut whole = Vec::new();
        let reader = Stepwise { bytes, step, fails };
        let mut join = |(_, bytes): (usize, Vec<u8>), lines: &mut usize| {
            *lines += memchr::memchr_iter(b'\n', &bytes).count();
            whole.extend_from_slice(&bytes);
        };
        let done = parse(reader, b"carried ".to_vec(), &Echo, 1, &mut join);
        (whole, done)
    }

    #[test]
    fn blocks_come_whole_and_in_order_from_any_reader() {
        let text: String = (0..400_000).map(|line| format!("row {line}\n")).collect();
        for (step, end) in [(1 << 20, ""), (77_777, "the last, cut"), (usize::MAX, "")] {
            let text = format!("{text}{end}");
            let (whole, done) = collect(text.as_bytes(), step, false);
            assert!(done.is_ok());
            assert!(whole == format!("carried {text}").into_bytes(), "{step}");
        }
        assert_eq!(collect(b"", 9, false).0, b"carried ");
    }

    #[test]
    fn a_reader_that_fails_and_a_line_without_end_are_errors_with_their_line() {
        let text = "x\n".repeat(1 << 20);
        let (_, done) = collect(text.as_bytes(), 1 << 18, true);
        assert!(matches!(done, Err(LogError::Read { line, .. }) if line > 1));
        let endless = vec![b'x'; LINE_MAX + BLOCK];
        let (_, done) = collect(&endless, 1 << 20, false);
        assert_eq!(
            done.unwrap_err().to_string(),
            "line 2, column 1: a line of more than 16 MiB"
        );
    }
}
