//! glbench's rows through the real libvirglrenderer, as it is and behind the layer.
//!
//! Both arms use one renderer in one process and take turns; half way they change textures and memory, so that
//! what belongs to a place (which pages, which storage in GL) and not to an arm cancels. The layer may use its
//! fix when it pays (`auto`). glbench's draw is a blit of the texture to a tile of a target; the end of a sample
//! is a readback of that target. A guest's Mesa keeps the storage when a picture of the same size is given
//! again, so `teximage2d` sends what `texsubimage2d` sends.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_measure::sample::median;
use towpath_measure::{Clock as _, MonotonicClock};
use towpath_settings::Settings;
use towpath_virgl_client::{Api, Attached, Format, Guest, Piece, Renderer, Spec, commands};

use super::guest::Pieces;
use super::output::{self, Cell, Document, Goal};
use super::rows::{Row, TEXTURES, Test};
use super::timing::{self, Against, Arm, Design, Workload, geomean};
use super::{Args, Common};
use crate::session::layers::{Library, folders};

/// What is written beside the machine.
#[derive(Debug, Serialize)]
struct Body {
    cells: Vec<Cell>,
    first_use: Vec<FirstUse>,
    own_cost: Vec<OwnCost>,
    geomean_rgba: f64,
    geomean_luminance: f64,
    slower: Vec<String>,
    goals: Vec<Goal>,
}

/// New textures, before a view can have paid: their first uploads, and their whole life (made, attached, that
/// many uploads, detached, ended).
#[derive(Debug, Serialize)]
struct FirstUse {
    side: u32,
    uploads: u64,
    is_whole_life: bool,
    library_nanos: Vec<f64>,
    layer_nanos: Vec<f64>,
    against: Against,
}

/// What the layer adds to a call from which nothing can be gained.
#[derive(Debug, Serialize)]
struct OwnCost {
    /// Which call.
    call: &'static str,
    /// Nanoseconds of a call, one value per round.
    library_nanos: Vec<f64>,
    layer_nanos: Vec<f64>,
    /// Median of the differences.
    added_nanos: f64,
}

/// Runs all rows.
pub(super) fn run(args: &Args, common: &Common, settings: &Settings) -> Result<ExitCode> {
    let path = folders(settings)
        .into_iter()
        .map(|folder| folder.join(Library::Virgl.file_name()))
        .find(|path| path.is_file())
        .context("cannot find libtowpath_virgl_layer.so")?;
    let real = Api::real()?;
    let layer = Api::through(&path)?;
    let renderer = Renderer::new(&real)?;
    let mut stage = Stage::new(&renderer, &real)?;
    let mut random = Random::new(common.seed);
    let design = Design {
        sample_nanos: args.sample_ms * 1_000_000,
        // Half of them in each half.
        rounds: common.rounds.div_ceil(2),
        uploads: None,
    };
    let apis = Apis {
        real: &real,
        layer: &layer,
    };
    let mut cells = Vec::new();
    for pieces in args.pieces(&[Pieces::plain(4096)]) {
        for row in Row::all(common.is_quick, &args.row) {
            let cell = stage.row(row, pieces, apis, design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
        for bytes in BUFFERS {
            if !buffer_name(bytes).contains(&args.row) {
                continue;
            }
            let cell = stage.buffer(bytes, pieces, apis, design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
    }
    let mut first_use = Vec::new();
    for side in [128, 512, 1024, 2048] {
        if common.is_quick && side > 512 {
            continue;
        }
        first_use.extend(stage.first_use(side, apis, common, &mut random)?);
    }
    let own_cost = stage.own_cost(apis, common, &mut random)?;
    let body = summary(cells, first_use, own_cost);
    let driver = "libvirglrenderer on EGL without a surface".to_owned();
    let schema = "towpath.bench-textures-virgl/1";
    Document::new(schema, driver, DESIGN, (args, common), body).write(common.json.as_deref())?;
    renderer.cleanup(&real);
    Ok(ExitCode::SUCCESS)
}

const DESIGN: &str = "both arms once per round in random order, on one renderer in one process; half way they \
                      change textures and memory, and a pair is one sample of each half; nanoseconds per \
                      upload of a sample of at least sample_ms; contents are noise; the target's pixels and \
                      each texture's texels are compared between arms; verdicts after Holm's correction over \
                      all rows";

#[expect(clippy::print_stdout, reason = "the command's output")]
fn summary(mut cells: Vec<Cell>, mut first_use: Vec<FirstUse>, own_cost: Vec<OwnCost>) -> Body {
    timing::holm(cells.iter_mut().flat_map(|cell| &mut cell.against));
    timing::holm(first_use.iter_mut().map(|first| &mut first.against));
    let gains = |is_luminance: bool| {
        let of_format = cells
            .iter()
            .filter(|cell| cell.row.is_some_and(|row| row.is_luminance == is_luminance));
        geomean(of_format.flat_map(|cell| cell.against.iter().map(|other| other.speedup)))
    };
    let slower: Vec<String> = cells
        .iter()
        .filter(|cell| cell.against.iter().any(|other| other.verdict == "slower"))
        .map(|cell| format!("{} in {}", cell.name, cell.pieces.text()))
        .collect();
    for first in &first_use {
        let what = if first.is_whole_life {
            "life of a texture with"
        } else {
            "first"
        };
        let against = &first.against;
        println!(
            "{what} {} uploads at {}^2: {:.3} of the library's time ({}), {}",
            first.uploads,
            first.side,
            1.0 / against.speedup,
            interval(against),
            against.verdict
        );
    }
    for own in &own_cost {
        println!(
            "{}: {:.1} ns of the layer's own beside {:.1} ns",
            own.call,
            own.added_nanos,
            median(&own.library_nanos)
        );
    }
    let body = Body {
        own_cost,
        geomean_rgba: gains(false),
        geomean_luminance: gains(true),
        goals: goals(&cells, &first_use, gains(false), &slower),
        slower,
        cells,
        first_use,
    };
    println!(
        "\nwith the layer: rgba x{:.2}, luminance x{:.2} (geometric means); proven slower: {:?}",
        body.geomean_rgba, body.geomean_luminance, body.slower
    );
    output::print_goals(&body.goals);
    body
}

/// The ends of the interval of the time relative to the first arm's.
fn interval(against: &Against) -> String {
    let end =
        |value: Option<f64>| value.map_or("?".to_owned(), |value| format!("{:.3}", 1.0 / value));
    format!("{} to {}", end(against.high), end(against.low))
}

fn goals(cells: &[Cell], first_use: &[FirstUse], rgba: f64, slower: &[String]) -> Vec<Goal> {
    let comparisons = || cells.iter().flat_map(|cell| &cell.against);
    let unadjusted = comparisons().filter(|one| one.p < 0.05 && one.speedup < 1.0);
    let mut found: Vec<f64> = comparisons().filter_map(|one| one.detectable).collect();
    found.sort_unstable_by(f64::total_cmp);
    let middle = found.get(found.len() / 2).copied().unwrap_or(f64::NAN);
    let text = format!(
        "{} proven slower of {}; {} below 5 % without the correction; differences found with 80 %: middle \
         {:.1} %, worst {:.1} %",
        slower.len(),
        comparisons().count(),
        unadjusted.count(),
        100.0 * middle,
        100.0 * found.last().copied().unwrap_or(f64::NAN)
    );
    let mut goals = vec![Goal::new(
        "no row proven slower".to_owned(),
        text,
        slower.is_empty(),
    )];
    if rgba.is_finite() {
        let goal = "geometric mean of the RGBA rows at least 1.4".to_owned();
        goals.push(Goal::new(goal, format!("{rgba:.2}"), rgba >= 1.4));
    }
    for first in first_use.iter().filter(|first| !first.is_whole_life) {
        let cost = 1.0 / first.against.speedup;
        let goal = format!("first uploads of {}^2 at most 2 % dearer", first.side);
        let seen = format!("{cost:.3} ({})", interval(&first.against));
        // Proven dearer than the bound would be: the whole interval above it.
        let is_met = cost <= 1.02 || first.against.high.is_none_or(|high| 1.0 / high <= 1.02);
        goals.push(Goal::new(goal, seen, is_met));
    }
    goals
}

/// The library, and the library behind the layer.
#[derive(Clone, Copy)]
struct Apis<'a> {
    real: &'a Api,
    layer: &'a Api,
}

const BUFFERS: [u32; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

fn buffer_name(bytes: u32) -> String {
    format!("buffer_upload_{bytes}")
}

/// The renderer with a target that is drawn to.
struct Stage<'a> {
    renderer: &'a Renderer,
    target: Spec,
    target_pieces: Vec<Piece>,
    guest: Guest,
    _target_list: Attached,
    next: u32,
}

impl<'a> Stage<'a> {
    fn new(renderer: &'a Renderer, real: &Api) -> Result<Self> {
        let target = Spec {
            handle: 1,
            format: Format::Rgba8,
            width: 512,
            height: 512,
        };
        let mut guest = Guest::new(4 << 20, 1 << 20, 1)?;
        let target_pieces = guest.take(target.bytes())?;
        let mut list = Attached::new(&guest, &target_pieces);
        renderer.create(real, &target)?;
        renderer.attach(real, target.handle, &mut list)?;
        Ok(Self {
            renderer,
            target,
            target_pieces,
            guest,
            _target_list: list,
            next: 2,
        })
    }

    fn row(
        &mut self,
        row: Row,
        pieces: Pieces,
        apis: Apis<'_>,
        design: Design,
        random: &mut Random,
    ) -> Result<Cell> {
        let mut guest = pieces.guest(row.bytes().max(pieces.bytes) * (2 * TEXTURES) as u64, 7)?;
        let mut banks = [
            Bank::new(self.renderer, apis.layer, row, &mut guest, &mut self.next)?,
            Bank::new(self.renderer, apis.layer, row, &mut guest, &mut self.next)?,
        ];
        let renderer = self.renderer;
        let (mut arms, mut pixels, mut is_right) = (Vec::new(), Vec::new(), true);
        for half in 0..2 {
            let [one, other] = &mut banks;
            let (one, other) = if half == 0 {
                (one, other)
            } else {
                (other, one)
            };
            let mut library = Textures::attach(renderer, apis.real, one)?;
            let mut layer = Textures::attach(renderer, apis.layer, other)?;
            layer.uses = USES_TO_PAY;
            add_half(&mut arms, &mut library, &mut layer, design, random)?;
            for textures in [&mut library, &mut layer] {
                textures.upload(textures.least())?;
                textures.draw_all()?;
                pixels.push(self.pixels(textures.api)?);
                is_right &= textures.texels(&guest)?;
            }
        }
        for bank in &banks {
            bank.end(renderer, apis.layer);
        }
        ensure!(
            pixels.windows(2).all(|pair| pair.first() == pair.last()),
            "{}: the target's pixels differ between the arms",
            row.name()
        );
        ensure!(is_right, "{}: texels came back wrong", row.name());
        Ok(Cell {
            name: row.name(),
            row: Some(row),
            bytes: row.bytes(),
            pieces,
            against: crossed(&arms)?,
            arms,
        })
    }

    fn buffer(
        &mut self,
        bytes: u32,
        pieces: Pieces,
        apis: Apis<'_>,
        design: Design,
        random: &mut Random,
    ) -> Result<Cell> {
        let mut guest = pieces.guest(u64::from(bytes).max(pieces.bytes) * 4, 7)?;
        let mut new = || {
            let handle = self.next;
            self.next += 1;
            let taken = guest.take(u64::from(bytes))?;
            guest.write(&taken, &contents(u64::from(bytes), 3));
            self.renderer.create_buffer(apis.layer, handle, bytes)?;
            Ok::<_, anyhow::Error>((handle, Attached::new(&guest, &taken)))
        };
        let mut buffers = [new()?, new()?];
        let renderer = self.renderer;
        let mut arms = Vec::new();
        for half in 0..2 {
            let [one, other] = &mut buffers;
            let (one, other) = if half == 0 {
                (one, other)
            } else {
                (other, one)
            };
            let mut library = BufferUploads::attach(renderer, apis.real, bytes, one)?;
            let mut layer = BufferUploads::attach(renderer, apis.layer, bytes, other)?;
            add_half(&mut arms, &mut library, &mut layer, design, random)?;
        }
        for (handle, _) in &buffers {
            renderer.unref(apis.layer, *handle);
        }
        Ok(Cell {
            name: buffer_name(bytes),
            row: None,
            bytes: u64::from(bytes),
            pieces,
            against: crossed(&arms)?,
            arms,
        })
    }

    /// Reads the target back.
    fn pixels(&self, api: &Api) -> Result<Vec<u8>> {
        let whole = [0, 0, self.target.width, self.target.height];
        let stride = self.target.stride();
        self.renderer
            .read(api, self.target.handle, whole, stride, 0)?;
        Ok(self.guest.read(&self.target_pieces))
    }

    /// Calls that the library refuses at once, and uploads of one texel to a texture that is counted but not
    /// used enough for anything else.
    fn own_cost(
        &mut self,
        apis: Apis<'_>,
        common: &Common,
        random: &mut Random,
    ) -> Result<Vec<OwnCost>> {
        let row = Row {
            test: Test::TextureUpdate,
            is_luminance: false,
            flavour: super::rows::Flavour::Texsubimage2d,
            side: 512,
        };
        let mut guest = Pieces::plain(4096).guest(2 * row.bytes(), 5)?;
        let mut results = Vec::new();
        for (call, is_known) in [("a call for no resource", false), ("a texel counted", true)] {
            let (mut library_nanos, mut layer_nanos) = (Vec::new(), Vec::new());
            for _round in 0..common.rounds.max(OWN_ROUNDS) {
                let mut order = [0_usize, 1];
                random.shuffle(&mut order);
                for arm in order {
                    let api = if arm == 0 { apis.real } else { apis.layer };
                    let next = &mut self.next;
                    let mut bank = Bank::made(self.renderer, apis.layer, row, &mut guest, next)?;
                    let textures = Textures::attach(self.renderer, api, &mut bank)?;
                    let known = textures.bank.specs.first().map_or(0, |spec| spec.handle);
                    let handle = if is_known { known } else { u32::MAX - 1 };
                    let clock = MonotonicClock;
                    let start = clock.now();
                    for _call in 0..OWN_CALLS {
                        let answer = self.renderer.write(api, handle, [0, 0, 1, 1], 4, 0);
                        ensure!(answer.is_ok() == is_known, "{call}: {answer:?}");
                    }
                    let nanos = clock.now().saturating_sub(start).0 as f64 / OWN_CALLS as f64;
                    drop(textures);
                    bank.end(self.renderer, apis.layer);
                    bank.give_back(&mut guest);
                    if arm == 0 {
                        library_nanos.push(nanos);
                    } else {
                        layer_nanos.push(nanos);
                    }
                }
            }
            let pairs = library_nanos.iter().zip(&layer_nanos);
            let added: Vec<f64> = pairs.map(|(library, layer)| layer - library).collect();
            results.push(OwnCost {
                call,
                added_nanos: median(&added),
                library_nanos,
                layer_nanos,
            });
        }
        Ok(results)
    }

    /// The first uploads of new textures by both arms, and with all that a texture's life costs.
    fn first_use(
        &mut self,
        side: u32,
        apis: Apis<'_>,
        common: &Common,
        random: &mut Random,
    ) -> Result<[FirstUse; 2]> {
        let row = Row {
            test: Test::TextureUpload,
            is_luminance: false,
            flavour: super::rows::Flavour::Texsubimage2d,
            side,
        };
        let clock = MonotonicClock;
        let mut guest = Pieces::plain(4096).guest(row.bytes() * (3 * TEXTURES) as u64, 5)?;
        let mut first: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let mut life: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        // One round more than is kept: the first warms up.
        let rounds = FIRST_ROUNDS * usize::try_from(2048 / side.clamp(1, 2048))?;
        for round in 0..=rounds.min(8 * FIRST_ROUNDS).max(common.rounds) {
            let mut order = [0_usize, 1];
            random.shuffle(&mut order);
            for arm in order {
                let api = if arm == 0 { apis.real } else { apis.layer };
                let mut next = self.next;
                let born = clock.now();
                let mut bank = Bank::made(self.renderer, api, row, &mut guest, &mut next)?;
                let mut textures = Textures::attach(self.renderer, api, &mut bank)?;
                let start = clock.now();
                textures.run(FIRST_UPLOADS)?;
                let end = clock.now();
                drop(textures);
                bank.end(self.renderer, api);
                let ended = clock.now();
                // In reverse, so that the next arm takes the same pieces for the same textures.
                bank.give_back(&mut guest);
                if let (Some(first), Some(life), true) =
                    (first.get_mut(arm), life.get_mut(arm), round > 0)
                {
                    let each = |nanos: u64| nanos as f64 / FIRST_UPLOADS as f64;
                    first.push(each(end.saturating_sub(start).0));
                    life.push(each(ended.saturating_sub(born).0));
                }
            }
        }
        let kind = |[library, layer]: [Vec<f64>; 2], is_whole_life| {
            Ok::<_, anyhow::Error>(FirstUse {
                side,
                uploads: FIRST_UPLOADS,
                is_whole_life,
                against: timing::judge("layer", &library, &layer)?,
                library_nanos: library,
                layer_nanos: layer,
            })
        };
        Ok([kind(first, false)?, kind(life, true)?])
    }
}

/// Measures one half: the library's arm, then the layer's.
fn add_half<W: Workload>(
    all: &mut Vec<Arm>,
    library: &mut W,
    layer: &mut W,
    design: Design,
    random: &mut Random,
) -> Result<()> {
    let mut arms: Vec<(&'static str, Box<dyn Workload + '_>)> =
        vec![("library", Box::new(library)), ("layer", Box::new(layer))];
    let uploads = all.iter().map(|arm| arm.uploads).max();
    let results = timing::measure(&mut arms, Design { uploads, ..design }, random)?;
    if all.is_empty() {
        *all = results;
        return Ok(());
    }
    for (arm, result) in all.iter_mut().zip(results) {
        arm.nanos.extend(result.nanos);
    }
    Ok(())
}

fn crossed(arms: &[Arm]) -> Result<Vec<Against>> {
    match arms {
        [library, layer] => Ok(vec![timing::against_crossed(library, layer)?]),
        _ => Ok(Vec::new()),
    }
}

const OWN_CALLS: u64 = 2000;
const OWN_ROUNDS: usize = 60;
const FIRST_UPLOADS: u64 = 16;
const FIRST_ROUNDS: usize = 40;

/// Textures and the pieces behind them, not attached.
struct Bank {
    row: Row,
    specs: Vec<Spec>,
    pieces: Vec<Vec<Piece>>,
    lists: Vec<Attached>,
}

impl Bank {
    /// Makes textures with different contents in their pieces.
    fn new(
        renderer: &Renderer,
        api: &Api,
        row: Row,
        guest: &mut Guest,
        next: &mut u32,
    ) -> Result<Self> {
        let bank = Self::made(renderer, api, row, guest, next)?;
        for (index, pieces) in bank.pieces.iter().enumerate() {
            guest.write(pieces, &contents(row.bytes(), index));
        }
        Ok(bank)
    }

    /// Makes textures; what is in their pieces stays.
    fn made(
        renderer: &Renderer,
        api: &Api,
        row: Row,
        guest: &mut Guest,
        next: &mut u32,
    ) -> Result<Self> {
        let mut bank = Self {
            row,
            specs: Vec::new(),
            pieces: Vec::new(),
            lists: Vec::new(),
        };
        for _texture in 0..row.textures() {
            let spec = Spec {
                handle: *next,
                format: if row.is_luminance {
                    Format::R8
                } else {
                    Format::Rgba8
                },
                width: row.side,
                height: row.side,
            };
            *next += 1;
            let pieces = guest.take(spec.bytes())?;
            renderer.create(api, &spec)?;
            bank.lists.push(Attached::new(guest, &pieces));
            bank.specs.push(spec);
            bank.pieces.push(pieces);
        }
        Ok(bank)
    }

    fn end(&self, renderer: &Renderer, api: &Api) {
        for spec in &self.specs {
            renderer.unref(api, spec.handle);
        }
    }

    fn give_back(self, guest: &mut Guest) {
        for pieces in self.pieces.iter().rev() {
            guest.give_back(pieces);
        }
    }
}

/// Textures of one arm, attached by its functions.
struct Textures<'a, 'b> {
    renderer: &'a Renderer,
    api: &'a Api,
    bank: &'b Bank,
    turn: u64,
    /// Uploads of each texture before anything is timed.
    uses: u64,
}

impl<'a, 'b> Textures<'a, 'b> {
    fn attach(renderer: &'a Renderer, api: &'a Api, bank: &'b mut Bank) -> Result<Self> {
        for (spec, list) in bank.specs.iter().zip(&mut bank.lists) {
            renderer.attach(api, spec.handle, list)?;
        }
        Ok(Self {
            renderer,
            api,
            bank,
            turn: 0,
            uses: 4,
        })
    }

    fn upload(&mut self, n: u64) -> Result<()> {
        for _upload in 0..n {
            let count = self.bank.specs.len() as u64;
            let index = usize::try_from(self.turn % count).unwrap_or(0);
            self.turn += 1;
            let Some(spec) = self.bank.specs.get(index) else {
                continue;
            };
            let whole = [0, 0, spec.width, spec.height];
            self.renderer
                .write(self.api, spec.handle, whole, spec.stride(), 0)?;
            match self.bank.row.test {
                Test::TextureUpdate => self.draw(index)?,
                Test::TextureReuse if self.turn.is_multiple_of(count) => self.draw_all()?,
                Test::TextureUpload | Test::TextureReuse => {}
            }
        }
        Ok(())
    }

    fn draw_all(&self) -> Result<()> {
        (0..self.bank.specs.len()).try_for_each(|index| self.draw(index))
    }

    /// Blits the texture to its own tile of the target.
    fn draw(&self, index: usize) -> Result<()> {
        let Some(spec) = self.bank.specs.get(index) else {
            return Ok(());
        };
        let tile = u32::try_from(index).unwrap_or(0);
        let place = [tile % 4 * 128, tile / 4 * 128, 2, 2];
        let size = [spec.width, spec.height];
        let mut words = commands::blit(spec.handle, spec.format.number(), size, TARGET, place);
        Ok(self.renderer.submit(self.api, &mut words)?)
    }

    /// Reads every texture back over zeros and compares.
    fn texels(&self, guest: &Guest) -> Result<bool> {
        let mut good = true;
        for (index, (spec, pieces)) in self.bank.specs.iter().zip(&self.bank.pieces).enumerate() {
            let right = contents(spec.bytes(), index);
            guest.write(pieces, &vec![0; right.len()]);
            let whole = [0, 0, spec.width, spec.height];
            self.renderer
                .read(self.api, spec.handle, whole, spec.stride(), 0)?;
            good &= guest.read(pieces) == right;
        }
        Ok(good)
    }
}

impl Workload for Textures<'_, '_> {
    fn run(&mut self, n: u64) -> Result<()> {
        self.upload(n)?;
        // A readback of one texel of the target waits for everything before it.
        Ok(self.renderer.read(self.api, TARGET, [0, 0, 1, 1], 4, 0)?)
    }

    fn warm_up(&self) -> u64 {
        self.uses * self.bank.specs.len() as u64
    }

    fn least(&self) -> u64 {
        self.bank.specs.len() as u64
    }

    fn path(&self) -> Option<String> {
        None
    }
}

impl Drop for Textures<'_, '_> {
    fn drop(&mut self) {
        for (spec, list) in self.bank.specs.iter().zip(&self.bank.lists) {
            self.renderer.detach(self.api, spec.handle, list);
        }
    }
}

/// Uploads of one buffer.
struct BufferUploads<'a> {
    renderer: &'a Renderer,
    api: &'a Api,
    handle: u32,
    bytes: u32,
    list: &'a Attached,
}

impl<'a> BufferUploads<'a> {
    fn attach(
        renderer: &'a Renderer,
        api: &'a Api,
        bytes: u32,
        (handle, list): &'a mut (u32, Attached),
    ) -> Result<Self> {
        renderer.attach(api, *handle, list)?;
        Ok(Self {
            renderer,
            api,
            handle: *handle,
            bytes,
            list,
        })
    }
}

impl Workload for BufferUploads<'_> {
    fn run(&mut self, n: u64) -> Result<()> {
        for _upload in 0..n {
            let whole = [0, 0, self.bytes, 1];
            self.renderer.write(self.api, self.handle, whole, 0, 0)?;
        }
        Ok(())
    }

    fn warm_up(&self) -> u64 {
        16
    }

    fn path(&self) -> Option<String> {
        None
    }
}

impl Drop for BufferUploads<'_> {
    fn drop(&mut self) {
        self.renderer.detach(self.api, self.handle, self.list);
    }
}

/// Noise, different for every texture: shows a wrong stride or piece, which one colour hides.
fn contents(bytes: u64, index: usize) -> Vec<u8> {
    let seed = (index as u64 + 1) << 40;
    (0..bytes)
        .map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0])
        .collect()
}

/// More transfers than any list here needs before its view has paid (82 by the default model) and was judged
/// (32 more).
const USES_TO_PAY: u64 = 120;

const TARGET: u32 = 1;
