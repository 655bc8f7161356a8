//! One suite for every backend: what was uploaded comes back, by every way, in every shape; what does not
//! fit is refused before a byte moves.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::sync::Arc;

use towpath_needs::{Need, can_run};
use towpath_texture_model::{Case, Input, addresses, fill, moves};
use towpath_transfer::textures::engine::Policy;
use towpath_transfer::textures::null::Null;
use towpath_transfer::textures::shape::{Dimension, Format, Texture};
use towpath_transfer::textures::views::{Budget, Why};
use towpath_transfer::textures::vulkan::{Device, Vulkan, Ways};
use towpath_transfer::textures::{
    Backend, Backing, Direction, Entry, Error, Memory, Model, Path, Ram, Region, Request, Transfers,
};

const RAM_BYTES: u64 = 256 << 10;

fn budget() -> Budget {
    Budget {
        entries: 8,
        mappings: 4096,
        bytes: 1 << 30,
    }
}

struct Bench<B: Backend> {
    ram: Arc<Ram>,
    memory: Arc<dyn Memory>,
    transfers: Transfers<B>,
}

impl<B: Backend> Bench<B> {
    fn new(backend: B, policy: Policy) -> Self {
        let ram = Arc::new(Ram::new(RAM_BYTES).unwrap());
        let memory: Arc<dyn Memory> = Arc::clone(&ram) as Arc<dyn Memory>;
        Self {
            ram,
            memory,
            transfers: Transfers::new(backend, Model::default(), budget(), None).policy(policy),
        }
    }

    /// Uploads by `request`, reads the whole level back into other memory, and compares with the model.
    fn round_trip(&mut self, case: &Case) -> Option<Path> {
        let Case {
            texture,
            entries,
            request,
        } = case;
        let mut image = match self.transfers.backend().create(texture) {
            Ok(image) => image,
            // The device lacks the format; another case has another.
            Err(Error::Texture { .. }) => return None,
            Err(error) => panic!("{error}: {case:?}"),
        };
        let backing = Backing::attach(&self.memory, entries).unwrap();
        let ram = fill(&self.ram, RAM_BYTES, 1);
        let upload = Request {
            direction: Direction::Upload,
            ..*request
        };
        let expected = moves(texture, &upload, backing.len());
        let answer = self
            .transfers
            .transfer(texture, &mut image, &backing, &upload);
        let path = match (answer, &expected) {
            (Ok(done), Some(_)) => Some(done.path),
            (Err(_), None) => None,
            (answer, _) => panic!("{answer:?}, {expected:?}: {case:?}"),
        };
        // Pages of an import are the device's until it has finished.
        self.transfers.backend().finish().unwrap();
        let level = request.level.min(texture.levels - 1);
        let seen = self.whole_level(texture, &mut image, level);
        let mut right = vec![0; seen.len()];
        let places = addresses(entries);
        for (guest, at) in expected.into_iter().flatten() {
            right[usize::try_from(at).unwrap()] =
                ram[usize::try_from(places[usize::try_from(guest).unwrap()]).unwrap()];
        }
        assert!(seen == right, "{path:?} {case:?}");
        self.transfers.detach(&backing).unwrap();
        self.transfers.backend().destroy(image);
        path
    }

    fn whole_level(&mut self, texture: &Texture, image: &mut B::Image, level: u32) -> Vec<u8> {
        let extent = texture.extent(level).unwrap();
        let bytes = texture.linear_bytes(level).unwrap();
        let entry = Entry {
            address: 0,
            len: bytes,
        };
        let backing = Backing::attach(&self.memory, &[entry]).unwrap();
        let request = Request {
            level,
            region: Region {
                x: 0,
                y: 0,
                z: 0,
                width: extent.width,
                height: extent.height,
                depth: extent.layers,
            },
            offset: 0,
            stride: 0,
            layer_stride: 0,
            direction: Direction::Download,
        };
        fill(&self.ram, RAM_BYTES, 9);
        self.transfers
            .transfer(texture, image, &backing, &request)
            .unwrap();
        let seen = self.ram.bytes().get(0, usize::try_from(bytes).unwrap());
        let seen = seen.unwrap().to_vec();
        self.transfers.detach(&backing).unwrap();
        seen
    }
}

fn shapes() -> Vec<Texture> {
    let picture = Texture::picture(Format::RGBA8, 37, 19);
    let with = |dimension, layers, levels| Texture {
        dimension,
        layers,
        levels,
        ..picture
    };
    vec![
        picture,
        with(Dimension::D2, 1, 5),
        with(Dimension::D2Array, 3, 2),
        with(Dimension::Rectangle, 1, 1),
        Texture {
            dimension: Dimension::D3,
            depth: 5,
            levels: 2,
            ..picture
        },
        Texture {
            height: 37,
            ..with(Dimension::Cube, 6, 1)
        },
        Texture {
            dimension: Dimension::D1,
            height: 1,
            ..picture
        },
        Texture {
            dimension: Dimension::D1Array,
            height: 1,
            layers: 4,
            ..picture
        },
        Texture::picture(Format::R8, 33, 7),
        Texture::picture(Format::texel(16), 20, 6),
        Texture::picture(Format::BC1, 32, 16),
        Texture::buffer(5003),
    ]
}

/// Pages and parts of pages, in no order.
fn lists(random: &mut fastrand::Rng) -> Vec<Vec<Entry>> {
    let mut pages: Vec<u64> = (0..RAM_BYTES / 4096).collect();
    random.shuffle(&mut pages);
    let whole = pages.iter().map(|page| Entry {
        address: page * 4096,
        len: 4096,
    });
    let ragged = (0..30).map(|_| Entry {
        address: random.u64(0..RAM_BYTES - 3000),
        len: random.u64(0..3000),
    });
    let offset = Entry {
        address: 1000,
        len: RAM_BYTES - 1000,
    };
    vec![whole.collect(), ragged.collect(), vec![offset], vec![]]
}

fn suite<B: Backend>(bench: &mut Bench<B>, rounds: u64) -> Vec<Path> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut paths = Vec::new();
    for texture in shapes() {
        for entries in lists(&mut random) {
            for round in 0..rounds {
                let bytes: Vec<u8> = (0..60).map(|_| random.u8(..)).collect();
                let mut request = Input::new(&bytes).request(&texture);
                if round == 0 {
                    let extent = texture.extent(0).unwrap();
                    request = Request::picture(extent.width, extent.height, Direction::Upload);
                    request.region.depth = extent.layers;
                }
                let case = Case {
                    texture,
                    entries: entries.clone(),
                    request,
                };
                paths.extend(bench.round_trip(&case));
            }
        }
    }
    paths
}

#[test]
fn the_null_backend_conforms_by_every_way() {
    for policy in [Policy::Never, Policy::Chosen, Policy::Always] {
        let mut bench = Bench::new(Null, policy);
        let paths = suite(&mut bench, 5);
        let viewed = paths.iter().filter(|p| matches!(p, Path::View(_))).count();
        assert_eq!(
            viewed > 15,
            policy == Policy::Always,
            "{policy:?}: {viewed}"
        );
        let gathered = paths.iter().filter(|p| **p == Path::Gather).count();
        assert!(gathered > 15, "{policy:?}: {gathered}");
    }
}

fn vulkan(ways: Ways) -> Vulkan {
    Vulkan::new(Device::open(Some("llvmpipe")).unwrap(), ways).unwrap()
}

#[test]
fn lavapipe_conforms_gathering() {
    if can_run(&[Need::Lavapipe]) {
        let paths = suite(&mut Bench::new(vulkan(Ways::default()), Policy::Never), 3);
        assert!(paths.iter().filter(|path| **path == Path::Gather).count() > 30);
    }
}

#[test]
fn lavapipe_conforms_importing_views() {
    if can_run(&[Need::Lavapipe]) {
        let mut bench = Bench::new(vulkan(Ways::default()), Policy::Always);
        let paths = suite(&mut bench, 3);
        let imported = paths.iter().filter(|p| matches!(p, Path::Import(_)));
        let counts = bench.transfers.backend().counts();
        assert!(imported.count() > 10, "{counts:?}");
        assert!(counts.imported > 10 && counts.refused == 0, "{counts:?}");
    }
}

#[test]
fn lavapipe_conforms_copying_from_views() {
    if can_run(&[Need::Lavapipe]) {
        let ways = Ways {
            import: false,
            ..Ways::default()
        };
        let paths = suite(&mut Bench::new(vulkan(ways), Policy::Always), 2);
        assert!(paths.iter().any(|path| matches!(path, Path::View(_))));
    }
}

/// The device fetches from the pieces: rows inside one piece, rows across pieces, blocks, layers, slices. What it
/// cannot name (texels across pieces, offsets between texels) is gathered.
#[test]
fn lavapipe_conforms_fetching_from_pieces() {
    if !can_run(&[Need::Lavapipe]) {
        return;
    }
    let ways = Ways {
        regions: true,
        ..Ways::default()
    };
    let mut bench = Bench::new(vulkan(ways), Policy::Never);
    let paths = suite(&mut bench, 4);
    let count = |path: Path| paths.iter().filter(|seen| **seen == path).count();
    let (fetched, gathered) = (count(Path::Regions), count(Path::Gather));
    assert!(fetched > 25 && gathered > 5, "{fetched} {gathered}");
    let counts = bench.transfers.backend().counts();
    assert_eq!((counts.imported, counts.refused), (1, 0), "{counts:?}");
    let memory = Arc::clone(&bench.memory);
    bench.transfers.backend().forget_memory(&memory).unwrap();
    drop(memory);
    let Bench { ram, memory, .. } = bench;
    drop(memory);
    assert_eq!(Arc::strong_count(&ram), 1, "the memory is let go");
}

/// A second driver, which also lets the processor write images: SwiftShader, as Debian's chromium brings it.
#[test]
fn swiftshader_conforms_by_every_way() {
    let library = std::path::Path::new("/usr/lib/chromium/libvk_swiftshader.so");
    if !can_run(&[Need::Chromium]) || !library.is_file() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("driver.json");
    let text = format!(
        r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{}", "api_version": "1.0.5"}}}}"#,
        library.display()
    );
    std::fs::write(&driver, text).unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inner_swiftshader", "--ignored", "--nocapture"])
        .env("VK_ICD_FILENAMES", &driver)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "runs in a child"]
fn inner_swiftshader() {
    let open = |ways| Vulkan::new(Device::open(Some("SwiftShader")).unwrap(), ways).unwrap();
    let by_processor = Ways {
        host_image_copy: true,
        import: false,
        ..Ways::default()
    };
    let mut bench = Bench::new(open(by_processor), Policy::Always);
    suite(&mut bench, 3);
    let counts = bench.transfers.backend().counts();
    assert!(counts.host_copied > 10, "{counts:?}");

    let mut bench = Bench::new(open(Ways::default()), Policy::Always);
    let paths = suite(&mut bench, 3);
    let imported = paths.iter().filter(|p| matches!(p, Path::Import(_)));
    assert!(imported.count() > 10);

    let pieces = Ways {
        regions: true,
        ..Ways::default()
    };
    let paths = suite(&mut Bench::new(open(pieces), Policy::Never), 3);
    assert!(paths.iter().filter(|path| **path == Path::Regions).count() > 20);
}

/// The same under Khronos' validation layer, which prints what it finds.
#[test]
fn validation_has_nothing_to_say() {
    if !can_run(&[Need::Lavapipe, Need::ValidationLayers]) {
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["lavapipe_conforms", "--nocapture"])
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let complaint = text.lines().find(|line| line.contains("VUID"));
    assert_eq!(complaint, None);
}

#[test]
fn an_empty_box_needs_no_backing_and_no_reason() {
    let mut bench = Bench::new(Null, Policy::Always);
    let texture = Texture::picture(Format::RGBA8, 4, 4);
    let mut image = bench.transfers.backend().create(&texture).unwrap();
    let nothing = Backing::attach(&bench.memory, &[]).unwrap();
    let mut request = Request::picture(0, 4, Direction::Upload);
    request.offset = u64::MAX;
    request.stride = 1;
    let done = bench
        .transfers
        .transfer(&texture, &mut image, &nothing, &request)
        .unwrap();
    assert_eq!((done.path, done.bytes), (Path::Nothing, 0));
}

#[test]
fn a_view_that_cannot_be_made_is_counted_and_copied() {
    let mut bench = Bench::new(Null, Policy::Always);
    let texture = Texture::picture(Format::RGBA8, 64, 64);
    let mut image = bench.transfers.backend().create(&texture).unwrap();
    let halves = [100_u64, 9000].map(|address| Entry { address, len: 8192 });
    let backing = Backing::attach(&bench.memory, &halves).unwrap();
    let request = Request::picture(64, 64, Direction::Upload);
    for _ in 0..3 {
        let done = bench
            .transfers
            .transfer(&texture, &mut image, &backing, &request)
            .unwrap();
        assert_eq!((done.path, done.why), (Path::Gather, Some(Why::Unaligned)));
    }
    let counts = bench.transfers.views().counts();
    assert_eq!(counts.copies[Why::Unaligned as usize], 3);
    assert_eq!(counts.made, 0);
}
