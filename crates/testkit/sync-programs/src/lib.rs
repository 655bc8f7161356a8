//! What fuzzing and ordinary tests do to shared objects: a peer that scribbles over the page while
//! threads of ours wait.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use towpath_sync::shared::{Object, Shared};
use towpath_sync::{Deadline, Entry, Provider as _, Result, WaitFor};

/// Where the first object's slot begins, its bytes, and the word of its lock; where fences begin.
const SLOT: u64 = 4096;
const SLOT_BYTES: u64 = 1704;
const LOCK: u64 = SLOT + 80;
const FENCES: u64 = 440_320;
/// No process has such a number: a lock that it holds is taken over at once. One that a living process
/// holds is waited for, for two seconds.
const NOBODY: u32 = 0x7fff_fff0;

/// Bytes of one step.
pub const STEP: usize = 12;

/// Plays `data`: each twelve bytes write a word somewhere, then something is done with the object, while
/// another thread waits for it. Whatever the answers, it returns.
///
/// # Errors
///
/// If the system gives no shared memory.
pub fn scribble(data: &[u8]) -> Result<()> {
    let shared = Shared::new();
    let object = shared.create(false)?;
    let Some(ticket) = shared.export(&object)? else {
        return Ok(());
    };
    let file = File::from(ticket);
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let many: Vec<_> = (0..130).map(|_| &object).collect();
            while !is_over.load(Ordering::Relaxed) {
                wait(&shared, &[&object], WaitFor::ALL.for_submit());
                wait(&shared, &[&object, &object], WaitFor::ANY.available());
                wait(&shared, &many, WaitFor::ALL.for_submit());
            }
        });
        for step in data.chunks_exact(STEP) {
            write(&file, bytes, step);
            act(&shared, &object, &file, step);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // Another arena is untouched.
    let other = Shared::new();
    let fine = other.create(true)?;
    let entry = Entry {
        object: &fine,
        point: 0,
    };
    other.wait(&[entry], WaitFor::ALL, Deadline::POLL).map(drop)
}

fn wait(shared: &Shared, objects: &[&Object], what: WaitFor) {
    let entries: Vec<_> = objects
        .iter()
        .map(|&object| Entry { object, point: 3 })
        .collect();
    let until = Deadline::after(Duration::from_micros(100));
    let _any_answer = shared.wait(&entries, what, until);
}

fn write(file: &File, bytes: u64, step: &[u8]) {
    let byte = |at: usize| u64::from(step.get(at).copied().unwrap_or(0));
    let place = byte(1) | byte(2) << 8;
    let at = match byte(0) % 4 {
        0 => 8 + place % 64,
        1 => SLOT + place % SLOT_BYTES,
        2 => FENCES + place % 396,
        _ => place * 8,
    } & !3;
    let mut value = [0; 8];
    for (value, given) in value.iter_mut().zip(step.get(4..).unwrap_or_default()) {
        *value = *given;
    }
    if (at..at + 8).contains(&LOCK) {
        let _written = file.write_at(&NOBODY.to_ne_bytes_of_the_page(), LOCK);
    } else if at + 8 <= bytes {
        let _written = file.write_at(&value, at);
    }
}

/// The page has the machine's byte order.
trait PageBytes {
    /// The bytes to write.
    fn to_ne_bytes_of_the_page(self) -> [u8; 4];
}

impl PageBytes for u32 {
    #[expect(
        clippy::host_endian_bytes,
        reason = "shared memory has the machine's byte order"
    )]
    fn to_ne_bytes_of_the_page(self) -> [u8; 4] {
        self.to_ne_bytes()
    }
}

/// Does something with the object; any answer will do.
fn act(shared: &Shared, object: &Object, file: &File, step: &[u8]) {
    let point = u64::from(step.get(3).copied().unwrap_or(0));
    match point % 8 {
        0 => drop(shared.signal_point(object, point)),
        1 => drop(shared.query(object)),
        2 => drop(shared.fence().and_then(|(_signaller, fence)| {
            shared.attach(object, point, &fence)?;
            shared.fence_of(object, point)
        })),
        3 => drop(shared.fence().map(|(signaller, fence)| {
            let attached = shared.attach(object, point, &fence);
            signaller.signal();
            (attached, shared.status(&fence))
        })),
        4 => drop(Shared::new().import(file.as_fd())),
        5 => drop(shared.create(point & 8 == 0)),
        6 => drop(object.promise()),
        _ => drop(shared.reset(object)),
    }
}
