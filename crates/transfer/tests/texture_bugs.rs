//! Faults that were found in other implementations of texture transfers, one test each. The number is the
//! row of the list in `docs/textures.md`; the comment says what went wrong there.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use towpath_texture_model::stream::Device;
use towpath_transfer::textures::engine::Policy;
use towpath_transfer::textures::null::{Null, NullImage};
use towpath_transfer::textures::views::{Budget, Why};
use towpath_transfer::textures::{
    Backend as _, Backing, Dimension, Direction, Done, Entry, Error, Format, Memory, Model, Path,
    Plan, Ram, Region, Request, Result, Texture, Transfers,
};

const BUDGET: Budget = Budget {
    entries: 16,
    mappings: 64,
    bytes: 1 << 30,
};

struct Guest {
    ram: Arc<Ram>,
    memory: Arc<dyn Memory>,
    transfers: Transfers<Null>,
}

impl Guest {
    fn new(policy: Policy) -> Self {
        let ram = Arc::new(Ram::new(1 << 20).unwrap());
        let memory: Arc<dyn Memory> = Arc::clone(&ram) as Arc<dyn Memory>;
        let transfers = Transfers::new(Null, Model::default(), BUDGET, None).policy(policy);
        Self {
            ram,
            memory,
            transfers,
        }
    }

    fn backing(&self, entries: &[(u64, u64)]) -> Backing {
        let entries: Vec<Entry> = entries
            .iter()
            .map(|&(address, len)| Entry { address, len })
            .collect();
        Backing::attach(&self.memory, &entries).unwrap()
    }

    fn image(&mut self, texture: &Texture) -> NullImage {
        self.transfers.backend().create(texture).unwrap()
    }

    fn go(
        &mut self,
        texture: &Texture,
        image: &mut NullImage,
        backing: &Backing,
        request: &Request,
    ) -> Result<Done> {
        self.transfers.transfer(texture, image, backing, request)
    }
}

fn region(x: u32, y: u32, width: u32, height: u32) -> Region {
    Region {
        x,
        y,
        ..Region::picture(width, height)
    }
}

fn upload(region: Region, offset: u64, stride: u64) -> Request {
    Request {
        level: 0,
        region,
        offset,
        stride,
        layer_stride: 0,
        direction: Direction::Upload,
    }
}

/// 5.1, rutabaga_gfx 0.1.85: the offset, which includes x and y, was added to them again.
#[test]
fn an_offset_already_includes_the_boxs_place() {
    let mut guest = Guest::new(Policy::Never);
    let texture = Texture::picture(Format::RGBA8, 32, 16);
    let pixels: Vec<u8> = (0..512_u32).flat_map(u32::to_le_bytes).collect();
    guest.ram.bytes().copy_from(&pixels);
    let backing = guest.backing(&[(0, 2048)]);
    let mut image = guest.image(&texture);
    for (x, y) in [(8, 4), (8, 12)] {
        let offset = u64::from(y * 128 + x * 4);
        let request = upload(region(x, y, 4, 2), offset, 128);
        guest.go(&texture, &mut image, &backing, &request).unwrap();
        for row in y..y + 2 {
            for column in x..x + 4 {
                let index = row * 32 + column;
                let at = index as usize * 4;
                let seen = image.level(0).unwrap().get(at..at + 4).unwrap();
                assert_eq!(seen, index.to_le_bytes(), "{column},{row}");
            }
        }
    }
    let first = image.level(0).unwrap().get(136 * 4..137 * 4).unwrap();
    assert_eq!(first, 136_u32.to_le_bytes());
}

/// 5.2, the same: too short a backing was Ok, a large width or offset wrapped around.
#[test]
fn a_short_backing_and_sums_that_wrap_are_errors_and_touch_nothing() {
    let mut guest = Guest::new(Policy::Never);
    guest.ram.bytes().fill(7);
    let texture = Texture::picture(Format::RGBA8, 32, 16);
    let backing = guest.backing(&[(0, 64)]);
    let mut image = guest.image(&texture);
    let whole = region(0, 0, 32, 16);
    let requests = [
        upload(whole, 0, 128),
        upload(region(1, 0, 1, 1), u64::MAX - 3, 128),
        upload(region(0, 0, 0x4000_0001, 1), 0, 0),
        upload(region(u32::MAX, u32::MAX, 2, 2), 0, 0),
        upload(whole, 0, u64::MAX),
        upload(whole, u64::MAX, u64::MAX),
    ];
    for request in requests {
        let answer = guest.go(&texture, &mut image, &backing, &request);
        assert!(matches!(
            answer,
            Err(Error::Backing { .. } | Error::Request { .. })
        ));
    }
    assert!(image.level(0).unwrap().iter().all(|byte| *byte == 0));
    let huge = Texture::picture(Format::RGBA8, 0x4000_0001, 0x4000_0001);
    assert!(Null.create(&huge).is_err());
}

/// 5.3, CVE-2022-0135: a temporary buffer was sized without the depth and filled with it.
#[test]
fn several_samples_are_refused_and_one_plan_gives_every_size() {
    let texture = Texture {
        dimension: Dimension::D2Array,
        layers: 3,
        samples: 2,
        ..Texture::picture(Format::RGBA8, 4, 4)
    };
    let mut request = upload(region(0, 0, 4, 4), 0, 0);
    request.region.depth = 2;
    assert!(Plan::new(&texture, &request, 1 << 20).is_err());
    let single = Texture {
        samples: 1,
        ..texture
    };
    let plan = Plan::new(&single, &request, 1 << 20).unwrap();
    assert_eq!(plan.payload(), 2 * 4 * 4 * 4);
    assert_eq!(plan.guest.packed().end(), plan.payload());
    assert_eq!(plan.guest.end(), plan.payload());
}

/// 5.5, CVE-2019-18391: a box of 64 bytes out of 60.
#[test]
fn a_backing_four_bytes_short_is_refused() {
    let texture = Texture::picture(Format::RGBA8, 4, 4);
    let request = upload(region(0, 0, 4, 4), 0, 0);
    let answer = Plan::new(&texture, &request, 60);
    assert!(matches!(
        answer,
        Err(Error::Backing {
            needed: 64,
            present: 60
        })
    ));
    Plan::new(&texture, &request, 64).unwrap();
}

/// 5.6, virglrenderer: the sum of the layers was kept in 32 bits.
#[test]
fn layers_are_summed_in_64_bits() {
    let texture = Texture {
        dimension: Dimension::D2Array,
        layers: 3,
        ..Texture::picture(Format::RGBA8, 1, 1)
    };
    let mut request = upload(region(0, 0, 1, 1), 0, 0);
    request.region.depth = 3;
    request.layer_stride = 0x8000_0000;
    let answer = Plan::new(&texture, &request, 1 << 20);
    let needed = (1_u64 << 32) + 4;
    assert!(matches!(answer, Err(Error::Backing { needed: n, .. }) if n == needed));
}

/// 5.7, virglrenderer: the layer stride was ignored, and rows of blocks were counted as rows of texels.
#[test]
fn blocks_keep_the_layer_stride_that_was_given() {
    let mut guest = Guest::new(Policy::Never);
    let texture = Texture {
        dimension: Dimension::D2Array,
        layers: 2,
        ..Texture::picture(Format::BC1, 8, 8)
    };
    let pattern: Vec<u8> = (0..200).collect();
    guest.ram.bytes().copy_from(&pattern);
    let backing = guest.backing(&[(0, 4096)]);
    let mut image = guest.image(&texture);
    let mut request = upload(region(0, 0, 8, 8), 0, 16);
    request.region.depth = 2;
    request.layer_stride = 100;
    guest.go(&texture, &mut image, &backing, &request).unwrap();
    let level = image.level(0).unwrap();
    assert_eq!(level.get(..32), pattern.get(..32));
    assert_eq!(level.get(32..), pattern.get(100..132));
}

/// 5.8, virglrenderer: a stride that is no whole number of texels was divided down.
#[test]
fn a_stride_of_broken_texels_is_copied_exactly_and_never_handed_to_a_device() {
    let mut guest = Guest::new(Policy::Always);
    let texture = Texture::picture(Format::texel(3), 3, 2);
    let pattern: Vec<u8> = (0..19).collect();
    guest.ram.bytes().copy_from(&pattern);
    let backing = guest.backing(&[(0, 4096)]);
    let mut image = guest.image(&texture);
    let request = upload(region(0, 0, 3, 2), 0, 10);
    guest.go(&texture, &mut image, &backing, &request).unwrap();
    let expected: Vec<u8> = (0..9).chain(10..19).collect();
    assert_eq!(image.level(0).unwrap(), expected);
    let plan = Plan::new(&texture, &request, 4096).unwrap();
    assert_eq!(plan.texel_strides(), None);
}

/// 5.9, CVE-2022-0175: a readback of two layers filled one and sent the heap's old bytes for the other.
#[test]
fn a_readback_writes_its_rows_and_nothing_that_was_never_written() {
    let mut guest = Guest::new(Policy::Never);
    guest.ram.bytes().fill(0xee);
    let texture = Texture {
        dimension: Dimension::D2Array,
        layers: 2,
        ..Texture::picture(Format::R8, 4, 2)
    };
    let backing = guest.backing(&[(0, 4096)]);
    let mut image = guest.image(&texture);
    let mut request = upload(region(0, 0, 4, 2), 0, 8);
    request.region.depth = 2;
    request.direction = Direction::Download;
    guest.go(&texture, &mut image, &backing, &request).unwrap();
    let seen = guest.ram.bytes().get(0, 32).unwrap().to_vec();
    for (at, byte) in seen.iter().enumerate() {
        let is_row = at < 28 && at % 8 < 4;
        assert_eq!(*byte, if is_row { 0 } else { 0xee }, "byte {at}");
    }
}

/// 5.12, CVE-2021-3544 to 3546 and others: attached twice, ended while attached.
#[test]
fn attach_and_detach_in_any_order_leave_nothing() {
    let mut device = Device::new(eager(), BUDGET);
    let texture = Texture::picture(Format::RGBA8, 32, 96);
    let pages = [3, 7, 1].map(|page| Entry {
        address: page * 4096,
        len: 4096,
    });
    let request = Request::picture(32, 96, Direction::Upload);
    let mut counts = Vec::new();
    for round in 0..10_000 {
        device.create(1, texture).unwrap();
        device.attach(1, &pages).unwrap();
        assert!(device.attach(1, &pages).is_err(), "a second list");
        device.transfer(1, &request).unwrap();
        if round % 2 == 0 {
            device.detach(1).unwrap();
            assert!(device.detach(1).is_err());
        }
        device.unref(1).unwrap();
        if round % 3000 == 100 {
            counts.push(resources());
        }
    }
    assert!(
        counts.windows(2).all(|pair| pair.first() == pair.last()),
        "{counts:?}"
    );
    assert!(device.transfers().totals().viewed > 9_000);
}

/// 5.13, SPDK and cloud-hypervisor: the memory table changed under pieces in use.
#[test]
fn memory_that_is_taken_away_ends_transfers_with_an_error() {
    let mut device = Device::new(eager(), BUDGET);
    device
        .create(1, Texture::picture(Format::RGBA8, 32, 32))
        .unwrap();
    let pages = [5, 2].map(|page| Entry {
        address: page * 4096,
        len: 4096,
    });
    device.attach(1, &pages).unwrap();
    let request = Request::picture(32, 32, Direction::Upload);
    device.transfer(1, &request).unwrap();
    device.remove_memory();
    assert_eq!(device.transfers().views().held(), 0);
    let answer = device.transfer(1, &request);
    assert!(matches!(answer, Err(Error::Revoked)));
    device.detach(1).unwrap();
}

/// 5.14, wlroots: a stride shorter than its row reached the driver.
#[test]
fn a_stride_shorter_than_a_row_is_refused() {
    let texture = Texture::picture(Format::RGBA8, 4, 4);
    for (stride, is_good) in [(12, false), (15, false), (16, true), (17, true), (0, true)] {
        let request = upload(region(0, 0, 4, 4), 0, stride);
        let answer = Plan::new(&texture, &request, 4096);
        assert_eq!(answer.is_ok(), is_good, "{stride}");
    }
    let one_row = upload(region(0, 0, 4, 1), 0, 3);
    Plan::new(&texture, &one_row, 4096).unwrap();
}

/// 5.16, VulkanMod: a row length of 0 means rows without gaps, not a stride of 0.
#[test]
fn a_stride_of_zero_means_no_gaps() {
    let texture = Texture::picture(Format::RGBA8, 4, 4);
    let plan = Plan::new(&texture, &upload(region(0, 0, 4, 4), 0, 0), 64).unwrap();
    assert_eq!((plan.guest.stride, plan.guest.layer_stride), (16, 64));
    assert_eq!(plan.texel_strides(), Some((4, 4)));
}

/// 5.19, virt-manager: 65 530 mappings of one file, and every allocation of the process failed.
#[test]
fn views_stay_within_their_budget_and_the_oldest_goes() {
    let mut guest = Guest::new(Policy::Always);
    let texture = Texture::picture(Format::RGBA8, 64, 64);
    let mut image = guest.image(&texture);
    let backings: Vec<Backing> = (0..40)
        .map(|index| {
            let page = |n: u64| ((index + n * 2) % 256 * 4096, 4096);
            guest.backing(&[page(0), page(1), page(2), page(3)])
        })
        .collect();
    let request = Request::picture(64, 64, Direction::Upload);
    for _round in 0..3 {
        for backing in &backings {
            let done = guest.go(&texture, &mut image, backing, &request).unwrap();
            assert!(matches!(done.path, Path::View(_)));
        }
    }
    let views = guest.transfers.views();
    assert_eq!(views.held(), BUDGET.entries, "16 of 40, 4 mappings each");
    assert_eq!(views.counts().made, 120);
    let many: Vec<(u64, u64)> = (0..80).map(|page| (page * 2 * 4096, 4096)).collect();
    let large = guest.backing(&many);
    let done = guest.go(
        &texture,
        &mut image,
        &large,
        &Request {
            region: region(0, 0, 64, 64),
            ..request
        },
    );
    assert!(
        matches!(done.unwrap().path, Path::View(_)),
        "a window of 4 pages fits"
    );
    let wide = Texture::picture(Format::RGBA8, 1024, 80);
    let mut image = guest.image(&wide);
    let request = Request::picture(1024, 80, Direction::Upload);
    let done = guest.go(&wide, &mut image, &large, &request).unwrap();
    assert_eq!((done.path, done.why), (Path::Gather, Some(Why::Budget)));
}

/// One list more than the budget has room for, in turn: each view drove out the one that was needed next.
#[test]
fn views_that_take_turns_do_not_drive_each_other_out() {
    let mut guest = Guest::new(Policy::Chosen);
    let texture = Texture::picture(Format::RGBA8, 64, 128);
    let mut image = guest.image(&texture);
    let full = BUDGET.mappings / 8;
    let backings: Vec<Backing> = (0..2 * full as u64)
        .map(|index| {
            let pages: Vec<_> = (0..8).map(|n| ((index + n * 16) * 4096, 4096)).collect();
            guest.backing(&pages)
        })
        .collect();
    let request = Request::picture(64, 128, Direction::Upload);
    let (first, others) = backings.split_at(full + 1);
    // The others take the places of those that are no longer used.
    for (set, made) in [(first, full), (others, full + others.len())] {
        for _round in 0..1500 {
            for backing in set {
                guest.go(&texture, &mut image, backing, &request).unwrap();
            }
        }
        assert_eq!(guest.transfers.views().counts().made, made as u64);
    }
}

/// 5.24, a note on libkrun: a view of which one part is mapped and the other copied goes stale.
#[test]
fn a_list_that_cannot_be_mapped_whole_is_copied_whole() {
    let mut guest = Guest::new(Policy::Always);
    let texture = Texture::picture(Format::RGBA8, 64, 32);
    let mut image = guest.image(&texture);
    let backing = guest.backing(&[(4096, 4096), (9000, 4096)]);
    for value in [1, 2] {
        guest.ram.bytes().fill(value);
        let request = Request::picture(64, 32, Direction::Upload);
        let done = guest.go(&texture, &mut image, &backing, &request).unwrap();
        assert_eq!((done.path, done.why), (Path::Gather, Some(Why::Unaligned)));
        assert!(image.level(0).unwrap().iter().all(|byte| *byte == value));
    }
}

/// A balloon takes pages under a live view: the view made before is not used again.
#[test]
fn a_discard_renews_the_view() {
    let mut guest = Guest::new(Policy::Always);
    let texture = Texture::picture(Format::RGBA8, 64, 32);
    let mut image = guest.image(&texture);
    let backing = guest.backing(&[(4096, 4096), (0, 4096)]);
    let request = Request::picture(64, 32, Direction::Upload);
    guest.go(&texture, &mut image, &backing, &request).unwrap();
    guest.go(&texture, &mut image, &backing, &request).unwrap();
    assert_eq!(guest.transfers.views().counts().made, 1);
    backing.discard();
    guest.go(&texture, &mut image, &backing, &request).unwrap();
    assert_eq!(guest.transfers.views().counts().made, 2);
}

/// Views that cost nothing: made at the first transfer.
fn eager() -> Model {
    Model {
        per_view: 0.0,
        map_run: 0.0,
        map_page: 0.0,
        ..Model::default()
    }
}

/// Open descriptors and mappings of memory files.
fn resources() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.matches("/memfd:towpath").count())
}
