//! A transfer to a Vulkan image allocates nothing of ours once warm, whichever way it takes.
//!
//! What the driver allocates is not ours: it does so by the C library, past this program's allocator.

use std::sync::Arc;

use towpath_counting::{Counting, in_process};
use towpath_needs::{Need, can_run};
use towpath_transfer::textures::engine::Policy;
use towpath_transfer::textures::views::Budget;
use towpath_transfer::textures::vulkan::{Device, Vulkan, Ways};
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Entry, Format, Memory, Model, Path, Ram, Request, Texture,
    Transfers,
};

#[global_allocator]
static COUNTING: Counting = Counting;

/// The way, the rule about views, and whether a transfer went as it should then.
type Way = (Ways, Policy, fn(Path) -> bool);

fn ways() -> Vec<Way> {
    let none = Ways {
        import: false,
        host_image_copy: false,
        regions: false,
    };
    let import = Ways {
        import: true,
        ..none
    };
    let regions = Ways {
        regions: true,
        ..none
    };
    vec![
        (none, Policy::Never, |path| path == Path::Gather),
        (none, Policy::Always, |path| matches!(path, Path::View(_))),
        (import, Policy::Always, |path| {
            matches!(path, Path::Import(_))
        }),
        (import, Policy::Chosen, |path| {
            matches!(path, Path::Import(_))
        }),
        (regions, Policy::Never, |path| path == Path::Regions),
    ]
}

#[test]
fn no_way_allocates_once_warm() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let device = Arc::new(Device::open(Some("llvmpipe")).unwrap());
    let ram = Arc::new(Ram::new(1 << 20).unwrap());
    let memory: Arc<dyn Memory> = ram;
    let entries: Vec<Entry> = (0..64_u64)
        .map(|index| Entry {
            address: (index * 37 % 64) * 2 * 4096,
            len: 4096,
        })
        .collect();
    let texture = Texture::picture(Format::RGBA8, 256, 256);
    let upload = Request::picture(256, 256, Direction::Upload);
    let download = Request {
        direction: Direction::Download,
        ..upload
    };
    for (ways, policy, is_right) in ways() {
        let backend = Vulkan::on(Arc::clone(&device), ways).unwrap();
        let budget = Budget::of_this_machine();
        let mut transfers = Transfers::new(backend, Model::default(), budget, None).policy(policy);
        let mut image = transfers.backend().create(&texture).unwrap();
        let backing = Backing::attach(&memory, &entries).unwrap();
        let mut run = |count: u32| {
            let mut last = None;
            for _transfer in 0..count {
                transfers
                    .transfer(&texture, &mut image, &backing, &download)
                    .unwrap();
                let done = transfers.transfer(&texture, &mut image, &backing, &upload);
                last = Some(done.unwrap().path);
            }
            last.unwrap()
        };
        // More than a view needs to pay.
        run(60);
        let before = in_process();
        let path = run(200);
        let after = in_process();
        assert!(is_right(path), "{ways:?} {policy:?}: {path:?}");
        assert_eq!(after - before, 0, "{ways:?} {policy:?}");
        transfers.detach(&backing).unwrap();
        transfers.backend().destroy(image);
    }
}
