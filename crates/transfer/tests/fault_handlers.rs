//! Programs that serve their own page faults: a handler must see those of helpers, too.
//!
//! Helpers once blocked every signal, and the kernel ends a process whose thread faults with the signal
//! blocked, whatever handler there is.

#![expect(unsafe_code, reason = "protects memory and handles the faults")]

use std::sync::atomic::{AtomicUsize, Ordering};

use towpath_memory::Mapping;
use towpath_transfer::engine::null::{Null, NullMemory};
use towpath_transfer::engine::{Bring, Destination, Engine, Shape};
use towpath_transfer::readback::Footprint;

const BYTES: usize = 16 << 20;
/// What the handler makes writable at a time.
const BLOCK: usize = 64 << 10;

static START: AtomicUsize = AtomicUsize::new(0);
static SERVED: AtomicUsize = AtomicUsize::new(0);

/// A write barrier: makes the block writable and lets the store happen again.
extern "C" fn serve(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives the information with `SA_SIGINFO`.
    let info = unsafe { &*info };
    // SAFETY: a fault has an address.
    let address = unsafe { info.si_addr() }.addr();
    let start = START.load(Ordering::Relaxed);
    if !(start..start + BYTES).contains(&address) {
        // SAFETY: ends the process.
        unsafe { libc::_exit(3) };
    }
    SERVED.fetch_add(1, Ordering::Relaxed);
    let block = std::ptr::with_exposed_provenance_mut(address / BLOCK * BLOCK);
    // SAFETY: the block lies in the mapping, which only gains a right.
    let _code = unsafe { libc::mprotect(block, BLOCK, libc::PROT_READ | libc::PROT_WRITE) };
}

#[test]
fn a_write_barrier_of_the_program_serves_the_stores_of_helpers() {
    // SAFETY: an all-zero structure is a valid one without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = (serve as *const ()).expose_provenance();
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: a live action; the handler calls only what a handler may.
    let set = unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0);

    let mut host = Mapping::anonymous(BYTES + BLOCK).unwrap();
    let start = host.range().address.next_multiple_of(BLOCK);
    let over = start - host.range().address;
    START.store(start, Ordering::Relaxed);
    let memory = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the bytes lie in the mapping, which nothing uses yet.
    assert_eq!(unsafe { libc::mprotect(memory, BYTES, libc::PROT_READ) }, 0);

    let device = NullMemory::new(vec![7; BYTES]);
    let footprint = Footprint::buffer(start, BYTES).unwrap();
    // SAFETY: the bytes lie in the mapping, which only the engine and the handler touch.
    let to = unsafe { Destination::new(footprint, Bring::Nothing) };
    let moved = Engine::new(Null, Shape::new(3, 2 << 20))
        .read(&device, 0, &to)
        .unwrap();
    assert_eq!((moved.bytes, moved.threads), (BYTES, 3));
    assert!(SERVED.load(Ordering::Relaxed) >= BYTES / BLOCK);
    let found = host.as_mut_slice().get(over..over + BYTES).unwrap();
    assert!(found.iter().all(|byte| *byte == 7));
}
