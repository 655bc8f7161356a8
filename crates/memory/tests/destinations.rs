//! Residency and prefault on every kind of destination: exact counts of cold pages and faults,
//! content and errors unchanged.

#![expect(unsafe_code, reason = "tests map memory of many kinds")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::fs::File;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use towpath_memory::residency::{
    Fault, Residency, Scanner, Visited, cold_bytes, visit_cold, visit_sampled,
};
use towpath_memory::vma::{Kind, by_text, kind};
use towpath_memory::{
    Error, Huge, Mapping, Prefault, Range, faults, page_size, prefault, prefault_all,
};
use towpath_needs::{Need, can_run};

const LEN: usize = 8 << 20;

fn small_pages(threads: usize) -> Prefault {
    Prefault {
        threads,
        huge: Huge::Never,
        chunk: 1 << 20,
        ..Prefault::default()
    }
}

fn known_cold(range: Range) -> usize {
    match cold_bytes(range) {
        Residency::Known { cold, total } => {
            assert_eq!(total, range.pages().len);
            cold
        }
        other => panic!("{other:?}"),
    }
}

/// Writes one byte per page and counts the faults that it took.
fn faults_of_writing(mapping: &mut Mapping) -> u64 {
    let before = faults::of_thread();
    for page in mapping.as_mut_slice().chunks_mut(page_size()) {
        if let Some(byte) = page.first_mut() {
            *byte = byte.wrapping_add(1);
        }
    }
    faults::of_thread() - before
}

#[test]
fn a_prefault_leaves_no_cold_page_and_no_fault() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    for threads in [1, 2, 5] {
        for huge in [Huge::Never, Huge::WholeBlocks] {
            let mut mapping = Mapping::anonymous(LEN + 3 * page_size()).unwrap();
            assert_eq!(known_cold(mapping.range()), mapping.range().len);
            let how = Prefault {
                threads,
                huge,
                ..small_pages(1)
            };
            let done = prefault(mapping.range(), &how).unwrap();
            assert_eq!(done.bytes, mapping.range().len);
            assert!(done.faults > 0 && done.threads <= threads);
            assert_eq!(known_cold(mapping.range()), 0);
            assert_eq!(faults_of_writing(&mut mapping), 0);
        }
    }
}

#[test]
fn content_stays_and_neighbours_stay_cold() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let page = page_size();
    let mut mapping = Mapping::anonymous(LEN).unwrap();
    let start = mapping.range().address;
    mapping.as_mut_slice()[5 * page] = 7;
    // From the middle of page 4 to the middle of page 9: six pages.
    let range = Range::new(start + 4 * page + 100, 5 * page).unwrap();
    let _done = prefault(range, &Prefault::default()).unwrap();
    assert_eq!(mapping.as_slice()[5 * page], 7);
    assert_eq!(known_cold(range), 0);
    assert_eq!(known_cold(mapping.range()), LEN - 6 * page);
}

#[test]
fn huge_pages_stay_inside_the_range() {
    let block = prefault::huge_block();
    if block == 0 || !can_run(&[Need::PagemapScan]) {
        return;
    }
    let mapping = Mapping::anonymous(8 * block).unwrap();
    let first = mapping.range().whole_blocks(block);
    // Starts and ends half a block inside: two whole blocks, the rest in small pages.
    let range = Range::new(first.address + block / 2, 3 * block).unwrap();
    let done = prefault(range, &Prefault::default()).unwrap();
    assert!(done.huge_bytes <= 2 * block);
    assert!(done.huge_bytes > 0 || done.fell_back);
    assert_eq!(known_cold(mapping.range()), mapping.range().len - 3 * block);
}

#[test]
fn the_page_of_zeros_is_cold() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let mapping = Mapping::anonymous(LEN).unwrap();
    let how = Prefault {
        huge: Huge::Never,
        ..Prefault::default()
    };
    // Reading maps the page of zeros.
    let sum: usize = mapping
        .as_slice()
        .iter()
        .step_by(page_size())
        .map(|b| usize::from(*b))
        .sum();
    assert_eq!(sum, 0);
    assert_eq!(known_cold(mapping.range()), LEN);
    let _done = prefault(mapping.range(), &how).unwrap();
    assert_eq!(known_cold(mapping.range()), 0);
}

#[test]
fn a_page_of_zeros_is_told_from_an_absent_one() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let mapping = Mapping::anonymous(LEN).unwrap();
    rustix_no_huge(mapping.range());
    let read = mapping.as_slice().iter().take(LEN / 4);
    let sum: usize = read.step_by(page_size()).map(|b| usize::from(*b)).sum();
    assert_eq!(sum, 0);
    let (mut absent, mut replaced) = (0, 0);
    let visited = Scanner::new().visit_faults(mapping.range(), &mut |piece, fault| match fault {
        Fault::Absent => absent += piece.len,
        Fault::Replaced => replaced += piece.len,
        _ => panic!("{fault:?}"),
    });
    assert_eq!(visited, Visited::Exact);
    assert_eq!((absent, replaced), (LEN / 4 * 3, LEN / 4));
}

#[test]
fn more_cold_runs_than_one_scan_returns_are_all_found() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let mut mapping = Mapping::anonymous(LEN).unwrap();
    let range = mapping.range();
    rustix_no_huge(range);
    for page in mapping.as_mut_slice().chunks_mut(page_size()).step_by(2) {
        page[0] = 1;
    }
    assert_eq!(known_cold(range), LEN / 2);
    let mut runs = 0;
    assert_eq!(visit_cold(range, &mut |_| runs += 1), Visited::Exact);
    assert_eq!(runs, LEN / page_size() / 2);
    let mut pieces = Vec::new();
    let _how = visit_cold(range, &mut |piece| pieces.push(piece));
    let done = prefault_all(&pieces, &small_pages(3)).unwrap();
    assert_eq!(done.bytes, LEN / 2);
    assert_eq!(known_cold(range), 0);
}

fn rustix_no_huge(range: Range) {
    let advice = towpath_sys::madvise::Advice::NoHugePage;
    towpath_sys::madvise::advise(range.address, range.len, advice).unwrap();
}

#[test]
fn samples_find_a_cold_half() {
    let mut mapping = Mapping::anonymous(LEN).unwrap();
    let range = mapping.range();
    mapping.as_mut_slice()[..LEN / 2].fill(1);
    let mut cold = 0;
    visit_sampled(range, &mut |piece| {
        assert!(range.contains(piece));
        cold += piece.len;
    })
    .unwrap();
    assert_eq!(cold, LEN / 2);
}

#[test]
fn refused_destinations_give_an_error_and_keep_their_kind() {
    let page = page_size();
    let mapping = Mapping::anonymous(LEN).unwrap();
    let range = mapping.range();
    let middle = Range::new(range.address + 16 * page, page).unwrap();
    let protect = |flags| {
        let pointer = std::ptr::with_exposed_provenance_mut(middle.address);
        // SAFETY: one page of the mapping that this test owns; nobody accesses it meanwhile.
        unsafe { mprotect(pointer, page, flags) }.unwrap();
    };
    assert_eq!(kind(range), Kind::Anonymous);
    protect(MprotectFlags::READ);
    assert_eq!(kind(range), Kind::ReadOnly);
    assert_eq!(by_text(range).unwrap(), Kind::ReadOnly);
    assert!(matches!(
        prefault(range, &small_pages(1)),
        Err(Error::Prefault { .. })
    ));
    protect(MprotectFlags::empty());
    assert_eq!(kind(range), Kind::NoAccess);
    assert!(prefault(range, &small_pages(2)).is_err());
    protect(MprotectFlags::READ | MprotectFlags::WRITE);
    assert_eq!(kind(range), Kind::Anonymous);
    // SAFETY: one page of the mapping that this test owns; it is mapped again below.
    unsafe { munmap(std::ptr::with_exposed_provenance_mut(middle.address), page) }.unwrap();
    assert_eq!(kind(range), Kind::Hole);
    assert_eq!(by_text(range).unwrap(), Kind::Hole);
    assert!(prefault(range, &small_pages(1)).is_err());
    assert_eq!(kind(Range::between(0, 4096)), Kind::Hole);
    assert_eq!(kind(Range::default()), Kind::Hole);
}

/// Maps `file` and gives the kind of the mapping, by both ways, and what a prefault answers.
fn of_file(file: &File, shared: bool) -> (Kind, bool) {
    let flags = if shared {
        MapFlags::SHARED
    } else {
        MapFlags::PRIVATE
    };
    // SAFETY: a new mapping at an address of the kernel's choice.
    let pointer = unsafe {
        mmap(
            std::ptr::null_mut(),
            LEN,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
            file.as_fd(),
            0,
        )
    }
    .unwrap();
    let range = Range::new(pointer.expose_provenance(), LEN).unwrap();
    let found = kind(range);
    assert_eq!(found, by_text(range).unwrap());
    let worked = prefault(range, &small_pages(1)).is_ok();
    if worked && Need::PagemapScan.is_met() {
        assert_eq!(known_cold(range), 0);
    }
    // SAFETY: the mapping made above; nothing borrows from it.
    unsafe { munmap(pointer, LEN) }.unwrap();
    (found, worked)
}

#[test]
fn files_and_memfds_are_told_apart() {
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.set_len(LEN as u64).unwrap();
    assert_eq!(of_file(&file, true).0, Kind::FileShared);
    assert_eq!(of_file(&file, false), (Kind::FilePrivate, true));
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let memfd = File::from(rustix::fs::memfd_create("destination", flags).unwrap());
    memfd.set_len(LEN as u64).unwrap();
    assert_eq!(of_file(&memfd, true), (Kind::Memfd, true));
    assert_eq!(of_file(&memfd, false), (Kind::FilePrivate, true));
    // Beyond the end of a file the kernel answers with an error, not with SIGBUS.
    memfd.set_len(page_size() as u64).unwrap();
    assert_eq!(of_file(&memfd, true), (Kind::Memfd, false));
    let zero = File::options()
        .read(true)
        .write(true)
        .open("/dev/zero")
        .unwrap();
    assert_eq!(of_file(&zero, true), (Kind::Memfd, true));
}

#[test]
fn two_kinds_side_by_side_are_mixed() {
    let memfd = rustix::fs::memfd_create("half", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memfd, LEN as u64).unwrap();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let pointer =
        unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * LEN, protection, MapFlags::PRIVATE) }
            .unwrap();
    let half = pointer.wrapping_byte_add(LEN);
    // SAFETY: replaces the second half of the mapping made above, which nothing borrows.
    unsafe {
        mmap(
            half,
            LEN,
            protection,
            MapFlags::SHARED | MapFlags::FIXED,
            &memfd,
            0,
        )
    }
    .unwrap();
    let range = Range::new(pointer.expose_provenance(), 2 * LEN).unwrap();
    assert_eq!(kind(range), Kind::Mixed);
    assert_eq!(by_text(range).unwrap(), Kind::Mixed);
    // SAFETY: the mapping made above; nothing borrows from it.
    unsafe { munmap(pointer, 2 * LEN) }.unwrap();
}

#[test]
fn hugetlb_is_told_by_its_page_size() {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::HUGETLB;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let answer = unsafe { mmap_anonymous(std::ptr::null_mut(), LEN, protection, flags) };
    let Ok(pointer) = answer else {
        // No huge pages are reserved here (vm.nr_hugepages).
        return;
    };
    let range = Range::new(pointer.expose_provenance(), LEN).unwrap();
    assert_eq!(kind(range), Kind::HugeTlb);
    assert_eq!(by_text(range).unwrap(), Kind::HugeTlb);
    // SAFETY: the mapping made above; nothing borrows from it.
    unsafe { munmap(pointer, LEN) }.unwrap();
}

#[test]
fn a_time_limit_stops_between_chunks() {
    let mapping = Mapping::anonymous(LEN).unwrap();
    let how = Prefault {
        limit: std::time::Duration::ZERO,
        ..small_pages(1)
    };
    assert!(matches!(
        prefault(mapping.range(), &how),
        Err(Error::TimeLimit { left_bytes: LEN })
    ));
}

#[test]
fn swapped_out_pages_are_cold_and_come_back() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let Some(_swap) = Swap::on() else {
        // Not a need of the project: many containers cannot have swap.
        return;
    };
    let mut mapping = Mapping::anonymous(LEN).unwrap();
    let range = mapping.range();
    rustix_no_huge(range);
    for (number, page) in mapping.as_mut_slice().chunks_mut(page_size()).enumerate() {
        page[0] = u8::try_from(number % 251).unwrap();
    }
    towpath_sys::madvise::advise(
        range.address,
        range.len,
        towpath_sys::madvise::Advice::PageOut,
    )
    .unwrap();
    let out = known_cold(range);
    assert!(out > LEN / 2, "only {out} bytes were paged out");
    let _done = prefault(range, &small_pages(2)).unwrap();
    assert_eq!(known_cold(range), 0);
    for (number, page) in mapping.as_slice().chunks(page_size()).enumerate() {
        assert_eq!(usize::from(page[0]), number % 251);
    }
}

/// A swap file, switched off and removed at the end.
struct Swap {
    path: std::path::PathBuf,
}

impl Swap {
    #[expect(
        clippy::print_stderr,
        reason = "a skip that nobody sees is a false pass"
    )]
    fn on() -> Option<Self> {
        let name = format!("towpath-swap-{}", std::process::id());
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, vec![0_u8; 32 << 20]).unwrap();
        let swap = Self { path };
        let made = std::process::Command::new("/sbin/mkswap")
            .arg(&swap.path)
            .output()
            .is_ok_and(|output| output.status.success());
        let name = std::ffi::CString::new(swap.path.to_str().unwrap()).unwrap();
        // SAFETY: a live C string; the kernel refuses what is no swap file or not allowed.
        if made && unsafe { libc::swapon(name.as_ptr(), 0) } == 0 {
            return Some(swap);
        }
        eprintln!(
            "skipped: no swap can be had here ({})",
            std::io::Error::last_os_error()
        );
        None
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let name = std::ffi::CString::new(self.path.to_str().expect("utf-8")).expect("no NUL");
        // SAFETY: a live C string.
        let _off = unsafe { libc::swapoff(name.as_ptr()) };
        let _removed = std::fs::remove_file(&self.path);
    }
}
