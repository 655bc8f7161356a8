//! What a sync file is made of: fences of different timelines, each with the names and times that
//! `SYNC_IOC_FILE_INFO` tells.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use towpath_sys::drm::SyncFenceInfo;

use super::Answer;
use super::files::code;
use crate::prim::Arc;
use crate::provider::Provider;

/// Fences behind a descriptor.
#[derive(Debug)]
pub(crate) struct SyncFile<P: Provider> {
    /// What the program called it; empty if it did not.
    name: [u8; 32],
    /// Done when all are. Joined only where an object takes the fence: a program may merge a hundred
    /// thousand times what is pending.
    parts: Vec<Part<P>>,
}

/// One fence of a sync file.
#[derive(Debug)]
pub(crate) struct Part<P: Provider> {
    pub(crate) fence: P::Fence,
    /// Where the fence comes from: of one timeline, a later fence covers an earlier one.
    pub(crate) timeline: Arc<Name>,
    /// Its place on the timeline.
    pub(crate) number: u32,
    pub(crate) times: Arc<Times>,
}

impl<P: Provider> Clone for Part<P> {
    fn clone(&self) -> Self {
        Self {
            fence: self.fence.clone(),
            timeline: Arc::clone(&self.timeline),
            number: self.number,
            times: Arc::clone(&self.times),
        }
    }
}

/// A timeline's names and the number that is given once.
#[derive(Debug)]
pub(crate) struct Name {
    context: u64,
    pub(crate) driver: &'static str,
    text: Vec<u8>,
}

impl Name {
    /// A timeline of that name.
    pub(crate) fn new(driver: &'static str, text: Vec<u8>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            // Relaxed: only that no number is given twice matters.
            context: NEXT.fetch_add(1, Ordering::Relaxed),
            driver,
            text,
        })
    }
}

/// When a fence was done, and by when it was asked for; `CLOCK_MONOTONIC` nanoseconds.
#[derive(Debug)]
pub(crate) struct Times {
    /// Zero: not yet, or not noticed yet.
    ended: AtomicU64,
    /// The earliest deadline that was set; `u64::MAX` if none was.
    pub(crate) deadline: AtomicU64,
    /// Whether an object holds the fence: it counts even when no sync file has it any more.
    pub(crate) is_kept: AtomicBool,
}

impl Times {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            ended: AtomicU64::new(0),
            deadline: AtomicU64::new(u64::MAX),
            is_kept: AtomicBool::new(false),
        })
    }

    /// Notes that the fence is done, once. Fences that other than a software timeline ended are noted
    /// at the first look.
    pub(crate) fn note_end(&self) -> u64 {
        // Relaxed: a number for people.
        let now = u64::try_from(crate::time::now()).unwrap_or(1);
        match self
            .ended
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => now,
            Err(noted) => noted,
        }
    }
}

impl<P: Provider> SyncFile<P> {
    /// A sync file of one fence.
    pub(crate) fn of(part: Part<P>) -> Self {
        Self {
            name: [0; 32],
            parts: vec![part],
        }
    }

    /// A sync file of an object's fence.
    pub(crate) fn of_object(fence: P::Fence) -> Self {
        Self::of(Part {
            fence,
            timeline: Name::new("towpath", b"syncobj".to_vec()),
            number: 0,
            times: Times::new(),
        })
    }

    /// What both wait for, as `sync_file_merge` makes it: what is done is left out, and of each timeline
    /// only the last fence stays. If nothing is left, a fence that is done.
    pub(crate) fn merged(provider: &P, name: [u8; 32], both: [&Self; 2]) -> Answer<Self> {
        let mut parts: Vec<Part<P>> = Vec::new();
        for part in both.into_iter().flat_map(|file| &file.parts) {
            if provider.status(&part.fence) != 0 {
                continue;
            }
            let same = |known: &&mut Part<P>| known.timeline.context == part.timeline.context;
            match parts.iter_mut().find(same) {
                Some(known) if is_reached(part.number, known.number) => *known = part.clone(),
                Some(_) => {}
                None => parts.push(part.clone()),
            }
        }
        parts.sort_by_key(|part| part.timeline.context);
        if parts.is_empty() {
            let (signaller, fence) = provider.fence().map_err(|error| code(&error))?;
            provider.end(signaller);
            parts.push(Part {
                fence,
                timeline: Name::new("stub", b"stub".to_vec()),
                number: 0,
                times: Times::new(),
            });
        }
        Ok(Self { name, parts })
    }

    /// Zero while a part is pending, else the first failure or one.
    pub(crate) fn status(&self, provider: &P) -> i32 {
        let mut answer = 1;
        for part in &self.parts {
            match provider.status(&part.fence) {
                0 => return 0,
                status if answer > 0 => answer = status,
                _ => {}
            }
        }
        answer
    }

    /// One fence for all, for an object to hold.
    pub(crate) fn fence(&self, provider: &P) -> Answer<P::Fence> {
        let mut all: Option<P::Fence> = None;
        for part in &self.parts {
            part.times.is_kept.store(true, Ordering::Relaxed);
            all = Some(match all {
                None => part.fence.clone(),
                Some(all) => provider
                    .join(&all, &part.fence)
                    .map_err(|error| code(&error))?,
            });
        }
        all.ok_or(libc::EINVAL)
    }

    /// The fences.
    pub(crate) fn parts(&self) -> &[Part<P>] {
        &self.parts
    }

    /// What the program called it, else what its fence is called.
    pub(crate) fn text(&self) -> [u8; 32] {
        if self.name.first() != Some(&0) {
            return cut(&self.name);
        }
        match self.parts.as_slice() {
            [part] => {
                let name = String::from_utf8_lossy(&part.timeline.text);
                let Name {
                    driver, context, ..
                } = &*part.timeline;
                cut(format!("{driver}-{name}{context}-{}", part.number).as_bytes())
            }
            _ => cut(b"dma_fence_array-unbound"),
        }
    }
}

impl<P: Provider> Part<P> {
    /// What is told of it.
    pub(crate) fn info(&self, status: i32) -> SyncFenceInfo {
        SyncFenceInfo {
            obj_name: cut(&self.timeline.text),
            driver_name: cut(self.timeline.driver.as_bytes()),
            status,
            flags: 0,
            timestamp_ns: if status == 0 {
                0
            } else {
                self.times.note_end()
            },
        }
    }
}

/// A C string in 32 bytes.
fn cut(text: &[u8]) -> [u8; 32] {
    let mut field = [0; 32];
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    for (to, from) in field.iter_mut().zip(text).take(31) {
        *to = *from;
    }
    field
}

/// Values wrap, as the kernel's do: later is less than half the range ahead.
pub(crate) fn is_reached(value: u32, at: u32) -> bool {
    at.wrapping_sub(value).cast_signed() <= 0
}

#[cfg(test)]
mod tests {
    use super::is_reached;

    #[test]
    fn half_the_range_behind_is_reached_as_in_the_kernel() {
        assert!(is_reached(5, 5));
        assert!(!is_reached(5, 6));
        assert!(is_reached(0, 1 << 31));
        assert!(!is_reached(0, (1 << 31) - 1));
        assert!(is_reached(1, u32::MAX));
    }
}
