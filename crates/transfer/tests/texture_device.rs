//! A device model in this process, over guest memory as rust-vmm has it: a guest's commands are played against
//! it, good ones and hostile ones, also while the memory table changes.

#![expect(clippy::unwrap_used, clippy::too_many_lines, reason = "tests")]

use std::sync::Arc;

use towpath_texture_model::stream::Device;
use towpath_transfer::textures::views::Budget;
use towpath_transfer::textures::{
    Dimension, Direction, Entry, Error, Format, Memory, Model, Path, Region, Request, Texture,
};
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};

const BUDGET: Budget = Budget {
    entries: 8,
    mappings: 256,
    bytes: 1 << 26,
};

type Guest = GuestMemoryMmap<()>;

/// Two regions that touch in the guest's addresses, and a third far away, each in a memory file.
fn regions(starts: &[u64]) -> Arc<Guest> {
    let parts: Vec<_> = starts
        .iter()
        .map(|&start| {
            let file = towpath_memory::memfd::Memfd::new("towpath-region", REGION).unwrap();
            let fd = std::os::fd::AsFd::as_fd(&file)
                .try_clone_to_owned()
                .unwrap();
            let at = FileOffset::new(std::fs::File::from(fd), 0);
            (
                GuestAddress(start),
                usize::try_from(REGION).unwrap(),
                Some(at),
            )
        })
        .collect();
    Arc::new(Guest::from_ranges_with_files(parts).unwrap())
}

const REGION: u64 = 1 << 20;
const FAR: u64 = 1 << 32;

/// Views at the first transfer.
fn eager() -> Model {
    Model {
        per_view: 0.0,
        map_run: 0.0,
        map_page: 0.0,
        ..Model::default()
    }
}

fn pages(addresses: &[u64]) -> Vec<Entry> {
    let entry = |&address| Entry { address, len: 4096 };
    addresses.iter().map(entry).collect()
}

/// The bytes of a list, as the guest wrote them.
fn written(guest: &Guest, entries: &[Entry], seed: u64) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in entries {
        let bytes: Vec<u8> = (0..entry.len)
            .map(|at| towpath_texture_model::noise(entry.address + at, seed))
            .collect();
        guest
            .write_slice(&bytes, GuestAddress(entry.address))
            .unwrap();
        all.extend(bytes);
    }
    all
}

#[test]
fn a_guests_pictures_arrive_and_come_back_across_regions() {
    let guest = regions(&[0, REGION, FAR]);
    let mut device = Device::over(Arc::clone(&guest) as Arc<dyn Memory>, eager(), BUDGET);
    let texture = Texture::picture(Format::RGBA8, 64, 64);
    device.create(1, texture).unwrap();
    // One entry lies across the border of two regions, one in the far region.
    let mut entries = pages(&[FAR, 8192, FAR + 4096]);
    entries.push(Entry {
        address: REGION - 2048,
        len: 4096,
    });
    device.attach(1, &entries).unwrap();
    let upload = Request::picture(64, 64, Direction::Upload);
    for seed in 0..3 {
        let right = written(&guest, &entries, seed);
        let done = device.transfer(1, &upload).unwrap();
        // The border inside a page cannot be mapped: copied.
        assert_eq!((done.path, done.bytes), (Path::Gather, 64 * 64 * 4));
        assert!(device.image(1).unwrap().level(0) == Some(&right[..]));
    }
    device.detach(1).unwrap();
    let entries = pages(&[FAR + 8192, 4096, REGION, REGION - 4096]);
    device.attach(1, &entries).unwrap();
    let right = written(&guest, &entries, 9);
    for _use in 0..3 {
        let done = device.transfer(1, &upload).unwrap();
        assert!(matches!(done.path, Path::View(_)), "{done:?}");
        assert!(device.image(1).unwrap().level(0) == Some(&right[..]));
    }
    written(&guest, &entries, 10);
    let download = Request::picture(64, 64, Direction::Download);
    device.transfer(1, &download).unwrap();
    for (entry, page) in entries.iter().zip(right.chunks(4096)) {
        let mut seen = vec![0; 4096];
        guest
            .read_slice(&mut seen, GuestAddress(entry.address))
            .unwrap();
        assert!(seen == page, "{entry:?}");
    }
}

/// 5.13: the memory table changes between attach and transfer; the old memory stays mapped until nobody uses it.
#[test]
fn a_region_that_is_removed_ends_what_lay_in_it() {
    let guest = regions(&[0, FAR]);
    let weak = Arc::downgrade(&guest);
    let mut device = Device::over(guest, eager(), BUDGET);
    for id in [1, 2] {
        device
            .create(id, Texture::picture(Format::RGBA8, 32, 64))
            .unwrap();
    }
    device.attach(1, &pages(&[FAR, FAR + 8192])).unwrap();
    device.attach(2, &pages(&[8192, 0])).unwrap();
    let upload = Request::picture(32, 64, Direction::Upload);
    device.transfer(1, &upload).unwrap();
    let smaller = regions(&[0]);
    device.replace_memory(Arc::clone(&smaller) as Arc<dyn Memory>);
    assert_eq!(device.transfers().views().held(), 0);
    for id in [1, 2] {
        assert!(matches!(device.transfer(id, &upload), Err(Error::Revoked)));
        device.detach(id).unwrap();
    }
    assert!(weak.upgrade().is_none(), "the old memory is unmapped");
    let gone = device.attach(1, &pages(&[FAR]));
    assert!(
        matches!(gone, Err(Error::NotGuestMemory { .. })),
        "{gone:?}"
    );
    device.attach(1, &pages(&[4096, 16_384])).unwrap();
    device.transfer(1, &upload).unwrap();
}

#[test]
fn hostile_commands_are_refused_and_change_nothing() {
    let guest = regions(&[0]);
    let mut device = Device::over(Arc::clone(&guest) as Arc<dyn Memory>, eager(), BUDGET);
    let texture = Texture::picture(Format::RGBA8, 16, 16);
    device.create(7, texture).unwrap();
    let bad_lists = [
        vec![(u64::MAX - 5, 100)],
        vec![(0, u64::MAX), (0, u64::MAX)],
        vec![(REGION - 1, 2)],
        vec![(0, 4096), (REGION, 1)],
    ];
    for list in bad_lists {
        let entry = |&(address, len)| Entry { address, len };
        let entries: Vec<Entry> = list.iter().map(entry).collect();
        device.attach(7, &entries).unwrap_err();
    }
    device.attach(7, &pages(&[4096])).unwrap();
    let huge = Texture::picture(Format::RGBA8, u32::MAX, u32::MAX);
    device.create(8, huge).unwrap_err();
    let deep = Texture {
        dimension: Dimension::D3,
        depth: u32::MAX,
        ..texture
    };
    device.create(8, deep).unwrap_err();
    device.create(7, texture).unwrap_err();
    device.attach(7, &pages(&[0])).unwrap_err();
    device.attach(99, &pages(&[0])).unwrap_err();
    let whole = Request::picture(16, 16, Direction::Upload);
    let hostile = [
        Request {
            level: u32::MAX,
            ..whole
        },
        Request {
            offset: u64::MAX,
            ..whole
        },
        Request {
            offset: 4096 - 16 * 16 * 4 + 1,
            ..whole
        },
        Request {
            stride: 63,
            ..whole
        },
        Request {
            stride: u64::MAX,
            ..whole
        },
        Request {
            region: Region {
                depth: u32::MAX,
                ..whole.region
            },
            layer_stride: 1 << 63,
            ..whole
        },
        Request {
            region: Region {
                x: u32::MAX,
                ..whole.region
            },
            ..whole
        },
        Request {
            region: Region {
                z: 1,
                ..whole.region
            },
            ..whole
        },
    ];
    guest.write_slice(&[0xaa; 8192], GuestAddress(0)).unwrap();
    for request in hostile {
        for direction in [Direction::Upload, Direction::Download] {
            let answer = device.transfer(
                7,
                &Request {
                    direction,
                    ..request
                },
            );
            assert!(answer.is_err(), "{request:?}");
        }
    }
    assert!(
        device
            .image(7)
            .unwrap()
            .level(0)
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    let mut seen = vec![0; 8192];
    guest.read_slice(&mut seen, GuestAddress(0)).unwrap();
    assert!(seen.iter().all(|byte| *byte == 0xaa));
    device.transfer(99, &whole).unwrap_err();
    device.detach(99).unwrap_err();
    device.unref(99).unwrap_err();
    device.unref(7).unwrap();
    device.transfer(7, &whole).unwrap_err();
}

/// Commands of every kind in any order, a million of them: descriptors, mappings and pins are as they were.
#[test]
fn a_million_commands_leave_descriptors_mappings_and_pins_as_they_were() {
    let memory = Arc::new(towpath_transfer::textures::Ram::new(1 << 20).unwrap());
    let mut device = Device::over(memory, eager(), BUDGET);
    let mut random = fastrand::Rng::with_seed(21);
    let mut counts = Vec::new();
    let mut refused = 0_u32;
    for command in 0..1_000_000_u32 {
        let id = random.u32(..24);
        let answer = match random.u32(..64) {
            0..2 => device.create(id, Texture::picture(Format::RGBA8, 32, 32)),
            2..4 => {
                let count = random.usize(..4);
                let page = |_: usize| random.u64(..256) * 4096;
                device.attach(id, &pages(&(0..count).map(page).collect::<Vec<_>>()))
            }
            4 => device.detach(id),
            5 => device.unref(id),
            6 if random.u8(..16) == 0 => {
                device.discard();
                Ok(())
            }
            7 if random.u8(..) == 0 => {
                device.remove_memory();
                Ok(())
            }
            _ => {
                let mut request = Request::picture(32, 8, Direction::Upload);
                request.region.y = random.u32(..30);
                request.offset = u64::from(random.u32(..40)) * 128;
                if random.bool() {
                    request.direction = Direction::Download;
                }
                device.transfer(id, &request).map(|_done| ())
            }
        };
        refused += u32::from(answer.is_err());
        if command % 250_000 == 200_000 {
            // All of it ended: what is left is the same each time.
            for id in 0..24 {
                let _absent = device.unref(id);
            }
            counts.push(resources());
        }
    }
    assert_eq!(counts.len(), 4);
    assert!(
        counts.windows(2).all(|pair| pair.first() == pair.last()),
        "{counts:?}"
    );
    let totals = device.transfers().totals();
    assert!(
        totals.viewed > 50_000 && totals.gathered > 1000,
        "{totals:?}"
    );
    assert!(refused > 100_000, "{refused}");
}

/// Open descriptors, mappings of memory files, and pinned memory.
fn resources() -> (usize, usize, String) {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let pinned = status.lines().find(|line| line.starts_with("VmPin:"));
    (
        fds,
        maps.matches("/memfd:towpath").count(),
        pinned.unwrap().to_owned(),
    )
}
