//! Textures in memory by every way, without a device: what copying alone costs, by size and piece size.
//!
//! The destination is plain memory, as a driver's staging memory is. Beside the ways stands what this machine
//! does at best when every byte is read once and written once: one large copy past the caches.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_measure::sample::median;
use towpath_measure::{Clock as _, MonotonicClock};
use towpath_memory::volatile::VolatileBytes;
use towpath_settings::Settings;
use towpath_transfer::textures::engine::Policy;
use towpath_transfer::textures::null::{Null, NullImage};
use towpath_transfer::textures::views::{Budget, Views};
use towpath_transfer::textures::{
    Backend as _, Backing, Direction, Entry, Format, Memory, Model, Ram, Request, Texture,
    Transfers, baseline,
};
use towpath_virgl_client::Guest;

use super::guest::Pieces;
use super::output::{self, Cell, Document, Goal};
use super::timing::{self, Against, Arm, Design, Workload};
use super::{Args, Common};

/// What is written beside the machine.
#[derive(Debug, Serialize)]
struct Body {
    model: Model,
    cells: Vec<Cell>,
    new_views: Vec<NewView>,
    slower: Vec<String>,
    goals: Vec<Goal>,
}

/// New lists of pieces, each used a few times and taken away again: what all of it costs.
#[derive(Debug, Serialize)]
struct NewView {
    bytes: u64,
    pieces: Pieces,
    uses: u64,
    /// Nanoseconds of all uses together.
    temporary_nanos: Vec<f64>,
    chosen_nanos: Vec<f64>,
    view_nanos: Vec<f64>,
    chosen: Against,
    view: Against,
}

/// Runs all sizes.
pub(super) fn run(args: &Args, common: &Common) -> Result<ExitCode> {
    let (settings, _problems) = Settings::from_environment();
    let model = Model::stored(&settings);
    let mut random = Random::new(common.seed);
    let design = Design {
        sample_nanos: args.sample_ms * 1_000_000,
        rounds: common.rounds,
        uploads: None,
    };
    let default = [4 << 10, 64 << 10, 2 << 20].map(Pieces::plain);
    let (mut cells, mut new_views) = (Vec::new(), Vec::new());
    for pieces in args.pieces(&default) {
        for &side in sides(common.is_quick) {
            let lists = Lists::new(side, pieces, common.is_quick)?;
            let cell = cell(side, &lists, &model, design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
        for side in [512, 1024] {
            if common.is_quick && side > 512 {
                continue;
            }
            let lists = Lists::new(side, pieces, common.is_quick)?;
            new_views.push(new_view(side, &lists, &model, common, &mut random)?);
        }
    }
    let body = summary(model, cells, new_views);
    let schema = "towpath.bench-textures-memory/1";
    let driver = "textures in memory".to_owned();
    Document::new(schema, driver, DESIGN, (args, common), body).write(common.json.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

const DESIGN: &str = "all arms once per round in random order in one process; lists of pieces take turns, so that \
                      a list's bytes are not in the caches when it comes again; nanoseconds per upload of a \
                      sample of at least sample_ms; contents are noise, compared in the destination; verdicts \
                      after Holm's correction over all rows";

/// RGBA pictures of 64 KiB, 256 KiB, 1 MiB, 4 MiB, 16 MiB.
const fn sides(is_quick: bool) -> &'static [u32] {
    if is_quick {
        &[128, 512, 1024]
    } else {
        &[128, 256, 512, 1024, 2048]
    }
}

fn summary(model: Model, mut cells: Vec<Cell>, mut new_views: Vec<NewView>) -> Body {
    timing::holm(cells.iter_mut().flat_map(|cell| &mut cell.against));
    timing::holm(new_views.iter_mut().map(|new| &mut new.chosen));
    let slower: Vec<String> = cells
        .iter()
        .filter(|cell| beside(cell, "chosen").is_some_and(|other| other.verdict == "slower"))
        .map(|cell| format!("{} in {}", cell.name, cell.pieces.text()))
        .collect();
    let goals = goals(&cells, &new_views, &slower);
    output::print_goals(&goals);
    Body {
        model,
        cells,
        new_views,
        slower,
        goals,
    }
}

fn beside<'a>(cell: &'a Cell, arm: &str) -> Option<&'a Against> {
    cell.against.iter().find(|other| other.arm == arm)
}

/// The time of one large copy past the caches over the choice's, round by round; the middle.
fn share(cell: &Cell) -> f64 {
    let nanos = |name: &str| {
        let found = cell.arms.iter().find(|arm| arm.name == name);
        found.map_or(&[][..], |arm: &Arm| &arm.nanos)
    };
    let rounds = nanos(STREAMING).iter().zip(nanos("chosen"));
    let shares: Vec<f64> = rounds.map(|(best, chosen)| best / chosen).collect();
    median(&shares)
}

fn goals(cells: &[Cell], new_views: &[NewView], slower: &[String]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut at_least = |cell: &Cell, what: &str, value: f64, bound: f64| {
        let goal = format!(
            "{what} at {} KiB in {} at least {bound}",
            cell.bytes >> 10,
            cell.pieces.text()
        );
        goals.push(Goal::new(goal, format!("{value:.2}"), value >= bound));
    };
    for cell in cells.iter().filter(|cell| cell.bytes >= 1 << 20) {
        let bound = if cell.bytes >= 16 << 20 { 1.5 } else { 1.2 };
        let gain = |arm| beside(cell, arm).map_or(f64::NAN, |other| other.speedup);
        at_least(cell, "choice against temporary copy", gain("chosen"), bound);
        if cell.pieces.bytes == 4096 {
            at_least(
                cell,
                "cached view against temporary copy",
                gain("view"),
                1.9,
            );
        }
        if cell.bytes >= 4 << 20 {
            at_least(
                cell,
                "choice's share of the streaming rate",
                share(cell),
                0.8,
            );
        }
    }
    for new in new_views.iter().filter(|new| new.uses == TOTAL_USES) {
        let goal = format!(
            "ahead in total after {} uses of new lists, {} KiB in {}",
            new.uses,
            new.bytes >> 10,
            new.pieces.text()
        );
        let seen = format!(
            "choice x{:.2} ({}), a view made at once x{:.2}",
            new.chosen.speedup, new.chosen.verdict, new.view.speedup
        );
        goals.push(Goal::new(goal, seen, new.chosen.speedup > 1.0));
    }
    let count = cells.iter().map(|cell| cell.against.len()).sum::<usize>();
    let text = format!("{} of {count} comparisons: {slower:?}", slower.len());
    goals.push(Goal::new(
        "the choice proven slower in no row".to_owned(),
        text,
        slower.is_empty(),
    ));
    goals
}

/// Lists of pieces over one guest's memory.
struct Lists {
    pieces: Pieces,
    /// Uploads from each before the choice is timed.
    uses: u64,
    ram: Arc<Ram>,
    memory: Arc<dyn Memory>,
    entries: Vec<Vec<Entry>>,
    /// What the first list holds.
    first: Vec<u8>,
}

impl Lists {
    fn new(side: u32, pieces: Pieces, is_quick: bool) -> Result<Self> {
        let bytes = u64::from(side) * u64::from(side) * 4;
        let count = count(bytes, pieces.bytes, is_quick);
        let mut guest: Guest = pieces.guest(bytes.max(pieces.bytes) * count, 7)?;
        let mut entries = Vec::new();
        for _list in 0..count {
            let taken = guest.take(bytes)?;
            entries.push(
                taken
                    .iter()
                    .map(|piece| Entry {
                        address: piece.address,
                        len: piece.len,
                    })
                    .collect(),
            );
            if entries.len() == 1 {
                let noise: Vec<u8> = (0..bytes)
                    .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0])
                    .collect();
                guest.write(&taken, &noise);
            }
        }
        let ram = Arc::clone(guest.ram());
        let memory: Arc<dyn Memory> = Arc::clone(&ram) as Arc<dyn Memory>;
        let mut lists = Self {
            pieces,
            uses: if is_quick { 30 } else { USES_TO_PAY },
            ram,
            memory,
            entries,
            first: Vec::new(),
        };
        lists.first = (0..bytes)
            .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0])
            .collect();
        Ok(lists)
    }

    fn attach(&self) -> Result<Vec<Backing>> {
        let backings = self
            .entries
            .iter()
            .map(|entries| Backing::attach(&self.memory, entries));
        Ok(backings.collect::<Result<_, _>>()?)
    }
}

/// Lists that take turns: 32 MiB together, more than the caches of one processor hold, in at most 8192 pieces,
/// half of what views may have.
fn count(bytes: u64, piece: u64, is_quick: bool) -> u64 {
    let by_pieces = 8192 / bytes.div_ceil(piece).max(1);
    let together = if is_quick { 8 << 20 } else { 32 << 20 };
    (together / bytes.max(1)).clamp(2, by_pieces.clamp(2, 64))
}

const STREAMING: &str = "streaming";

fn cell(
    side: u32,
    lists: &Lists,
    model: &Model,
    design: Design,
    random: &mut Random,
) -> Result<Cell> {
    let texture = Texture::picture(Format::RGBA8, side, side);
    let mut arms: Vec<(&'static str, Box<dyn Workload + '_>)> = Vec::new();
    for (name, policy) in ARMS {
        arms.push((
            name,
            Box::new(Uploads::new(&texture, lists, policy, model)?),
        ));
    }
    arms.push((STREAMING, Box::new(Streaming::new(&texture, lists))));
    let results = timing::measure(&mut arms, design, random)?;
    drop(arms);
    let against = results
        .iter()
        .filter(|arm| arm.name != STREAMING && arm.name != "temporary")
        .map(|arm| timing::against(results.first().unwrap_or(arm), arm))
        .collect::<Result<_>>()?;
    Ok(Cell {
        name: format!("texture_memory_rgba_{side}"),
        row: None,
        bytes: texture.linear_bytes(0).unwrap_or(0),
        pieces: lists.pieces,
        against,
        arms: results,
    })
}

/// `None` is the temporary copy.
const ARMS: [(&str, Option<Policy>); 4] = [
    ("temporary", None),
    ("gather", Some(Policy::Never)),
    ("view", Some(Policy::Always)),
    ("chosen", Some(Policy::Chosen)),
];

/// One arm.
struct Uploads {
    transfers: Transfers<Null>,
    policy: Option<Policy>,
    texture: Texture,
    image: NullImage,
    backings: Vec<Backing>,
    turn: usize,
    uses: u64,
    path: Option<String>,
}

impl Uploads {
    fn new(
        texture: &Texture,
        lists: &Lists,
        policy: Option<Policy>,
        model: &Model,
    ) -> Result<Self> {
        let mut transfers = engine(policy, model);
        let image = transfers.backend().create(texture)?;
        let mut uploads = Self {
            transfers,
            policy,
            texture: *texture,
            image,
            backings: lists.attach()?,
            turn: 0,
            uses: lists.uses,
            path: None,
        };
        uploads.run(1)?;
        let is_right = uploads.image.level(0) == Some(&lists.first[..]);
        ensure!(is_right, "{policy:?}: wrong bytes");
        Ok(uploads)
    }
}

fn engine(policy: Option<Policy>, model: &Model) -> Transfers<Null> {
    let budget = Budget::of_this_machine();
    Transfers::new(Null, *model, budget, Views::open_device())
        .policy(policy.unwrap_or(Policy::Never))
}

impl Workload for Uploads {
    fn run(&mut self, n: u64) -> Result<()> {
        let request = Request::picture(self.texture.width, self.texture.height, Direction::Upload);
        for _upload in 0..n {
            let Some(backing) = self.backings.get(self.turn % self.backings.len()) else {
                continue;
            };
            self.turn += 1;
            let (texture, image) = (&self.texture, &mut self.image);
            if self.policy.is_none() {
                let backend = self.transfers.backend();
                baseline::upload(backend, texture, image, backing, &request)?;
            } else {
                let done = self.transfers.transfer(texture, image, backing, &request)?;
                if self.turn % PATH_EVERY == 1 {
                    self.path = Some(format!("{:?}", done.path));
                }
            }
        }
        Ok(())
    }

    fn warm_up(&self) -> u64 {
        let each = match self.policy {
            Some(Policy::Chosen) => self.uses,
            _ => 2,
        };
        each * self.backings.len() as u64
    }

    fn path(&self) -> Option<String> {
        self.path.clone()
    }
}

/// More transfers than a list in 4 KiB pieces needs before its view has paid.
const USES_TO_PAY: u64 = 250;
/// Naming the path allocates: rarely.
const PATH_EVERY: usize = 64;

/// One large copy past the caches from memory of the same kind.
struct Streaming {
    ram: Arc<Ram>,
    target: Vec<u8>,
    at: usize,
}

impl Streaming {
    fn new(texture: &Texture, lists: &Lists) -> Self {
        let bytes = usize::try_from(texture.linear_bytes(0).unwrap_or(0)).unwrap_or(0);
        Self {
            ram: Arc::clone(&lists.ram),
            target: vec![1; bytes],
            at: 0,
        }
    }
}

impl Workload for Streaming {
    fn run(&mut self, n: u64) -> Result<()> {
        let len = self.target.len();
        for _copy in 0..n {
            let all = self.ram.bytes();
            if self.at + len > all.len() {
                self.at = 0;
            }
            if let Some(source) = all.get(self.at, len) {
                source.stream_into(&VolatileBytes::of(&mut self.target));
            }
            self.at += len;
        }
        Ok(())
    }

    fn warm_up(&self) -> u64 {
        2
    }

    fn path(&self) -> Option<String> {
        None
    }
}

/// New lists, used [`TOTAL_USES`] times each and taken away: the views' making and end included.
fn new_view(
    side: u32,
    lists: &Lists,
    model: &Model,
    common: &Common,
    random: &mut Random,
) -> Result<NewView> {
    let texture = Texture::picture(Format::RGBA8, side, side);
    let request = Request::picture(side, side, Direction::Upload);
    let policies = [None, Some(Policy::Chosen), Some(Policy::Always)];
    let mut nanos: [Vec<f64>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    let mut order = [0, 1, 2];
    for round in 0..=common.rounds {
        random.shuffle(&mut order);
        for &at in &order {
            let policy = policies.get(at).copied().flatten();
            let mut transfers = engine(policy, model);
            let mut image = transfers.backend().create(&texture)?;
            // Another list each round: its pages are not in the caches.
            let entries = lists.entries.get(round % lists.entries.len());
            let entries = entries.map_or(&[][..], Vec::as_slice);
            let start = MonotonicClock.now();
            let backing = Backing::attach(&lists.memory, entries)?;
            for _use in 0..TOTAL_USES {
                if policy.is_none() {
                    let backend = transfers.backend();
                    baseline::upload(backend, &texture, &mut image, &backing, &request)?;
                } else {
                    transfers.transfer(&texture, &mut image, &backing, &request)?;
                }
            }
            transfers.detach(&backing)?;
            drop(backing);
            let wall = MonotonicClock.now().saturating_sub(start).0 as f64;
            // The first round warms up.
            if let (Some(nanos), true) = (nanos.get_mut(at), round > 0) {
                nanos.push(wall);
            }
        }
    }
    let [temporary_nanos, chosen_nanos, view_nanos] = nanos;
    Ok(NewView {
        bytes: texture.linear_bytes(0).unwrap_or(0),
        pieces: lists.pieces,
        uses: TOTAL_USES,
        chosen: timing::judge("chosen", &temporary_nanos, &chosen_nanos)?,
        view: timing::judge("view", &temporary_nanos, &view_nanos)?,
        temporary_nanos,
        chosen_nanos,
        view_nanos,
    })
}

/// After so many uses a list must be ahead in total, all costs counted.
const TOTAL_USES: u64 = 15;
