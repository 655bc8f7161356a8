//! A million commands: no allocation per transfer once warm, and nothing that grows.

#![expect(
    clippy::unwrap_used,
    clippy::get_unwrap,
    clippy::too_many_lines,
    reason = "tests"
)]

use std::sync::Arc;

use towpath_counting::{Counting, in_process};
use towpath_transfer::textures::null::Null;
use towpath_transfer::textures::views::Budget;
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Entry, Format, Memory, Model, Ram, Region, Request, Texture,
    Transfers,
};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_million_mixed_commands_allocate_nothing_and_leave_counts_as_they_were() {
    let ram = Arc::new(Ram::new(4 << 20).unwrap());
    let memory: Arc<dyn Memory> = ram;
    let budget = Budget {
        entries: 32,
        mappings: 256,
        bytes: 64 << 20,
    };
    let model = Model {
        per_view: 1000.0,
        map_run: 10.0,
        map_page: 10.0,
        ..Model::default()
    };
    let mut transfers = Transfers::new(Null, model, budget, None);
    let mut random = fastrand::Rng::with_seed(11);
    let shapes = [
        (Format::RGBA8, 64, 64),
        (Format::R8, 33, 9),
        (Format::BC1, 16, 8),
    ];
    let mut resources: Vec<_> = (0..24)
        .map(|index: usize| {
            let (format, width, height) = *shapes.get(index % shapes.len()).unwrap();
            let texture = Texture::picture(format, width, height);
            let entries: Vec<Entry> = (0..8)
                .map(|_| Entry {
                    address: random.u64(0..1024) * 4096,
                    len: 4096,
                })
                .collect();
            let image = transfers.backend().create(&texture).unwrap();
            let backing = Backing::attach(&memory, &entries).unwrap();
            (texture, image, backing)
        })
        .collect();

    let mut run = |count: u32| {
        for _command in 0..count {
            let at = random.usize(..resources.len());
            let (texture, image, backing) = resources.get_mut(at).unwrap();
            let y = random.u32(..4) * 4;
            let request = Request {
                level: 0,
                region: Region {
                    y,
                    ..Region::picture(texture.width, 4)
                },
                offset: u64::from(random.u32(..9)) * 4000,
                stride: 0,
                layer_stride: 0,
                direction: if random.bool() {
                    Direction::Upload
                } else {
                    Direction::Download
                },
            };
            // Some do not fit: a refusal must cost as little.
            let _answer = transfers.transfer(texture, image, backing, &request);
        }
    };
    // Long enough for every view to be made in its widest window.
    run(60_000);
    let before = (in_process(), counts());
    run(1_000_000);
    let after = (in_process(), counts());
    // Reading the counts allocates: the same both times, and before the second reading only.
    let own = {
        let start = in_process();
        let _counts = counts();
        in_process() - start
    };
    let between = after.0 - before.0;
    assert!(
        between <= own,
        "{between} allocations, {own} of them by counting"
    );
    assert_eq!(after.1, before.1, "descriptors and mappings");
    let totals = transfers.totals();
    assert!(
        totals.viewed > 100_000 && totals.refused > 1000,
        "{totals:?}"
    );
}

/// Open descriptors and mappings of memory files.
fn counts() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.matches("/memfd:towpath").count())
}
