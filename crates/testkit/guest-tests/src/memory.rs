//! Residency, prefault and views of `towpath-memory` and the texture library on the guest's kernel.
//!
//! Runs on every kernel of the guest: where one lacks an interface (PAGEMAP_SCAN before 6.7, udmabuf in
//! 6.1) the library must fall back and say the same.

use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use towpath_guest_tests::{Check, run, same, say};
use towpath_memory::memfd::{HUGE, Memfd, PAGE, granularity};
use towpath_memory::residency::{self, Residency};
use towpath_memory::view::{FilePiece, View};
use towpath_memory::vma::{self, Kind};
use towpath_memory::volatile::VolatileBytes;
use towpath_memory::{Huge, Mapping, Prefault, Range, prefault};
use towpath_transfer::textures::engine::Policy;
use towpath_transfer::textures::null::Null;
use towpath_transfer::textures::views::{Budget, Views, Why};
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Entry, Format, Memory, Model, Path, Ram, Request, Texture,
    Transfers,
};

fn main() -> ExitCode {
    run(&CHECKS)
}

const CHECKS: [Check; 9] = [
    ("cold", fresh_memory_is_cold_and_written_memory_warm),
    ("half", a_half_written_range_is_half_cold),
    (
        "prefault",
        a_prefault_makes_everything_warm_and_changes_nothing,
    ),
    ("prefault-huge", huge_pages_are_taken_where_blocks_are_whole),
    ("zero-page", pages_that_were_only_read_are_still_cold),
    ("kinds", mappings_are_told_apart),
    ("textures", textures_arrive_by_every_way),
    ("limits", lists_over_the_limits_fall_back),
    ("cost", gathering_and_views_cost),
];

type Outcome = Result<String, String>;

fn cold(range: Range) -> Result<usize, String> {
    match residency::cold_bytes(range) {
        Residency::Known { cold, .. } if residency::has_scan() => Ok(cold),
        // Before PAGEMAP_SCAN pages are sampled; these ranges are small enough to be exact.
        Residency::Sampled { cold, .. } if !residency::has_scan() => Ok(cold),
        other => Err(format!("{other:?}")),
    }
}

fn write_page(range: Range, page: usize) -> Result<(), String> {
    let place = Range {
        address: range.address + page * 4096,
        len: 4096,
    };
    // A prefault of one page is a write that changes nothing.
    let how = Prefault {
        huge: Huge::Never,
        ..Prefault::default()
    };
    prefault(place, &how)
        .map(|_done| ())
        .map_err(say("prefault"))
}

/// 2 MiB more than asked for would let huge pages in: these ranges stay below.
fn small(pages: usize) -> Result<Mapping, String> {
    Mapping::anonymous(pages * 4096).map_err(say("map"))
}

fn fresh_memory_is_cold_and_written_memory_warm() -> Outcome {
    let mapping = small(100)?;
    let range = mapping.range();
    same("fresh", &cold(range)?, &(100 * 4096))?;
    for page in 0..100 {
        write_page(range, page)?;
    }
    same("written", &cold(range)?, &0)?;
    Ok(format!("PAGEMAP_SCAN: {}", residency::has_scan()))
}

fn a_half_written_range_is_half_cold() -> Outcome {
    let mapping = small(256)?;
    let range = mapping.range();
    for page in (0..256).step_by(2) {
        write_page(range, page)?;
    }
    let half = 128 * 4096;
    if residency::has_scan() {
        same("half", &cold(range)?, &half)?;
        return Ok(String::new());
    }
    // 32 pages by chance of a pattern that repeats: a sample at equal distances would say none or all. Nine
    // in ten of one kind happen once in 100 000 looks.
    let mut seen = Vec::new();
    for _look in 0..4 {
        let cold = cold(range)?;
        if !(half / 5..=half * 9 / 5).contains(&cold) {
            return Err(format!("{cold} of {half} bytes"));
        }
        seen.push(cold / 4096);
    }
    Ok(format!("sampled {seen:?} of 128"))
}

fn a_prefault_makes_everything_warm_and_changes_nothing() -> Outcome {
    let mapping = small(300)?;
    let done = prefault(mapping.range(), &Prefault::default()).map_err(say("prefault"))?;
    same("after", &cold(mapping.range())?, &0)?;
    Ok(format!("{} bytes", done.bytes))
}

fn huge_pages_are_taken_where_blocks_are_whole() -> Outcome {
    let mapping = Mapping::anonymous(16 << 20).map_err(say("map"))?;
    let how = Prefault {
        huge: Huge::WholeBlocks,
        ..Prefault::default()
    };
    prefault(mapping.range(), &how).map_err(say("prefault"))?;
    same("after", &cold(mapping.range())?, &0)?;
    let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").map_err(say("smaps"))?;
    let line = smaps.lines().find(|line| line.starts_with("AnonHugePages"));
    Ok(line.unwrap_or("no AnonHugePages").to_owned())
}

fn pages_that_were_only_read_are_still_cold() -> Outcome {
    let mapping = small(16)?;
    let range = mapping.range();
    let start = std::ptr::with_exposed_provenance_mut(range.address);
    let start = std::ptr::NonNull::new(start).ok_or("null")?;
    #[expect(unsafe_code, reason = "reads memory that nobody wrote")]
    // SAFETY: the mapping is live, and nobody else looks at it.
    let bytes = unsafe { VolatileBytes::new(start, range.len) };
    // The kernel maps its page of zeros for a read.
    same(
        "zeros",
        &bytes.to_vec().iter().all(|byte| *byte == 0),
        &true,
    )?;
    // Older kernels do not tell the page of zeros from others: such pages look warm there.
    let expected = if residency::has_scan() { range.len } else { 0 };
    same("after reading", &cold(range)?, &expected)?;
    Ok(String::new())
}

fn mappings_are_told_apart() -> Outcome {
    let mapping = small(4)?;
    same("anonymous", &vma::kind(mapping.range()), &Kind::Anonymous)?;
    let file = Memfd::new("test", 4 * PAGE).map_err(say("memfd"))?;
    let view = View::stitch(&[FilePiece {
        file: file.as_fd(),
        offset: 0,
        len: 4 * PAGE,
    }])
    .map_err(say("stitch"))?;
    let range = |view: &View| Range {
        address: view.pages().as_ptr().addr(),
        len: view.pages().len(),
    };
    same("memfd", &vma::kind(range(&view)), &Kind::Memfd)?;
    let huge = Memfd::huge("test", HUGE).map_err(say("huge memfd"))?;
    same("granularity", &granularity(huge.as_fd()).ok(), &Some(HUGE))?;
    let view = View::stitch(&[FilePiece {
        file: huge.as_fd(),
        offset: 0,
        len: HUGE,
    }])
    .map_err(say("stitch huge"))?;
    let seen = vma::kind(range(&view));
    same("hugetlb", &seen, &Kind::HugeTlb)?;
    // Before the kernel's query (6.11) from the table's text: the same answer where both are there.
    let by_text = vma::by_text(range(&view)).map_err(say("maps"))?;
    same("hugetlb by text", &by_text, &Kind::HugeTlb)?;
    let plain = Memfd::new("hugetlb", PAGE).map_err(say("memfd"))?;
    let view = View::stitch(&[FilePiece {
        file: plain.as_fd(),
        offset: 0,
        len: PAGE,
    }])
    .map_err(say("stitch"))?;
    let by_text = vma::by_text(range(&view)).map_err(say("maps"))?;
    same("memfd by text", &by_text, &Kind::Memfd)?;
    Ok(format!("hugetlb is {seen:?}"))
}

/// Every second page of a list of 1025.
const RAM_PAGES: u64 = 2056;

const BUDGET: Budget = Budget {
    entries: 8,
    mappings: 8192,
    bytes: 1 << 30,
};

struct Setup {
    ram: Arc<Ram>,
    backing: Backing,
    transfers: Transfers<Null>,
}

fn setup(policy: Policy, entries: &[Entry], with_device: bool) -> Result<Setup, String> {
    let ram = Arc::new(Ram::new(RAM_PAGES * PAGE).map_err(say("ram"))?);
    // Whole pages at once: every byte on its own takes minutes in an emulated machine.
    for page in 0..usize::try_from(RAM_PAGES).map_err(say("pages"))? {
        let bytes = ram.bytes().get(page * 4096, 4096).ok_or("page")?;
        bytes.fill(page.wrapping_mul(167).to_le_bytes()[0]);
    }
    let memory: Arc<dyn Memory> = Arc::clone(&ram) as Arc<dyn Memory>;
    let backing = Backing::attach(&memory, entries).map_err(say("attach"))?;
    let device = with_device.then(Views::open_device).flatten();
    let transfers = Transfers::new(Null, Model::default(), BUDGET, device).policy(policy);
    Ok(Setup {
        ram,
        backing,
        transfers,
    })
}

fn scattered(pages: u64) -> Vec<Entry> {
    (0..pages)
        .map(|page| Entry {
            address: (pages - 1 - page) * 2 * PAGE,
            len: PAGE,
        })
        .collect()
}

/// Uploads a picture and compares every byte with what the list says.
fn arrives(
    setup: &mut Setup,
    entries: &[Entry],
    (width, height): (u32, u32),
) -> Result<Path, String> {
    let texture = Texture::picture(Format::RGBA8, width, height);
    let mut image = Null.create(&texture).map_err(say("image"))?;
    let request = Request::picture(width, height, Direction::Upload);
    let done = setup
        .transfers
        .transfer(&texture, &mut image, &setup.backing, &request)
        .map_err(say("transfer"))?;
    let mut right = Vec::new();
    for entry in entries {
        let at = usize::try_from(entry.address).map_err(say("address"))?;
        let len = usize::try_from(entry.len).map_err(say("length"))?;
        let run = setup.ram.bytes().get(at, len).ok_or("outside")?;
        right.extend(run.to_vec());
    }
    let seen = image.level(0).unwrap_or_default();
    if right.get(..seen.len()) != Some(seen) {
        return Err(format!("wrong texels by {:?}", done.path));
    }
    Ok(done.path)
}

fn textures_arrive_by_every_way() -> Outcome {
    let entries = scattered(256);
    let mut paths = Vec::new();
    for (policy, with_device) in [
        (Policy::Never, false),
        (Policy::Always, false),
        (Policy::Always, true),
        (Policy::Chosen, true),
    ] {
        let mut setup = setup(policy, &entries, with_device)?;
        for _round in 0..3 {
            paths.push(arrives(&mut setup, &entries, (512, 512))?);
        }
    }
    paths.dedup();
    Ok(format!("{paths:?}"))
}

fn lists_over_the_limits_fall_back() -> Outcome {
    // 1025 runs: one more than udmabuf takes. It must be stitched instead.
    let entries = scattered(1025);
    let mut one_more = setup(Policy::Always, &entries, true)?;
    let path = arrives(&mut one_more, &entries, (1024, 1025))?;
    same(
        "1025 runs",
        &path,
        &Path::View(towpath_transfer::textures::cost::Kind::Stitched),
    )?;
    let ragged = [
        Entry {
            address: 100,
            len: 5000,
        },
        Entry {
            address: 9000,
            len: 60_000,
        },
    ];
    let mut setup = setup(Policy::Always, &ragged, true)?;
    same(
        "ragged",
        &arrives(&mut setup, &ragged, (100, 100))?,
        &Path::Gather,
    )?;
    let counts = setup.transfers.views().counts();
    same(
        "counted",
        &counts.copies.get(Why::Unaligned as usize),
        &Some(&1),
    )?;
    Ok(String::new())
}

/// Not a claim: times in an emulated machine are only relative.
fn gathering_and_views_cost() -> Outcome {
    let entries = scattered(1024);
    let mut times = Vec::new();
    for (policy, with_device) in [
        (Policy::Never, false),
        (Policy::Always, false),
        (Policy::Always, true),
    ] {
        let mut setup = setup(policy, &entries, with_device)?;
        let first = Instant::now();
        arrives(&mut setup, &entries, (1024, 1024))?;
        let first = first.elapsed();
        let later = Instant::now();
        arrives(&mut setup, &entries, (1024, 1024))?;
        times.push((first.as_micros(), later.elapsed().as_micros()));
    }
    Ok(format!(
        "us first, later: gather, stitched, udmabuf {times:?}"
    ))
}
