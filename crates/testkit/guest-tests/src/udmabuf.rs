//! udmabuf as the kernel has it: creation, limits, seals, errors, mapping, synchronising; and the views
//! of `towpath-memory` on it.

#![expect(unsafe_code, reason = "raw mappings, to see what the kernel answers")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap, munmap};
use towpath_guest_tests::{Check, errno, run, same, say};
use towpath_memory::memfd::{HUGE, Memfd, PAGE};
use towpath_memory::view::{self, FilePiece, View};
use towpath_sys::dma_buf::{Access, sync_end, sync_start};
use towpath_sys::udmabuf::{self, Item, create, create_list};

fn main() -> ExitCode {
    run(&CHECKS)
}

const CHECKS: [Check; 16] = [
    ("create", one_run_of_pages_becomes_a_buffer),
    ("list", a_list_keeps_its_order),
    ("same-page", one_page_may_stand_in_a_list_1024_times),
    ("errors-size", sizes_and_offsets_that_are_refused),
    ("errors-seal", seals_that_are_refused),
    ("errors-file", descriptors_that_are_refused),
    ("limits", limits_are_what_the_parameters_say),
    ("seal-late", a_write_seal_is_refused_while_the_buffer_lives),
    ("map-private", a_private_mapping_is_refused),
    ("map-grow", a_mapping_cannot_grow),
    ("map-pin", a_mapping_cannot_be_pinned),
    ("sync", synchronising_is_balanced),
    ("hugetlb", huge_pages_give_4k_pieces_to_udmabuf_only),
    ("view", a_view_shows_the_pieces),
    ("view-error", a_view_that_fails_leaves_nothing),
    ("leaks", many_views_leave_nothing_behind),
];

type Outcome = Result<String, String>;

fn device() -> Result<File, String> {
    let open = File::options().read(true).write(true).open("/dev/udmabuf");
    open.map_err(say("open /dev/udmabuf"))
}

fn sealed(pages: u64) -> Result<Memfd, String> {
    Memfd::new("test", pages * PAGE).map_err(say("memfd"))
}

/// Page `n` of the file holds `n` in every byte.
fn numbered(pages: u64) -> Result<Memfd, String> {
    let file = sealed(pages)?;
    let view = View::stitch(&[piece(&file, 0, pages)]).map_err(say("stitch"))?;
    for page in 0..pages {
        let at = usize::try_from(page * PAGE).map_err(say("page"))?;
        let bytes = view.bytes().get(at, 4096).ok_or("page")?;
        bytes.fill(u8::try_from(page % 256).map_err(say("page"))?);
    }
    Ok(file)
}

fn piece(file: &Memfd, page: u64, pages: u64) -> FilePiece<'_> {
    FilePiece {
        file: file.as_fd(),
        offset: page * PAGE,
        len: pages * PAGE,
    }
}

fn map(fd: impl AsFd, len: usize, flags: MapFlags) -> io::Result<*mut u8> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, fd, 0) }?;
    Ok(start.cast())
}

fn unmap(start: *mut u8, len: usize) {
    // SAFETY: the range was mapped by `map` and is not used any more.
    let _unmapped = unsafe { munmap(start.cast(), len) };
}

fn byte(start: *mut u8, at: usize) -> u8 {
    let place = start.wrapping_add(at);
    // SAFETY: the callers stay inside what they mapped.
    unsafe { place.read_volatile() }
}

fn put(start: *mut u8, at: usize, value: u8) {
    let place = start.wrapping_add(at);
    // SAFETY: as in `byte`.
    unsafe { place.write_volatile(value) };
}

fn one_run_of_pages_becomes_a_buffer() -> Outcome {
    let file = numbered(4)?;
    let item = Item::new(file.as_fd(), PAGE, 2 * PAGE);
    let buffer = create(device()?.as_fd(), item).map_err(say("create"))?;
    let start = map(&buffer, 8192, MapFlags::SHARED).map_err(say("mmap"))?;
    same("first page", &byte(start, 0), &1)?;
    same("second page", &byte(start, 8191), &2)?;
    put(start, 4096, 77);
    let whole = View::stitch(&[piece(&file, 0, 4)]).map_err(say("stitch"))?;
    same(
        "shared write",
        &whole.bytes().to_vec().get(8192),
        &Some(&77),
    )?;
    unmap(start, 8192);
    Ok(String::new())
}

fn a_list_keeps_its_order() -> Outcome {
    let file = numbered(8)?;
    let items = [6, 1, 3].map(|page| Item::new(file.as_fd(), page * PAGE, PAGE));
    let buffer = create_list(device()?.as_fd(), &items).map_err(say("create"))?;
    let start = map(&buffer, 3 * 4096, MapFlags::SHARED).map_err(say("mmap"))?;
    let seen = [byte(start, 0), byte(start, 4096), byte(start, 8192)];
    unmap(start, 3 * 4096);
    same("pages", &seen, &[6, 1, 3])?;
    Ok(String::new())
}

fn one_page_may_stand_in_a_list_1024_times() -> Outcome {
    let file = sealed(1)?;
    let items = vec![Item::new(file.as_fd(), 0, PAGE); udmabuf::LIST_LIMIT];
    create_list(device()?.as_fd(), &items).map_err(say("create"))?;
    Ok(String::new())
}

fn sizes_and_offsets_that_are_refused() -> Outcome {
    let file = sealed(20_000)?;
    let device = device()?;
    let fd = file.as_fd();
    let table = [
        ("size 100", Item::new(fd, 0, 100)),
        ("offset 100", Item::new(fd, 100, PAGE)),
        ("size 0", Item::new(fd, 0, 0)),
        ("past the end", Item::new(fd, 19_999 * PAGE, 2 * PAGE)),
        ("65 MiB", Item::new(fd, 0, 65 << 20)),
    ];
    for (what, item) in table {
        let seen = errno(what, create(device.as_fd(), item))?;
        same(what, &seen, &libc::EINVAL)?;
        let seen = errno(what, create_list(device.as_fd(), &[item]))?;
        same(what, &seen, &libc::EINVAL)?;
    }
    let seen = errno("count 0", create_list(device.as_fd(), &[]))?;
    same("count 0", &seen, &libc::EINVAL)?;
    let many = vec![Item::new(fd, 0, PAGE); udmabuf::LIST_LIMIT + 1];
    let seen = errno("1025 items", create_list(device.as_fd(), &many))?;
    same("1025 items", &seen, &libc::EINVAL)?;
    create(device.as_fd(), Item::new(fd, 0, udmabuf::SIZE_LIMIT)).map_err(say("64 MiB"))?;
    Ok(String::new())
}

fn seals_that_are_refused() -> Outcome {
    let device = device()?;
    let table = [
        ("unsealed", SealFlags::empty()),
        ("write seal", SealFlags::SHRINK | SealFlags::WRITE),
    ];
    for (what, seals) in table {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).map_err(say("memfd"))?;
        ftruncate(&file, PAGE).map_err(say("size"))?;
        fcntl_add_seals(&file, seals).map_err(say("seal"))?;
        let item = Item::new(file.as_fd(), 0, PAGE);
        same(
            what,
            &errno(what, create(device.as_fd(), item))?,
            &libc::EINVAL,
        )?;
    }
    Ok(String::new())
}

fn descriptors_that_are_refused() -> Outcome {
    let device = device()?;
    let file = File::open("/proc/version").map_err(say("open"))?;
    let seen = errno(
        "a file",
        create(device.as_fd(), Item::new(file.as_fd(), 0, PAGE)),
    )?;
    same("a file", &seen, &libc::EBADFD)?;
    let none = Item {
        memfd: 9999,
        size: PAGE,
        ..Item::default()
    };
    let seen = errno("no descriptor", create(device.as_fd(), none))?;
    same("no descriptor", &seen, &libc::EBADFD)?;
    Ok(String::new())
}

fn limits_are_what_the_parameters_say() -> Outcome {
    let read = |name: &str| {
        let path = format!("/sys/module/udmabuf/parameters/{name}");
        let text = std::fs::read_to_string(&path).map_err(say("parameter"))?;
        text.trim().parse::<u64>().map_err(say("parameter"))
    };
    let (list, mib) = (read("list_limit")?, read("size_limit_mb")?);
    same("list_limit", &list, &(udmabuf::LIST_LIMIT as u64))?;
    same("size_limit_mb", &(mib << 20), &udmabuf::SIZE_LIMIT)?;
    Ok(format!("{list} items, {mib} MiB"))
}

fn a_write_seal_is_refused_while_the_buffer_lives() -> Outcome {
    let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).map_err(say("memfd"))?;
    ftruncate(&file, PAGE).map_err(say("size"))?;
    fcntl_add_seals(&file, SealFlags::SHRINK).map_err(say("seal"))?;
    let buffer =
        create(device()?.as_fd(), Item::new(file.as_fd(), 0, PAGE)).map_err(say("create"))?;
    let late = fcntl_add_seals(&file, SealFlags::WRITE).map_err(io::Error::from);
    same("late seal", &errno("late seal", late)?, &libc::EBUSY)?;
    drop(buffer);
    Ok(String::new())
}

fn one_page_buffer() -> Result<(Memfd, OwnedFd), String> {
    let file = sealed(1)?;
    let item = Item::new(file.as_fd(), 0, PAGE);
    let buffer = create(device()?.as_fd(), item).map_err(say("create"))?;
    Ok((file, buffer))
}

fn a_private_mapping_is_refused() -> Outcome {
    let (_file, buffer) = one_page_buffer()?;
    let seen = errno("private", map(&buffer, 4096, MapFlags::PRIVATE))?;
    same("private", &seen, &libc::EINVAL)?;
    Ok(String::new())
}

fn a_mapping_cannot_grow() -> Outcome {
    let (_file, buffer) = one_page_buffer()?;
    let start = map(&buffer, 4096, MapFlags::SHARED).map_err(say("mmap"))?;
    // SAFETY: the mapping is ours; it stays where it is when the call fails.
    let grown = unsafe { mremap(start.cast(), 4096, 8192, MremapFlags::MAYMOVE) };
    let seen = errno("grow", grown.map_err(io::Error::from))?;
    unmap(start, 4096);
    same("grow", &seen, &libc::EFAULT)?;
    Ok(String::new())
}

/// A pipe that takes user pages without a copy must pin them, as a GPU's host pointer import does.
fn pin(bytes: *mut u8, len: usize) -> io::Result<usize> {
    let (_read, write) = rustix::pipe::pipe()?;
    let part = libc::iovec {
        iov_base: bytes.cast(),
        iov_len: len,
    };
    let fd = std::os::fd::AsRawFd::as_raw_fd(&write);
    // SAFETY: `part` names mapped memory of `len` bytes; the pipe is dropped before the mapping.
    let moved = unsafe { libc::vmsplice(fd, &raw const part, 1, 0) };
    usize::try_from(moved).map_err(|_negative| io::Error::last_os_error())
}

fn a_mapping_cannot_be_pinned() -> Outcome {
    let (file, buffer) = one_page_buffer()?;
    let start = map(&buffer, 4096, MapFlags::SHARED).map_err(say("mmap"))?;
    put(start, 0, 1);
    let udmabuf = pin(start, 4096);
    unmap(start, 4096);
    same("udmabuf", &errno("pin", udmabuf)?, &libc::EFAULT)?;
    let view = View::stitch(&[piece(&file, 0, 1)]).map_err(say("stitch"))?;
    let stitched = pin(view.pages().as_ptr(), 4096).map_err(say("pin a stitched view"))?;
    same("stitched", &stitched, &4096)?;
    Ok(String::new())
}

fn synchronising_is_balanced() -> Outcome {
    let (_file, buffer) = one_page_buffer()?;
    let fd = buffer.as_fd();
    let seen = errno("end first", sync_end(fd, Access::Read))?;
    same("end first", &seen, &libc::EINVAL)?;
    for access in [Access::Read, Access::Write, Access::ReadWrite] {
        sync_start(fd, access).map_err(say("start"))?;
        sync_end(fd, access).map_err(say("end"))?;
    }
    Ok(String::new())
}

fn huge_pages_give_4k_pieces_to_udmabuf_only() -> Outcome {
    let file = Memfd::huge("test", 2 * HUGE).map_err(say("memfd"))?;
    let whole = View::stitch(&[piece(&file, 0, 1024)]).map_err(say("stitch"))?;
    for page in [3, 700] {
        let bytes = whole.bytes().get(page * 4096, 4096).ok_or("page")?;
        bytes.fill(u8::try_from(page % 200).map_err(say("page"))?);
    }
    let pieces = [piece(&file, 700, 1), piece(&file, 3, 1)];
    match View::stitch(&pieces) {
        Err(view::Error::Unaligned { granularity, .. }) => {
            same("granularity", &granularity, &HUGE)?;
        }
        other => return Err(format!("a 4 KiB piece of a huge page: {other:?}")),
    }
    let view = View::udmabuf(device()?.as_fd(), &pieces).map_err(say("udmabuf"))?;
    let access = view.begin(Access::Read).map_err(say("begin"))?;
    let bytes = access.bytes().to_vec();
    same("first", &bytes.first(), &Some(&100))?;
    same("second", &bytes.get(4096), &Some(&3))?;
    let swapped = [piece(&file, 512, 512), piece(&file, 0, 512)];
    let stitched = View::stitch(&swapped).map_err(say("stitch 2 MiB pieces"))?;
    let bytes = stitched.bytes().to_vec();
    same("2 MiB pieces", &bytes.get((700 - 512) * 4096), &Some(&100))?;
    Ok(String::new())
}

fn a_view_shows_the_pieces() -> Outcome {
    let file = numbered(600)?;
    let device = device()?;
    let pieces: Vec<_> = (0..300).map(|n| piece(&file, 2 * n, 1)).collect();
    let stitched = View::stitch(&pieces).map_err(say("stitch"))?;
    let by_buffer = View::udmabuf(device.as_fd(), &pieces).map_err(say("udmabuf"))?;
    let access = by_buffer.begin(Access::ReadWrite).map_err(say("begin"))?;
    if access.bytes().to_vec() != stitched.bytes().to_vec() {
        return Err("the two views differ".into());
    }
    let place = access.bytes().get(5 * 4096, 1).ok_or("page")?;
    place.fill(255);
    drop(access);
    same(
        "shared",
        &stitched.bytes().to_vec().get(5 * 4096),
        &Some(&255),
    )?;
    Ok(String::new())
}

fn a_view_that_fails_leaves_nothing() -> Outcome {
    let file = sealed(3000)?;
    let device = device()?;
    let before = counts()?;
    let many: Vec<_> = (0..1025).map(|n| piece(&file, 2 * n, 1)).collect();
    let large = [piece(&file, 0, 3000); 6];
    for pieces in [&many[..], &large[..], &[]] {
        if View::udmabuf(device.as_fd(), pieces).is_ok() {
            return Err(format!("{} pieces were taken", pieces.len()));
        }
    }
    same("descriptors and mappings", &counts()?, &before)?;
    Ok(String::new())
}

fn many_views_leave_nothing_behind() -> Outcome {
    let file = numbered(64)?;
    let device = device()?;
    let pieces: Vec<_> = (0..32).map(|n| piece(&file, 2 * n, 1)).collect();
    let before = counts()?;
    let held_before = pins_held()?;
    for _round in 0..200 {
        let view = View::udmabuf(device.as_fd(), &pieces).map_err(say("udmabuf"))?;
        let _access = view.begin(Access::Read).map_err(say("begin"))?;
        View::stitch(&pieces).map_err(say("stitch"))?;
    }
    same("descriptors and mappings", &counts()?, &before)?;
    let held = pins_held()?;
    // The last buffer's pins are given back a moment after its descriptor is closed.
    if held.abs_diff(held_before) > 32 {
        return Err(format!("{held} pages pinned, {held_before} before"));
    }
    Ok(String::new())
}

/// Pages of the whole system that are pinned now.
fn pins_held() -> Result<i64, String> {
    let status = std::fs::read_to_string("/proc/vmstat").map_err(say("vmstat"))?;
    let read = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|value| value.trim().parse::<i64>().ok());
        value.ok_or_else(|| format!("no {name}in /proc/vmstat"))
    };
    Ok(read("nr_foll_pin_acquired ")? - read("nr_foll_pin_released ")?)
}

/// Open descriptors and mappings of this process.
fn counts() -> Result<(usize, usize), String> {
    let fds = std::fs::read_dir("/proc/self/fd")
        .map_err(say("fds"))?
        .count();
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(say("maps"))?;
    Ok((fds, maps.lines().count()))
}
