//! The table against a library that only keeps lists.

use std::cell::Cell;
use std::ffi::OsString;
use std::process::Command;

use towpath_counting::{Counting, in_thread};
use towpath_settings::Settings;
use towpath_transfer::textures::{Direction, Ram};

use super::*;
use crate::remap;

thread_local! {
    /// What the library of these tests holds, and how often it was told.
    static HELD: Cell<(*mut iovec, c_int, u32)> =
        const { Cell::new((std::ptr::null_mut(), 0, 0)) };
}

unsafe extern "C" fn attach(_handle: c_int, list: *mut iovec, count: c_int) -> c_int {
    let (_, _, told) = HELD.get();
    HELD.set((list, count, told + 1));
    0
}

unsafe extern "C" fn detach(_handle: c_int, list: *mut *mut iovec, count: *mut c_int) {
    let (held, len, told) = HELD.get();
    // SAFETY: two places of the caller's.
    unsafe { list.write(held) };
    // SAFETY: as above.
    unsafe { count.write(len) };
    HELD.set((std::ptr::null_mut(), 0, told));
}

const REAL: Real = Real {
    create: None,
    create_blob: None,
    import_blob: None,
    import_image: None,
    unref: None,
    attach: Some(attach),
    detach: Some(detach),
    write: None,
    read: None,
    submit: None,
    reset: None,
    cleanup: None,
};

fn state(fix: &'static str) -> State {
    let (settings, problems) = Settings::read(|name| match name {
        "TOWPATH_FIX" => Some(OsString::from(fix)),
        // Nothing stored: the default model.
        "XDG_STATE_HOME" => Some(OsString::from("/nonexistent")),
        _ => None,
    });
    State::of(&settings, problems)
}

/// A picture of 64 x 64 texels in four scattered pages.
struct Guest {
    _ram: Ram,
    list: Vec<iovec>,
    table: Table,
    state: State,
    handle: u32,
}

impl Guest {
    fn new(fix: &'static str, handle: u32) -> Self {
        let ram = Ram::new(16 * 4096).unwrap();
        let list = [6, 2, 9, 4].map(|page| iovec {
            iov_base: ram.bytes().as_ptr().wrapping_add(page * 4096).cast(),
            iov_len: 4096,
        });
        let mut guest = Self {
            _ram: ram,
            list: list.to_vec(),
            table: Table::default(),
            state: state(fix),
            handle,
        };
        let args = CreateArgs {
            handle,
            target: 2,
            format: 67,
            bind: 0,
            width: 64,
            height: 64,
            depth: 1,
            array_size: 1,
            last_level: 0,
            nr_samples: 0,
            flags: 0,
        };
        guest.table.created(&guest.state, &args);
        HELD.set((guest.list.as_mut_ptr(), 4, 0));
        let list = guest.list.as_mut_ptr();
        // SAFETY: four entries that live as long as the guest.
        unsafe { guest.table.attached(&guest.state, handle, list, 4) };
        guest
    }

    /// A transfer that takes 10 us through the list and `one` through one piece; says what was held.
    fn transfer(&mut self, stride: u64, one: u64) -> (c_int, Option<Seen>) {
        let mut request = Request::picture(64, 64, Direction::Upload);
        request.stride = stride;
        let extent = crate::real::Extent {
            x: 0,
            y: 0,
            z: 0,
            w: 64,
            h: 64,
            d: 1,
        };
        if !watch::must_look(self.handle, &extent) {
            return (HELD.get().1, None);
        }
        let known = (self.handle, &request);
        let seen = self.table.before(&self.state, &REAL, known, true).unwrap();
        let held = HELD.get().1;
        if seen.is_timed {
            let wall = Nanos(if held == 1 { one } else { 10_000 });
            let (state, bytes) = (&self.state, seen.bytes);
            self.table.after(state, &REAL, self.handle, bytes, wall);
        }
        (held, Some(seen))
    }

    fn end(mut self) {
        let theirs = self.table.detached(&self.state, self.handle);
        assert_eq!(theirs, Some((self.list.as_mut_ptr(), 4)));
        assert_eq!(self.table.taken, Taken::default());
    }
}

/// Free transfers, then both sides in turn, then what was faster: 82 by the model, 32, and ever after.
#[test]
fn one_piece_is_counted_for_tried_and_kept() {
    let mut guest = Guest::new("auto", 21);
    let all: Vec<_> = (0..200).map(|_| guest.transfer(256, 5000)).collect();
    let free = all.iter().take_while(|(_, seen)| seen.is_none()).count();
    assert!((60..90).contains(&free), "{free} were not looked at");
    let first = all.iter().position(|(held, _)| *held == 1).unwrap();
    assert!(first - free < 5, "{free} {first}");
    let trial: Vec<c_int> = all[first..first + 30]
        .iter()
        .map(|(held, _)| *held)
        .collect();
    assert_eq!(trial, [1, 4].repeat(15));
    assert!(all[first + 32..].iter().all(|(held, _)| *held == 1));
    let told = HELD.get().2;
    assert!(told < 40, "the library was told {told} times");
    guest.end();
}

#[test]
fn one_piece_that_loses_is_given_back_and_rests() {
    let mut guest = Guest::new("auto", 22);
    let all: Vec<_> = (0..300).map(|_| guest.transfer(256, 11_000)).collect();
    let last = all.iter().rposition(|(held, _)| *held == 1).unwrap();
    assert!(last < 130, "{last}");
    assert!(
        all[250..]
            .iter()
            .all(|(held, seen)| *held == 4 && seen.is_none())
    );
    guest.end();
}

#[test]
fn a_size_that_lost_often_is_not_tried_again() {
    let mut guest = Guest::new("auto", 23);
    let score = guest.table.score(16_384);
    (score.won, score.lost) = (1, 4);
    let handle = guest.handle;
    guest.table.detached(&guest.state, handle);
    let list = guest.list.as_mut_ptr();
    // SAFETY: as in `Guest::new`.
    unsafe { guest.table.attached(&guest.state, handle, list, 4) };
    assert!(!watch::may_watch(handle));
}

/// The library refuses an empty box if it holds several pieces, and takes some if it holds one.
#[test]
fn an_empty_box_gets_the_list() {
    let mut guest = Guest::new("upload", 29);
    assert_eq!(guest.transfer(256, 1).0, 1, "forced at once");
    let mut request = Request::picture(64, 64, Direction::Upload);
    request.region.depth = 0;
    let known = (guest.handle, &request);
    let seen = guest.table.before(&guest.state, &REAL, known, true);
    assert_eq!(HELD.get().1, 4);
    assert_eq!(seen.unwrap().outcome, Outcome::Unsupported);
    guest.end();
}

/// A row outside, or a stride in which GL cannot count, while one piece is held: the list goes back first.
#[test]
fn a_transfer_that_does_not_fit_gets_the_list() {
    for stride in [u64::from(u32::MAX), 255, 257] {
        let mut guest = Guest::new("upload", 24);
        assert_eq!(guest.transfer(256, 1).0, 1, "forced at once");
        let (held, seen) = guest.transfer(stride, 1);
        assert_eq!(held, 4, "{stride}");
        assert_eq!(seen.unwrap().outcome, Outcome::Unsupported);
        guest.end();
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Counted, tried and kept; lost and given back; forced; not fitting: what is settled allocates nothing.
#[test]
fn no_transfer_allocates_once_settled() {
    for (fix, one, handle) in [
        ("auto", 5000, 25),
        ("auto", 11_000, 26),
        ("upload", 5000, 27),
    ] {
        let mut guest = Guest::new(fix, handle);
        for _transfer in 0..300 {
            guest.transfer(256, one);
        }
        let held = guest.transfer(256, one).0;
        let before = in_thread();
        for _transfer in 0..1000 {
            guest.transfer(256, one);
        }
        assert_eq!(in_thread() - before, 0, "{fix}, one piece takes {one} ns");
        assert_eq!(held, if one == 5000 { 1 } else { 4 });
        for stride in [255, 256, 255, 256] {
            guest.transfer(stride, one);
        }
        let before = in_thread();
        for transfer in 0..1000 {
            guest.transfer(255 + transfer % 2, one);
        }
        assert_eq!(in_thread() - before, 0, "{fix}, some do not fit");
        guest.end();
    }
}

/// What passes before a look is due allocates nothing from the first transfer on.
#[test]
fn no_transfer_allocates_while_counted() {
    let mut guest = Guest::new("auto", 28);
    let before = in_thread();
    for _transfer in 0..16 {
        assert!(guest.transfer(256, 1).1.is_none());
    }
    assert_eq!(in_thread(), before);
    guest.end();
}

/// Alone in its process: threads of other tests map and guard their stacks.
#[test]
fn mappings_away_from_all_pieces_are_passed_on_by_a_comparison() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--test-threads=1"])
        .arg("table::tests::inner_mappings")
        .status();
    assert!(status.unwrap().success());
}

#[test]
#[ignore = "runs in a child"]
fn inner_mappings() {
    let mut guest = Guest::new("upload", 30);
    assert_eq!(guest.transfer(256, 1).0, 1, "a view");
    let noted = CHANGES.count();
    let before = in_thread();
    for _round in 0..1000 {
        let page = elsewhere();
        assert_eq!(errno(), 17, "kept");
        // SAFETY: a page that `elsewhere` has just mapped.
        assert_eq!(unsafe { remap::munmap(page, 4096) }, 0);
        assert_eq!(errno(), 17, "kept");
        // SAFETY: no memory is named.
        assert_eq!(unsafe { remap::munmap(page.wrapping_byte_add(1), 1) }, -1);
        assert_eq!(errno(), libc::EINVAL, "the kernel's answer");
    }
    assert_eq!(in_thread(), before);
    assert_eq!(CHANGES.count(), noted, "no change is near the pieces");
    let piece = guest.list[1].iov_base;
    // SAFETY: a page of the guest's; it may be read and written as before.
    assert_eq!(unsafe { remap::mprotect(piece, 4096, 3) }, 0);
    assert_eq!(CHANGES.count(), noted + 1);
    assert_eq!(in_thread(), before);
    assert_eq!(guest.transfer(256, 1).0, 4, "the program's list");
    guest.end();
}

/// Maps a page by every function that is watched, with `errno` at 17 before.
fn elsewhere() -> *mut std::ffi::c_void {
    let (flags, none) = (
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        std::ptr::null_mut(),
    );
    // SAFETY: no argument.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: this thread's own place.
    unsafe { place.write(17) };
    // SAFETY: a new mapping.
    let page = unsafe { remap::mmap(none, 8192, 3, flags, -1, 0) };
    // SAFETY: the same place again.
    let same = unsafe { remap::mmap64(page, 8192, 3, flags | libc::MAP_FIXED, -1, 0) };
    assert_eq!(same, page);
    // SAFETY: a page of its own.
    assert_eq!(unsafe { remap::mprotect(page, 4096, 1) }, 0);
    // SAFETY: it gets shorter where it is.
    let same = unsafe { remap::mremap(page, 8192, 4096, 0, none) };
    assert_eq!(same, page);
    page
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}
