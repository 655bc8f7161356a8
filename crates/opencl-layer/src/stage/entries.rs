//! One staging per program queue: with a queue of its own, so that a copy that waits for one program
//! queue never stands in the way of another's.
#![expect(unsafe_code, reason = "makes a queue in the program's context")]

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use opencl_sys::{
    CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, CL_QUEUE_REFERENCE_COUNT, cl_command_queue, cl_mem, cl_uint,
};
use towpath_memory::cpus;
use towpath_transfer::engine::Shape;
use towpath_transfer::opencl::{Buffer, Cl, Functions, Image, Staging};

use super::functions;
use crate::{devices, inside};

/// The staging of one program queue.
#[derive(Debug)]
pub(crate) struct Entry {
    queue: usize,
    token_buffer: OnceLock<Option<Buffer>>,
    token_image: OnceLock<Option<Image>>,
    cl: Cl,
    staging: Staging,
}

impl Entry {
    pub(super) fn staging(&self) -> &Staging {
        &self.staging
    }

    pub(super) fn functions(&self) -> &Functions {
        self.cl.functions()
    }

    /// A small buffer of our own in the program's context.
    pub(super) fn token_buffer(&self) -> Option<cl_mem> {
        self.token_buffer
            .get_or_init(|| self.cl.buffer(4096).ok())
            .as_ref()
            .map(Buffer::handle)
    }

    /// An image of one pixel.
    pub(super) fn token_image(&self) -> Option<cl_mem> {
        self.token_image
            .get_or_init(|| self.cl.image(1, 1).ok())
            .as_ref()
            .map(Image::handle)
    }
}

static ENTRIES: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());
/// Entries now; 0 spares releases the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The process that made them: a forked child must not touch lock or driver.
static MAKER: AtomicU32 = AtomicU32::new(0);

/// Threads of a narrow shape.
const NARROW_THREADS: usize = 4;
/// Queues with staging at a time; the pinned memory of each is bounded by its shape.
const ENTRIES_MAX: usize = 4;
/// Device memory kept between copies for each queue, in bytes.
const SCRATCH_BYTES_MAX: usize = 256 << 20;

/// The staging of a queue, made at the first call.
pub(super) fn of(queue: cl_command_queue) -> Option<Arc<Entry>> {
    if COUNT.load(Ordering::Relaxed) > 0 && !is_maker() {
        return None;
    }
    let mut entries = ENTRIES.lock().ok()?;
    let found = entries.iter().find(|entry| entry.queue == queue.addr());
    if let Some(entry) = found {
        return Some(Arc::clone(entry));
    }
    if entries.len() >= ENTRIES_MAX {
        return None;
    }
    drop_aside();
    let entry = Arc::new(make(queue, most_pinned())?);
    MAKER.store(std::process::id(), Ordering::Relaxed);
    entries.push(Arc::clone(&entry));
    COUNT.store(entries.len(), Ordering::Relaxed);
    Some(entry)
}

fn is_maker() -> bool {
    MAKER.load(Ordering::Relaxed) == std::process::id()
}

fn make(queue: cl_command_queue, shape: Shape) -> Option<Entry> {
    let functions = functions::get()?;
    let context: usize = devices::ask_queue(queue, CL_QUEUE_CONTEXT)?;
    let device: usize = devices::ask_queue(queue, CL_QUEUE_DEVICE)?;
    if context == 0 || device == 0 {
        return None;
    }
    let context = std::ptr::with_exposed_provenance_mut(context);
    let device = std::ptr::with_exposed_provenance_mut(device);
    // SAFETY: the driver named both for a live queue of the program.
    let cl = unsafe { Cl::on_context(functions, context, device) }.ok()?;
    Some(Entry {
        queue: queue.addr(),
        token_buffer: OnceLock::new(),
        token_image: OnceLock::new(),
        staging: Staging::new(cl.clone(), shape, SCRATCH_BYTES_MAX),
        cl,
    })
}

/// What the pinned memory of a queue is bounded by: the widest shape's, and beside it that of a narrow one
/// with large chunks, so that a program whose calls are of both kinds does not pin at every call.
fn most_pinned() -> Shape {
    let forced = shape();
    let narrow = Shape::new(NARROW_THREADS, Shape::LARGE_CHUNK_BYTES);
    let bytes = forced.pinned_bytes() + narrow.pinned_bytes();
    Shape {
        slots: bytes / forced.chunk_bytes,
        ..forced
    }
}

/// Where staging is forced: three quarters of the processors, twelve at most.
pub(crate) fn shape() -> Shape {
    let threads = (cpus::usable() * 3 / 4).clamp(1, 12);
    Shape::new(threads, Shape::CHUNK_BYTES)
}

/// The program releases a queue: with its last reference its staging goes, before the driver's answer.
///
/// Inside a callback nothing can be given back, nor the driver asked whether this is the last reference:
/// the staging is put aside, and a queue that lives on gets another.
pub(crate) fn release(queue: cl_command_queue) {
    if COUNT.load(Ordering::Relaxed) == 0 || !is_maker() {
        return;
    }
    let Ok(mut entries) = ENTRIES.lock() else {
        return;
    };
    let Some(at) = entries.iter().position(|entry| entry.queue == queue.addr()) else {
        return;
    };
    let in_callback = inside::is_callback();
    if !in_callback {
        let references: Option<cl_uint> = devices::ask_queue(queue, CL_QUEUE_REFERENCE_COUNT);
        if references.is_some_and(|count| count > 1) {
            return;
        }
    }
    let gone = entries.swap_remove(at);
    if in_callback {
        if let Ok(mut aside) = ASIDE.lock() {
            aside.push(gone);
        }
        return;
    }
    COUNT.store(entries.len(), Ordering::Relaxed);
    drop(entries);
    drop(gone);
    drop_aside();
}

/// Staging that a callback released, to be given back outside of it.
static ASIDE: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

fn drop_aside() {
    let aside = ASIDE.lock().map(|mut aside| std::mem::take(&mut *aside));
    drop(aside);
}

/// Gives everything back.
pub(crate) fn release_all() {
    if COUNT.load(Ordering::Relaxed) == 0 || !is_maker() {
        return;
    }
    drop_aside();
    if let Ok(mut entries) = ENTRIES.lock() {
        COUNT.store(0, Ordering::Relaxed);
        entries.clear();
    }
}
