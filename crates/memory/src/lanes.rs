//! Copies of several runs at once, a few lines of each in turn.
//!
//! A run of scattered memory begins with misses: of the translation, and of the lines, until the prefetcher has
//! seen the run. Copied one after the other, short runs pay that each time. Copied in turn, the misses of one
//! overlap with the copying of the others: 4 KiB runs arrive at about twice the rate, with no mapping made.

#![expect(unsafe_code, reason = "vector copies through raw pointers")]

use std::marker::PhantomData;

use crate::volatile::VolatileBytes;

/// Runs that are copied in turn. Six: four were 15 % slower from 4 KiB runs in memory, eight more than the
/// write-combining buffers of streaming stores bear.
pub const LANES: usize = 6;

/// Copies runs in turn; what was added has been copied when [`finish`](Self::finish) returns, or on drop.
#[derive(Debug)]
pub struct Lanes<'a> {
    jobs: [Job; LANES],
    count: usize,
    is_streaming: bool,
    owner: PhantomData<VolatileBytes<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    from: *const u8,
    to: *mut u8,
    len: usize,
}

impl Job {
    const NONE: Self = Self {
        from: std::ptr::null(),
        to: std::ptr::null_mut(),
        len: 0,
    };

    /// The job without its first `len` bytes.
    const fn after(self, len: usize) -> Self {
        Self {
            from: self.from.wrapping_add(len),
            to: self.to.wrapping_add(len),
            len: self.len - len,
        }
    }

    /// Copies the first `len` bytes, which the job has.
    fn copy_first(self, len: usize) {
        // SAFETY: `add` made jobs of bytes inside both runs; `copy` allows overlap.
        unsafe { std::ptr::copy(self.from, self.to, len) };
    }
}

impl<'a> Lanes<'a> {
    /// Nothing to copy yet; `is_streaming` stores past the caches.
    #[must_use]
    pub const fn new(is_streaming: bool) -> Self {
        Self {
            jobs: [Job::NONE; LANES],
            count: 0,
            is_streaming,
            owner: PhantomData,
        }
    }

    /// Copies the first bytes of `from` over those of `to`, as many as both have, now or later.
    ///
    /// Runs whose destinations overlap arrive in no order; one run may overlap with its own destination only
    /// if it is not streamed.
    ///
    /// # Cost
    ///
    /// A read and a write per byte. No allocation, no system call.
    pub fn add(&mut self, from: &VolatileBytes<'a>, to: &VolatileBytes<'a>) {
        let mut job = Job {
            from: from.as_ptr(),
            to: to.as_ptr(),
            len: from.len().min(to.len()),
        };
        let is_apart = job.from.addr().abs_diff(job.to.addr()) >= job.len;
        if job.len < LEAST || !is_apart {
            job.copy_first(job.len);
            return;
        }
        let most = if self.is_streaming {
            STREAMED_PART
        } else {
            PART
        };
        while job.len > 0 {
            // A short end goes with the part before it.
            let part = if job.len < most + LEAST {
                job.len
            } else {
                most
            };
            self.push(Job { len: part, ..job });
            job = job.after(part);
        }
    }

    /// Copies what is left.
    pub fn finish(self) {
        drop(self);
    }

    fn push(&mut self, job: Job) {
        if let Some(place) = self.jobs.get_mut(self.count) {
            *place = job;
            self.count += 1;
        }
        if self.count == LANES {
            self.run();
        }
    }

    fn run(&mut self) {
        let count = std::mem::take(&mut self.count);
        let jobs = self.jobs.get_mut(..count).unwrap_or_default();
        if jobs.is_empty() {
            return;
        }
        if self.is_streaming {
            for job in &mut *jobs {
                let head = job.to.align_offset(LINE).min(job.len);
                job.copy_first(head);
                *job = job.after(head);
            }
        }
        let block = if self.is_streaming {
            STREAMED_BLOCK
        } else {
            BLOCK
        };
        let mut left = jobs;
        loop {
            // Whose end is near goes; the others go on in turn.
            left = without_ends(left, block);
            let Some(shortest) = left.iter().map(|job| job.len).min() else {
                return;
            };
            in_turn(left, shortest / block, self.is_streaming);
            for job in &mut *left {
                *job = job.after(shortest / block * block);
            }
        }
    }
}

impl Drop for Lanes<'_> {
    fn drop(&mut self) {
        self.run();
        if self.is_streaming {
            fence();
        }
    }
}

/// Copies the jobs that are shorter than a block, and returns the others.
fn without_ends(jobs: &mut [Job], block: usize) -> &mut [Job] {
    let mut kept = 0;
    for at in 0..jobs.len() {
        match jobs.get(at) {
            Some(job) if job.len < block => job.copy_first(job.len),
            _ => {
                jobs.swap(kept, at);
                kept += 1;
            }
        }
    }
    jobs.get_mut(..kept).unwrap_or_default()
}

/// Copies the first `blocks` blocks of each job; destinations lie at lines if they are streamed.
fn in_turn(jobs: &[Job], blocks: usize, is_streaming: bool) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        if is_streaming {
            // SAFETY: AVX was just found; every job holds `blocks` blocks and its destination lies at a line.
            unsafe { x86::in_turn::<STREAMED_BLOCK, true>(jobs, blocks) };
        } else {
            // SAFETY: as above.
            unsafe { x86::in_turn::<BLOCK, false>(jobs, blocks) };
        }
        return;
    }
    let len = if is_streaming { STREAMED_BLOCK } else { BLOCK };
    for block in 0..blocks {
        for job in jobs {
            job.after(block * len).copy_first(len);
        }
    }
}

fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64. Streaming stores are weakly ordered: without the fence a later flag could
    // be seen first.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "loads may be unaligned; streaming stores start at a line"
)]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256,
    };

    use super::{Job, LINE};

    /// # Safety
    ///
    /// Every job holds `blocks` blocks of `BLOCK` bytes; with `STREAM` its destination lies at a line.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn in_turn<const BLOCK: usize, const STREAM: bool>(
        jobs: &[Job],
        blocks: usize,
    ) {
        for block in 0..blocks {
            for job in jobs {
                for line in 0..BLOCK / LINE {
                    let at = block * BLOCK + line * LINE;
                    let from = job.from.wrapping_add(at).cast::<__m256i>();
                    let to = job.to.wrapping_add(at).cast::<__m256i>();
                    let (from_high, to_high) = (from.wrapping_add(1), to.wrapping_add(1));
                    // SAFETY: 32 readable bytes of the job; the load may be unaligned.
                    let low = unsafe { _mm256_loadu_si256(from) };
                    // SAFETY: the second half of the line.
                    let high = unsafe { _mm256_loadu_si256(from_high) };
                    if STREAM {
                        // SAFETY: 32 writable bytes at a line.
                        unsafe { _mm256_stream_si256(to, low) };
                        // SAFETY: the second half of the line.
                        unsafe { _mm256_stream_si256(to_high, high) };
                    } else {
                        // SAFETY: 32 writable bytes; the store may be unaligned.
                        unsafe { _mm256_storeu_si256(to, low) };
                        // SAFETY: the second half of the line.
                        unsafe { _mm256_storeu_si256(to_high, high) };
                    }
                }
            }
        }
    }
}

/// Bytes of one run before the next takes its turn: four lines. Fewer turns hide less.
const BLOCK: usize = 256;
/// The same past the caches. With four lines a copy took up to twice the time of one with eight while the other
/// processor worked; more than eight won nothing.
const STREAMED_BLOCK: usize = 512;
/// Shorter runs are copied at once: taking turns would cost more than it hides.
const LEAST: usize = 1024;
/// Longer runs are cut: the prefetchers of the processor end at pages too.
const PART: usize = 4096;
/// The same past the caches: six parts of 64 KiB of one run were 8 % faster than the run line by line, six of
/// 4 KiB 10 % slower (4 MiB, huge pages).
const STREAMED_PART: usize = 64 << 10;
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes at fixed places of one buffer into another, by lanes and by hand.
    fn check(runs: &[(usize, usize, usize)], is_streaming: bool) {
        let mut source: Vec<u8> = (0..70_000_usize)
            .map(|at| (at * 167 + (at >> 8)).to_le_bytes()[0])
            .collect();
        let mut expected = vec![0xee_u8; 70_000];
        for &(from, to, len) in runs {
            expected[to..to + len].copy_from_slice(&source[from..from + len]);
        }
        let mut target = vec![0xee_u8; 70_000];
        let from = VolatileBytes::of(&mut source);
        let to = VolatileBytes::of(&mut target);
        let mut lanes = Lanes::new(is_streaming);
        for &(at, place, len) in runs {
            lanes.add(&from.get(at, len).unwrap(), &to.get(place, len).unwrap());
        }
        lanes.finish();
        assert!(target == expected, "{runs:?}");
    }

    #[test]
    fn every_mix_of_lengths_and_places_arrives() {
        let mut random = fastrand::Rng::with_seed(4);
        for round in 0..400 {
            let mut runs = Vec::new();
            let mut at = random.usize(..130);
            while at < 60_000 && runs.len() < 20 {
                let len = match random.u8(..4) {
                    0 => 4096,
                    1 => random.usize(..300),
                    2 => random.usize(..9000),
                    _ => random.usize(1000..1100),
                };
                let len = len.min(70_000 - at);
                runs.push((random.usize(..=70_000 - len), at, len));
                at += len + random.usize(..3);
            }
            check(&runs, round % 2 == 0);
        }
        check(&[], true);
        check(&[(3, 5, 60_000)], true);
        check(&[(3, 5, 60_000)], false);
    }

    #[test]
    fn a_run_over_itself_moves_as_a_whole() {
        let mut bytes: Vec<u8> = (0..8192_u32).map(|at| (at % 251) as u8).collect();
        let right: Vec<u8> = bytes[..8000].to_vec();
        let all = VolatileBytes::of(&mut bytes);
        let mut lanes = Lanes::new(true);
        lanes.add(&all.get(0, 8000).unwrap(), &all.get(100, 8000).unwrap());
        lanes.finish();
        assert!(bytes[100..8100] == right);
    }
}
