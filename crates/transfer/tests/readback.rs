//! The rule table on every kind of destination, with counts: cold pages left, faults that the driver
//! would take, pages touched outside the footprint.

#![expect(unsafe_code, reason = "tests map memory of many kinds")]
#![expect(clippy::unwrap_used, reason = "tests")]

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
use towpath_memory::residency::{Residency, cold_bytes};
use towpath_memory::{Mapping, Range, faults, page_size};
use towpath_needs::{Need, can_run};
use towpath_settings::Fixes;
use towpath_transfer::readback::{Context, Done, Footprint, Outcome, Rules, prepare};

const LEN: usize = 8 << 20;

fn run(footprint: &Footprint, fixes: Fixes) -> Done {
    let rules = Rules::default();
    let context = Context {
        fixes,
        rules: &rules,
    };
    prepare(footprint, &context).run()
}

fn buffer(range: Range) -> Footprint {
    Footprint::buffer(range.address, range.len).unwrap()
}

fn cold(range: Range) -> usize {
    match cold_bytes(range) {
        Residency::Known { cold, .. } => cold,
        _ => usize::MAX,
    }
}

#[test]
fn a_cold_destination_is_brought_in_and_the_driver_faults_no_more() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let mut mapping = Mapping::anonymous(LEN + 100).unwrap();
    // As large allocations lie: 64 bytes after the start of a page.
    let range = Range::new(mapping.range().address + 64, LEN).unwrap();
    let done = run(&buffer(range), Fixes::auto());
    assert_eq!(done.outcome, Outcome::Prefaulted);
    assert_eq!(done.cold_bytes, (LEN + page_size()) as u64);
    assert!(done.faults > 0);
    assert_eq!(cold(range), 0);
    let before = faults::of_thread();
    mapping.as_mut_slice()[64..64 + LEN].fill(1);
    assert_eq!(faults::of_thread() - before, 0);
    // A second read finds it warm, at every depth of look.
    for _ in 0..100 {
        assert_eq!(
            run(&buffer(range), Fixes::auto()).outcome,
            Outcome::AlreadyWarm
        );
    }
}

#[test]
fn with_the_fix_off_the_cold_bytes_are_seen_and_left() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let mapping = Mapping::anonymous(LEN).unwrap();
    let done = run(&buffer(mapping.range()), Fixes::none());
    assert_eq!((done.outcome, done.cold_bytes), (Outcome::Off, LEN as u64));
    assert_eq!(cold(mapping.range()), LEN);
}

#[test]
fn a_small_read_is_not_looked_at() {
    let mapping = Mapping::anonymous(LEN).unwrap();
    let small = Footprint::buffer(mapping.range().address, 64).unwrap();
    let done = run(&small, Fixes::forced());
    assert_eq!(
        (done.outcome, done.cold_bytes, done.faults),
        (Outcome::TooSmall, 0, 0)
    );
}

#[test]
fn gaps_of_a_page_or_more_stay_cold() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let page = page_size();
    let mapping = Mapping::anonymous(64 << 20).unwrap();
    let start = mapping.range().address;
    // 64 rows of 5 pages, 20 pages apart, each beginning in the middle of a page: 6 pages.
    let region = [5 * page, 64, 1];
    let rect = Footprint::rect(start, [page / 2, 1, 0], region, 20 * page, 0).unwrap();
    let done = run(&rect, Fixes::auto());
    assert_eq!(done.outcome, Outcome::Prefaulted);
    assert_eq!(cold(mapping.range()), mapping.range().len - 64 * 6 * page);
    assert!(rect.rows().all(|row| cold(row) == 0));
}

#[test]
fn a_half_warm_destination_costs_faults_for_its_cold_half_only() {
    if !can_run(&[Need::PagemapScan]) {
        return;
    }
    let mut mapping = Mapping::anonymous(LEN).unwrap();
    let range = mapping.range();
    let no_huge = towpath_sys::madvise::Advice::NoHugePage;
    towpath_sys::madvise::advise(range.address, range.len, no_huge).unwrap();
    mapping.as_mut_slice()[..LEN / 2].fill(3);
    let mut rules = Rules::default();
    rules.huge = false;
    let context = Context {
        fixes: Fixes::auto(),
        rules: &rules,
    };
    let done = prepare(&buffer(range), &context).run();
    assert_eq!(done.outcome, Outcome::Prefaulted);
    assert_eq!(done.cold_bytes, (LEN / 2) as u64);
    assert_eq!(done.faults, (LEN / 2 / page_size()) as u64);
    assert_eq!(cold(range), 0);
    assert!(mapping.as_slice()[..LEN / 2].iter().all(|byte| *byte == 3));
    assert!(mapping.as_slice()[LEN / 2..].iter().all(|byte| *byte == 0));
}

#[test]
fn destinations_that_the_driver_must_refuse_are_left_alone() {
    let mapping = Mapping::anonymous(LEN).unwrap();
    let range = mapping.range();
    let protect = |flags| {
        let pointer = std::ptr::with_exposed_provenance_mut(range.address + LEN / 2);
        // SAFETY: pages of the mapping that this test owns; nobody accesses them meanwhile.
        unsafe { mprotect(pointer, page_size(), flags) }.unwrap();
    };
    protect(MprotectFlags::READ);
    assert_eq!(
        run(&buffer(range), Fixes::auto()).outcome,
        Outcome::ReadOnly
    );
    protect(MprotectFlags::empty());
    assert_eq!(
        run(&buffer(range), Fixes::auto()).outcome,
        Outcome::ReadOnly
    );
    protect(MprotectFlags::READ | MprotectFlags::WRITE);
    let pointer = std::ptr::with_exposed_provenance_mut(range.address + LEN / 2);
    // SAFETY: a page of the mapping that this test owns; its owner unmaps the rest at the end.
    unsafe { munmap(pointer, page_size()) }.unwrap();
    assert_eq!(
        run(&buffer(range), Fixes::auto()).outcome,
        Outcome::NotMapped
    );
    // Nothing was brought in on the way to the refusal.
    let first = Range::new(range.address, LEN / 2).unwrap();
    if Need::PagemapScan.is_met() {
        assert_eq!(cold(first), first.len);
    }
}

#[test]
fn an_unmapped_or_wild_destination_is_forwarded() {
    for address in [4096, 1 << 46, usize::MAX - 2 * LEN] {
        let footprint = Footprint::buffer(address, LEN).unwrap();
        assert_ne!(
            run(&footprint, Fixes::forced()).outcome,
            Outcome::Prefaulted
        );
    }
}

#[test]
fn a_shared_file_is_left_alone_and_a_private_one_is_not() {
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.set_len(LEN as u64).unwrap();
    for (flags, expected) in [
        (MapFlags::SHARED, Outcome::FileBacked),
        (MapFlags::PRIVATE, Outcome::Prefaulted),
    ] {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let answer = unsafe { mmap(std::ptr::null_mut(), LEN, protection, flags, &file, 0) };
        let pointer = answer.unwrap();
        let range = Range::new(pointer.expose_provenance(), LEN).unwrap();
        assert_eq!(run(&buffer(range), Fixes::auto()).outcome, expected);
        // SAFETY: the mapping made above; nothing borrows from it.
        unsafe { munmap(pointer, LEN) }.unwrap();
    }
}

#[test]
fn a_footprint_larger_than_memory_is_left_alone() {
    // 1 TiB of address space, none of it present: a prefault would end in SIGKILL.
    let Ok(mapping) = Mapping::anonymous(1 << 40) else {
        return;
    };
    assert_eq!(
        run(&buffer(mapping.range()), Fixes::forced()).outcome,
        Outcome::LowMemory
    );
}

#[test]
fn a_device_on_which_prefault_does_not_pay_is_forwarded_unless_forced() {
    let mapping = Mapping::anonymous(LEN).unwrap();
    let mut rules = Rules::default();
    rules.prefault_pays = Some(false);
    let run = |fixes| {
        prepare(
            &buffer(mapping.range()),
            &Context {
                fixes,
                rules: &rules,
            },
        )
        .run()
    };
    assert_eq!(run(Fixes::auto()).outcome, Outcome::NoGain);
    assert_eq!(run(Fixes::forced()).outcome, Outcome::Prefaulted);
}

#[test]
fn memory_that_gets_huge_pages_by_itself_is_left_to_the_driver_where_that_is_as_fast() {
    if !can_run(&[Need::PagemapScan]) || towpath_memory::prefault::huge_block() == 0 {
        return;
    }
    let mut rules = Rules::default();
    rules.skip_huge = true;
    let context = Context {
        fixes: Fixes::auto(),
        rules: &rules,
    };
    let huge = Mapping::anonymous(2 * LEN).unwrap();
    let advice = towpath_sys::madvise::Advice::HugePage;
    towpath_sys::madvise::advise(huge.range().address, huge.range().len, advice).unwrap();
    let done = prepare(&buffer(huge.range()), &context).run();
    // Where no huge page could be had, small ones were brought in.
    assert!([Outcome::NoGain, Outcome::Prefaulted].contains(&done.outcome));
    assert!(done.outcome == Outcome::NoGain || cold(huge.range()) == 0);
    let plain = Mapping::anonymous(2 * LEN).unwrap();
    let no_huge = towpath_sys::madvise::Advice::NoHugePage;
    towpath_sys::madvise::advise(plain.range().address, plain.range().len, no_huge).unwrap();
    let done = prepare(&buffer(plain.range()), &context).run();
    assert_eq!(done.outcome, Outcome::Prefaulted);
    assert_eq!(cold(plain.range()), 0);
}
