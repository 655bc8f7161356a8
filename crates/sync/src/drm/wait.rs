//! Waits on kernel objects: by what is known of them, on their twins, or in the kernel.

use std::os::fd::AsFd as _;

use towpath_sys::drm::{self as sys, calls};

use super::{Drm, Object};
use crate::error::{Error, Result};
use crate::inline::Inline;
use crate::local;
use crate::provider::{Entry, WaitFor, Waited};
use crate::time::Deadline;

/// Objects that a wait holds in its own frame.
const INLINE: usize = 64;

impl Drm {
    /// Waits, with a hint of when the result is needed. Drivers may raise clocks for it.
    ///
    /// # Errors
    ///
    /// As [`Provider::wait`](crate::Provider::wait); kernels before 6.6 refuse the hint with `EINVAL`.
    pub fn wait_with_hint(
        &self,
        entries: &[Entry<'_, Object>],
        what: WaitFor,
        deadline: Deadline,
        needed_at: Option<Deadline>,
    ) -> Result<Waited> {
        if let Some(answer) = wait_on_twins(entries, what, deadline) {
            return answer;
        }
        let mut handles = Inline::<u32, INLINE>::new(0);
        let mut points = Inline::<u64, INLINE>::new(0);
        let mut first = None;
        let mut known = 0;
        for (index, entry) in entries.iter().enumerate() {
            if entry.object.is_known_reached(entry.point) {
                first = first.or(Some(index));
                known += 1;
            }
            handles.push(entry.object.0.number);
            points.push(entry.point);
        }
        // On any, the others are looked at too: one never submitted is an error in the kernel, and one
        // before it that is ready is the first.
        let is_any = !what.all && what.takes_absent() && first == Some(0);
        if known == entries.len() || is_any {
            return Ok(Waited { first });
        }
        let wait = calls::Wait {
            handles: handles.as_slice(),
            points: Some(points.as_slice()),
            timeout_nsec: deadline.as_nanoseconds(),
            flags: flags(what, needed_at.is_some()),
            deadline_nsec: needed_at
                .map_or(0, |at| u64::try_from(at.as_nanoseconds()).unwrap_or(0)),
            first_before: u32::MAX,
        };
        let (answer, first) = calls::timeline_wait(self.fd.as_fd(), &wait);
        answer.map_err(|source| wait_error(source, entries))?;
        let first = usize::try_from(first)
            .ok()
            .filter(|first| *first < entries.len());
        if !what.available {
            remember(entries, what, first);
        }
        Ok(Waited { first })
    }
}

/// The wait on the twins, if all objects have one till its end.
fn wait_on_twins(
    entries: &[Entry<'_, Object>],
    what: WaitFor,
    deadline: Deadline,
) -> Option<Result<Waited>> {
    let have_twins = || entries.iter().all(|entry| entry.object.has_twin());
    let first = entries.first().filter(|_| have_twins())?;
    let mut twins = Inline::<Entry<'_, local::Object>, INLINE>::new(Entry {
        object: &first.object.0.twin,
        point: 0,
    });
    for entry in entries {
        twins.push(Entry {
            object: &entry.object.0.twin,
            point: entry.point,
        });
    }
    let mut answer = local::wait(twins.as_slice(), what, deadline);
    if answer.is_err() {
        // The kernel may have said already, to an eventfd for one, what a twin is about to learn: who asks
        // because of that would sleep for ever on a "not yet".
        for entry in entries {
            entry.object.settle();
        }
        answer = local::wait(twins.as_slice(), what, deadline);
    }
    // A twin that was left ends all waits on it; the kernel's object says how they go on.
    have_twins().then_some(answer)
}

fn flags(what: WaitFor, has_hint: bool) -> u32 {
    [
        (what.all, sys::WAIT_ALL),
        (what.submit, sys::WAIT_FOR_SUBMIT),
        (what.available, sys::WAIT_AVAILABLE),
        (has_hint, sys::WAIT_DEADLINE),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .fold(0, |flags, (_, flag)| flags | flag)
}

fn wait_error(source: std::io::Error, entries: &[Entry<'_, Object>]) -> Error {
    match source.raw_os_error() {
        Some(libc::ETIME) => Error::TimedOut {
            objects: entries.len(),
        },
        Some(libc::EINVAL) => Error::NotSubmitted {
            index: 0,
            point: entries.first().map_or(0, |entry| entry.point),
        },
        _ => Error::System {
            operation: "wait for sync objects",
            source,
        },
    }
}

fn remember(entries: &[Entry<'_, Object>], what: WaitFor, first: Option<usize>) {
    for (index, entry) in entries.iter().enumerate() {
        if what.all || first == Some(index) {
            entry.object.remember(entry.point);
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn private() -> std::io::Result<Object> {
        let drm = Drm {
            fd: Arc::new(std::fs::File::open("/dev/null")?.into()),
        };
        Ok(drm.object(1, true, false))
    }

    /// The kernel rang a doorbell; its waiter looked before the twin was told, saw nothing, and slept on.
    #[test]
    fn a_look_sees_what_the_kernel_has_shown_though_the_twin_is_not_told_yet() {
        let object = private().unwrap();
        let (shown, seen) = channel();
        std::thread::scope(|scope| {
            let object = &object;
            scope.spawn(move || {
                let kernel = || {
                    shown.send(()).map_err(std::io::Error::other)?;
                    std::thread::sleep(Duration::from_millis(50));
                    Ok(())
                };
                object.change(kernel, |twin| twin.signal_point(1))
            });
            assert_eq!(seen.recv(), Ok(()));
            for what in [WaitFor::ALL, WaitFor::ANY.for_submit()] {
                let entries = [Entry { object, point: 1 }];
                let answer = wait_on_twins(&entries, what, Deadline::POLL);
                assert!(matches!(answer, Some(Ok(_))), "{what:?}: {answer:?}");
            }
        });
    }
}
