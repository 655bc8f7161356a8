//! glbench's rows on Vulkan images: the temporary copy against gathering, views, imports and the choice.
//!
//! There is no draw: `texture_update` waits after every upload, which is the worst a draw can ask for;
//! `texture_reuse` after every eighth; `texture_upload` at the end. `teximage2d` takes turns between two
//! images per texture, as a driver that renames does.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_settings::Settings;
use towpath_transfer::textures::engine::Policy;
use towpath_transfer::textures::views::{Budget, Views};
use towpath_transfer::textures::vulkan::{Device, Offer, Vulkan, VulkanImage, Ways};
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Entry, Format, Memory, Model, Request, Texture, Transfers,
    baseline,
};
use towpath_virgl_client::Piece;

use super::guest::Pieces;
use super::imports::{self, Try};
use super::output::{Cell, Document};
use super::rows::{Flavour, Row, TEXTURES, Test};
use super::timing::{self, Design, Workload, geomean};
use super::{Args, Common};

/// What is written beside the machine.
#[derive(Debug, Serialize)]
struct Body {
    offer: OfferText,
    model: Model,
    imports: Vec<Try>,
    cells: Vec<Cell>,
    /// Per arm: geometric mean over all rows against the temporary copy.
    geomeans: Vec<(&'static str, f64)>,
    slower: Vec<String>,
}

#[derive(Debug, Serialize)]
struct OfferText {
    device: String,
    driver: String,
    version: (u32, u32),
    host_import_alignment: Option<u64>,
    dma_buf_import: bool,
    host_image_copy: bool,
    udmabuf_device: bool,
}

impl OfferText {
    fn new(offer: &Offer) -> Self {
        Self {
            device: offer.device.clone(),
            driver: offer.driver.clone(),
            version: offer.version,
            host_import_alignment: offer.host_import,
            dma_buf_import: offer.dma_buf_import,
            host_image_copy: offer.host_image_copy,
            udmabuf_device: Views::open_device().is_some(),
        }
    }
}

/// Runs all rows.
pub(super) fn run(args: &Args, common: &Common) -> Result<ExitCode> {
    let name = Some(common.device.as_str()).filter(|name| !name.is_empty());
    let mut vulkan = Vulkan::new(Device::open(name)?, Ways::default())?;
    let offer = vulkan.device().offer().clone();
    let device = Arc::clone(vulkan.device());
    let (settings, _problems) = Settings::from_environment();
    let model = Model::stored(&settings);
    let imports = imports::all(&mut vulkan, common.is_quick);
    print_imports(&offer, &imports);
    drop(vulkan);

    let mut random = Random::new(common.seed);
    let design = Design {
        sample_nanos: args.sample_ms * 1_000_000,
        rounds: common.rounds,
        uploads: None,
    };
    let default = [4 << 10, 64 << 10, 2 << 20].map(Pieces::plain);
    let mut cells = Vec::new();
    for pieces in args.pieces(&default) {
        let mut subjects: Vec<Subject> = Row::all(common.is_quick, &args.row)
            .into_iter()
            .map(Subject::Row)
            .collect();
        subjects.extend([4 << 10, 64 << 10, 1 << 20, 4 << 20].map(Subject::Buffer));
        for subject in subjects {
            let cell = cell(subject, pieces, (&device, &model), design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
    }
    let body = summary(&offer, model, imports, cells);
    let driver = offer.driver.clone();
    let schema = "towpath.bench-textures-vulkan/1";
    Document::new(schema, driver, DESIGN, (args, common), body).write(common.json.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

const DESIGN: &str = "all arms once per round in random order in one process, on one device; \
                      nanoseconds per upload of a sample of at least sample_ms, its waits \
                      included; contents are noise, read back and compared; \"temporary again\" is the \
                      first arm once more, so that a difference between two arms of one way shows; \
                      verdicts after Holm's correction over an arm's rows";

fn print_imports(offer: &Offer, imports: &[Try]) {
    say!(
        "{} ({}), Vulkan {}.{}",
        offer.device,
        offer.driver,
        offer.version.0,
        offer.version.1
    );
    for found in imports {
        let mut times = found.nanos.clone();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied().unwrap_or(0) as f64 / 1000.0;
        say!(
            "import {:>3} MiB of {:<34} {:>9.1} us  right {:?}, live {:?}  {}",
            found.bytes >> 20,
            found.memory,
            middle,
            found.is_right,
            found.is_live,
            found.outcome
        );
    }
}

fn summary(offer: &Offer, model: Model, imports: Vec<Try>, mut cells: Vec<Cell>) -> Body {
    let names = [
        "gather",
        "view",
        "import",
        "regions",
        "host copy",
        "chosen",
        "temporary again",
    ];
    for name in names {
        let all = cells.iter_mut().flat_map(|cell| &mut cell.against);
        timing::holm(all.filter(|other| other.arm == name));
    }
    let geomeans: Vec<(&'static str, f64)> = names
        .into_iter()
        .map(|name| {
            let all = cells.iter().flat_map(|cell| &cell.against);
            let of_arm = all.filter(|other| other.arm == name).map(|o| o.speedup);
            (name, geomean(of_arm))
        })
        .filter(|(_, gain)| gain.is_finite())
        .collect();
    let slower: Vec<String> = cells
        .iter()
        .filter(|cell| {
            let mut chosen = cell.against.iter().filter(|other| other.arm == "chosen");
            chosen.any(|other| other.verdict == "slower")
        })
        .map(|cell| format!("{} in {}", cell.name, cell.pieces.text()))
        .collect();
    say!("\nagainst the temporary copy (geometric means over all rows): {geomeans:.2?}");
    say!("rows in which the choice is proven slower: {slower:?}");
    let rounds = cells.iter().flat_map(|cell| &cell.arms);
    let rounds = rounds.map(|arm| arm.nanos.len()).min().unwrap_or(0);
    let needed = timing::rounds_to_prove(cells.len());
    if rounds < needed {
        say!(
            "{rounds} rounds prove nothing about {} rows together: it takes {needed}",
            cells.len()
        );
    }
    Body {
        offer: OfferText::new(offer),
        model,
        imports,
        cells,
        geomeans,
        slower,
    }
}

/// What is uploaded.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Row(Row),
    Buffer(u32),
}

impl Subject {
    const fn row(self) -> Option<Row> {
        match self {
            Self::Row(row) => Some(row),
            Self::Buffer(_) => None,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Row(row) => row.name(),
            Self::Buffer(bytes) => format!("buffer_upload_{bytes}"),
        }
    }

    fn texture(self) -> Texture {
        match self {
            Self::Row(row) => {
                let format = if row.is_luminance {
                    Format::R8
                } else {
                    Format::RGBA8
                };
                Texture::picture(format, row.side, row.side)
            }
            Self::Buffer(bytes) => Texture::buffer(bytes),
        }
    }

    fn bytes(self) -> u64 {
        self.texture().linear_bytes(0).unwrap_or(0)
    }
}

type Setting<'a> = (&'a Arc<Device>, &'a Model);

fn cell(
    subject: Subject,
    pieces: Pieces,
    (device, model): Setting<'_>,
    design: Design,
    random: &mut Random,
) -> Result<Cell> {
    let mut arms: Vec<(&'static str, Box<dyn Workload>)> = Vec::new();
    let source = Guests::new(subject, pieces)?;
    for way in Way::all(device.offer()) {
        let uploads = Uploads::new(subject, &source, way, device, model)?;
        arms.push((way.name(), Box::new(uploads)));
    }
    let results = timing::measure(&mut arms, design, random)?;
    drop(arms);
    Ok(Cell {
        name: subject.name(),
        row: subject.row(),
        bytes: subject.bytes(),
        pieces,
        against: timing::against_first(&results)?,
        arms: results,
    })
}

/// One arm.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Temporary,
    Gather,
    View,
    Import,
    Regions,
    HostCopy,
    Chosen,
    Again,
}

impl Way {
    fn all(offer: &Offer) -> Vec<Self> {
        let mut ways = vec![Self::Temporary, Self::Gather, Self::View];
        if offer.host_import.is_some() {
            ways.push(Self::Import);
            ways.push(Self::Regions);
        }
        if offer.host_image_copy {
            ways.push(Self::HostCopy);
        }
        ways.push(Self::Chosen);
        ways.push(Self::Again);
        ways
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Temporary => "temporary",
            Self::Gather => "gather",
            Self::View => "view",
            Self::Import => "import",
            Self::Regions => "regions",
            Self::HostCopy => "host copy",
            Self::Chosen => "chosen",
            Self::Again => "temporary again",
        }
    }

    const fn ways(self) -> Ways {
        Ways {
            import: matches!(self, Self::Import | Self::Chosen),
            host_image_copy: matches!(self, Self::HostCopy),
            regions: matches!(self, Self::Regions),
        }
    }

    const fn policy(self) -> Policy {
        match self {
            Self::Temporary | Self::Again | Self::Gather | Self::Regions => Policy::Never,
            Self::View | Self::Import | Self::HostCopy => Policy::Always,
            Self::Chosen => Policy::Chosen,
        }
    }
}

/// Scattered contents that all arms upload.
struct Guests {
    memory: Arc<dyn Memory>,
    lists: Vec<Vec<Entry>>,
}

impl Guests {
    fn new(subject: Subject, pieces: Pieces) -> Result<Self> {
        let count = subject.row().map_or(1, Row::textures);
        let mut guest = pieces.guest(subject.bytes().max(pieces.bytes) * count as u64, 7)?;
        let mut lists = Vec::new();
        for index in 0..count {
            let taken = guest.take(subject.bytes())?;
            guest.write(&taken, &contents(subject.bytes(), index));
            lists.push(entries(&taken));
        }
        Ok(Self {
            memory: Arc::clone(guest.ram()) as Arc<dyn Memory>,
            lists,
        })
    }
}

fn entries(pieces: &[Piece]) -> Vec<Entry> {
    let entry = |piece: &Piece| Entry {
        address: piece.address,
        len: piece.len,
    };
    pieces.iter().map(entry).collect()
}

/// Textures of one arm.
struct Uploads {
    transfers: Transfers<Vulkan>,
    way: Way,
    texture: Texture,
    request: Request,
    row: Option<Row>,
    images: Vec<VulkanImage>,
    backings: Vec<Backing>,
    turn: u64,
    path: Option<String>,
}

impl Uploads {
    fn new(
        subject: Subject,
        source: &Guests,
        way: Way,
        device: &Arc<Device>,
        model: &Model,
    ) -> Result<Self> {
        let backend = Vulkan::on(Arc::clone(device), way.ways())?;
        let budget = Budget::of_this_machine();
        let transfers =
            Transfers::new(backend, *model, budget, Views::open_device()).policy(way.policy());
        let texture = subject.texture();
        let mut uploads = Self {
            transfers,
            way,
            request: Request::picture(texture.width, texture.height, Direction::Upload),
            texture,
            row: subject.row(),
            images: Vec::new(),
            backings: Vec::new(),
            turn: 0,
            path: None,
        };
        let renames = subject
            .row()
            .is_some_and(|row| row.flavour == Flavour::Teximage2d);
        for entries in &source.lists {
            uploads
                .backings
                .push(Backing::attach(&source.memory, entries)?);
            for _image in 0..=usize::from(renames) {
                let image = uploads.transfers.backend().create(&texture)?;
                uploads.images.push(image);
            }
        }
        uploads.upload(u64::try_from(2 * TEXTURES)?)?;
        uploads.check()?;
        Ok(uploads)
    }

    fn upload(&mut self, n: u64) -> Result<()> {
        let count = self.backings.len() as u64;
        for _upload in 0..n {
            let at = usize::try_from(self.turn % count)?;
            let image_at = usize::try_from(self.turn % self.images.len() as u64)?;
            // With two images per texture, the images of a texture are `count` turns apart.
            let (Some(backing), Some(image)) =
                (self.backings.get(at), self.images.get_mut(image_at))
            else {
                continue;
            };
            self.turn += 1;
            if matches!(self.way, Way::Temporary | Way::Again) {
                let backend = self.transfers.backend();
                baseline::upload(backend, &self.texture, image, backing, &self.request)?;
            } else {
                let done = self
                    .transfers
                    .transfer(&self.texture, image, backing, &self.request)?;
                if self.turn % PATH_EVERY == 1 {
                    self.path = Some(format!("{:?}", done.path));
                }
            }
            let is_end = self.turn.is_multiple_of(count);
            match self.row.map(|row| row.test) {
                Some(Test::TextureUpdate) => self.transfers.backend().finish()?,
                Some(Test::TextureReuse) if is_end => self.transfers.backend().finish()?,
                _ => {}
            }
        }
        self.transfers.backend().finish()?;
        Ok(())
    }

    /// Reads the first image back and compares.
    fn check(&mut self) -> Result<()> {
        let bytes = self.texture.linear_bytes(0).unwrap_or(0);
        let mut guest = Pieces::plain(4096).guest(bytes, 9)?;
        let taken = guest.take(bytes)?;
        let memory: Arc<dyn Memory> = Arc::clone(guest.ram()) as Arc<dyn Memory>;
        let backing = Backing::attach(&memory, &entries(&taken))?;
        let request = Request {
            direction: Direction::Download,
            ..self.request
        };
        if let Some(image) = self.images.first_mut() {
            self.transfers
                .transfer(&self.texture, image, &backing, &request)?;
            self.transfers.detach(&backing)?;
            let is_right = guest.read(&taken) == contents(bytes, 0);
            ensure!(is_right, "{}: wrong texels", self.way.name());
        }
        Ok(())
    }
}

impl Workload for Uploads {
    fn run(&mut self, n: u64) -> Result<()> {
        self.upload(n)
    }

    fn warm_up(&self) -> u64 {
        let each = if self.way == Way::Chosen {
            USES_TO_PAY
        } else {
            2
        };
        each * self.backings.len() as u64
    }

    fn path(&self) -> Option<String> {
        self.path.clone()
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        for image in self.images.drain(..) {
            self.transfers.backend().destroy(image);
        }
    }
}

/// More transfers than a list needs before its view has paid (at most 15 by the goal).
const USES_TO_PAY: u64 = 40;

/// Naming the path allocates: rarely.
const PATH_EVERY: u64 = 64;

fn contents(bytes: u64, index: usize) -> Vec<u8> {
    let seed = (index as u64 + 1) << 40;
    (0..bytes)
        .map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0])
        .collect()
}
