//! glbench's rows through the real libvirglrenderer, as it is and behind the layer.
//!
//! Both arms use one renderer in one process and take turns. The layer may use its fix when it pays
//! (`auto`). glbench's draw is a blit of the texture to 512 x 512 texels of a target; the end of a sample
//! is a readback of that target. A guest's Mesa keeps the storage when a picture of the same size is given
//! again, so `teximage2d` sends what `texsubimage2d` sends; rows `rename` show what it costs where it
//! does not: a new resource with the same pieces each time.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use towpath_measure::random::Random;
use towpath_measure::sample::median;
use towpath_measure::{Clock as _, MonotonicClock};
use towpath_settings::Settings;
use towpath_virgl_client::{Api, Attached, Format, Guest, Piece, Renderer, Spec, commands};

use super::guest::Pieces;
use super::output::{Cell, Document};
use super::rows::{Row, TEXTURES, Test};
use super::timing::{self, Design, Workload, geomean};
use super::{Args, Common};
use crate::session::layers::{Library, folders};

/// What is written beside the machine.
#[derive(Debug, Serialize)]
struct Body {
    cells: Vec<Cell>,
    first_use: Vec<FirstUse>,
    geomean_rgba: f64,
    geomean_luminance: f64,
    slower: Vec<String>,
}

/// The first transfers of new textures, before a view can have paid.
#[derive(Debug, Serialize)]
struct FirstUse {
    side: u32,
    uploads: usize,
    library_nanos: Vec<f64>,
    layer_nanos: Vec<f64>,
    ratio: f64,
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
        rounds: common.rounds,
    };
    let mut cells = Vec::new();
    for pieces in args.pieces(&[Pieces::plain(4096)]) {
        for row in Row::all(common.is_quick, &args.row) {
            let arms = [("library", &real), ("layer", &layer)];
            let cell = stage.row(row, pieces, arms, design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
        for bytes in [4 << 10, 64 << 10, 1 << 20, 4 << 20] {
            let arms = [("library", &real), ("layer", &layer)];
            let cell = stage.buffer(bytes, pieces, arms, design, &mut random)?;
            cell.print();
            cells.push(cell);
        }
    }
    let first_use = [128, 512, 1024, 2048]
        .into_iter()
        .map(|side| stage.first_use(side, &real, &layer, &mut random))
        .collect::<Result<Vec<_>>>()?;
    let body = summary(cells, first_use);
    let driver = "libvirglrenderer on EGL without a surface".to_owned();
    let schema = "towpath.bench-textures-virgl/1";
    Document::new(schema, driver, DESIGN, (args, common), body).write(common.json.as_deref())?;
    renderer.cleanup(&real);
    Ok(ExitCode::SUCCESS)
}

const DESIGN: &str = "both arms once per round in random order, on one renderer in one process; \
                      nanoseconds per upload of a sample of at least sample_ms; contents are noise; \
                      the target's pixels and each texture's texels are compared between arms";

#[expect(clippy::print_stdout, reason = "the command's output")]
fn summary(cells: Vec<Cell>, first_use: Vec<FirstUse>) -> Body {
    let gains = |is_luminance: bool| {
        let of_format = cells
            .iter()
            .filter(|cell| cell.row.is_some_and(|row| row.is_luminance == is_luminance));
        geomean(of_format.flat_map(|cell| cell.against.iter().map(|other| other.speedup)))
    };
    let slower = cells
        .iter()
        .filter(|cell| cell.against.iter().any(|other| other.verdict == "slower"))
        .map(|cell| cell.name.clone())
        .collect();
    let body = Body {
        geomean_rgba: gains(false),
        geomean_luminance: gains(true),
        slower,
        cells,
        first_use,
    };
    println!(
        "\nwith the layer: rgba x{:.2}, luminance x{:.2} (geometric means); proven slower: {:?}",
        body.geomean_rgba, body.geomean_luminance, body.slower
    );
    for first in &body.first_use {
        println!(
            "first {} uploads of {}^2: {:.3} of the library's time",
            first.uploads, first.side, first.ratio
        );
    }
    body
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
        apis: [(&'static str, &Api); 2],
        design: Design,
        random: &mut Random,
    ) -> Result<Cell> {
        let mut guest = pieces.guest(row.bytes() * (2 * TEXTURES) as u64, 7)?;
        let (mut pixels, mut texels) = (Vec::new(), Vec::new());
        let arms = {
            let mut arms: Vec<(&'static str, Box<dyn Workload + '_>)> = Vec::new();
            for (name, api) in apis {
                let mut textures =
                    Textures::new(self.renderer, api, row, &mut guest, &mut self.next)?;
                textures.is_layer = name == "layer";
                arms.push((name, Box::new(textures)));
            }
            let results = timing::measure(&mut arms, design, random)?;
            for (_, workload) in &mut arms {
                workload.run(1)?;
            }
            results
        };
        // The arms are gone: what they left is read by fresh ones, after one upload each.
        for (_, api) in apis {
            let mut textures = Textures::new(self.renderer, api, row, &mut guest, &mut self.next)?;
            textures.run(u64::try_from(TEXTURES).unwrap_or(8))?;
            textures.draw_all()?;
            pixels.push(self.pixels(api)?);
            texels.push(textures.texels(&guest)?);
        }
        ensure!(
            pixels.first() == pixels.last(),
            "{}: the target's pixels differ between the arms",
            row.name()
        );
        ensure!(
            texels.iter().all(|good| *good),
            "{}: texels came back wrong",
            row.name()
        );
        Ok(Cell {
            name: row.name(),
            row: Some(row),
            bytes: row.bytes(),
            pieces,
            against: timing::against_first(&arms)?,
            arms,
        })
    }

    fn buffer(
        &mut self,
        bytes: u32,
        pieces: Pieces,
        apis: [(&'static str, &Api); 2],
        design: Design,
        random: &mut Random,
    ) -> Result<Cell> {
        let mut guest = pieces.guest(u64::from(bytes) * 4, 7)?;
        let mut arms: Vec<(&'static str, Box<dyn Workload + '_>)> = Vec::new();
        for (name, api) in apis {
            let buffer = BufferUploads::new(self.renderer, api, bytes, &mut guest, &mut self.next)?;
            arms.push((name, Box::new(buffer)));
        }
        let arms = timing::measure(&mut arms, design, random)?;
        Ok(Cell {
            name: format!("buffer_upload_{bytes}"),
            row: None,
            bytes: u64::from(bytes),
            pieces,
            against: timing::against_first(&arms)?,
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

    /// The first uploads of new textures by both arms.
    fn first_use(
        &mut self,
        side: u32,
        real: &Api,
        layer: &Api,
        random: &mut Random,
    ) -> Result<FirstUse> {
        let row = Row {
            test: Test::TextureUpload,
            is_luminance: false,
            flavour: super::rows::Flavour::Texsubimage2d,
            side,
        };
        let clock = MonotonicClock;
        let mut guest = Pieces::plain(4096).guest(row.bytes() * (3 * TEXTURES) as u64, 5)?;
        let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for _round in 0..FIRST_ROUNDS {
            let mut order = [0_usize, 1];
            random.shuffle(&mut order);
            for arm in order {
                let api = if arm == 0 { real } else { layer };
                let mut textures =
                    Textures::new(self.renderer, api, row, &mut guest, &mut self.next)?;
                let start = clock.now();
                textures.upload(FIRST_UPLOADS as u64)?;
                let nanos = clock.now().saturating_sub(start).0 as f64;
                if let Some(times) = times.get_mut(arm) {
                    times.push(nanos / FIRST_UPLOADS as f64);
                }
                textures.give_back(&mut guest);
            }
        }
        let [library_nanos, layer_nanos] = times;
        Ok(FirstUse {
            side,
            uploads: FIRST_UPLOADS,
            ratio: median(&layer_nanos) / median(&library_nanos).max(1e-9),
            library_nanos,
            layer_nanos,
        })
    }
}

const FIRST_UPLOADS: usize = 16;
const FIRST_ROUNDS: usize = 15;

/// Textures of one arm.
struct Textures<'a> {
    renderer: &'a Renderer,
    api: &'a Api,
    row: Row,
    specs: Vec<Spec>,
    pieces: Vec<Vec<Piece>>,
    lists: Vec<Attached>,
    turn: u64,
    is_layer: bool,
}

impl<'a> Textures<'a> {
    fn new(
        renderer: &'a Renderer,
        api: &'a Api,
        row: Row,
        guest: &mut Guest,
        next: &mut u32,
    ) -> Result<Self> {
        let mut textures = Self {
            renderer,
            api,
            row,
            specs: Vec::new(),
            pieces: Vec::new(),
            lists: Vec::new(),
            turn: 0,
            is_layer: false,
        };
        for index in 0..row.textures() {
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
            guest.write(&pieces, &contents(spec.bytes(), index));
            let mut list = Attached::new(guest, &pieces);
            renderer.create(api, &spec)?;
            renderer.attach(api, spec.handle, &mut list)?;
            textures.specs.push(spec);
            textures.pieces.push(pieces);
            textures.lists.push(list);
        }
        Ok(textures)
    }

    fn upload(&mut self, n: u64) -> Result<()> {
        for _upload in 0..n {
            let count = self.specs.len() as u64;
            let index = usize::try_from(self.turn % count).unwrap_or(0);
            self.turn += 1;
            let Some(spec) = self.specs.get(index) else {
                continue;
            };
            let whole = [0, 0, spec.width, spec.height];
            self.renderer
                .write(self.api, spec.handle, whole, spec.stride(), 0)?;
            match self.row.test {
                Test::TextureUpdate => self.draw(index)?,
                Test::TextureReuse if self.turn.is_multiple_of(count) => self.draw_all()?,
                Test::TextureUpload | Test::TextureReuse => {}
            }
        }
        Ok(())
    }

    fn draw_all(&self) -> Result<()> {
        (0..self.specs.len()).try_for_each(|index| self.draw(index))
    }

    /// Blits the texture to its own tile of the target.
    fn draw(&self, index: usize) -> Result<()> {
        let Some(spec) = self.specs.get(index) else {
            return Ok(());
        };
        let tile = u32::try_from(index).unwrap_or(0);
        let place = [tile % 4 * 128, tile / 4 * 128, 2, 2];
        let size = [spec.width, spec.height];
        let mut words = commands::blit(spec.handle, spec.format.number(), size, TARGET, place);
        Ok(self.renderer.submit(self.api, &mut words)?)
    }

    /// Reads every texture back over zeros and compares.
    fn texels(&mut self, guest: &Guest) -> Result<bool> {
        let mut good = true;
        for (index, (spec, pieces)) in self.specs.iter().zip(&self.pieces).enumerate() {
            let right = contents(spec.bytes(), index);
            guest.write(pieces, &vec![0; right.len()]);
            let whole = [0, 0, spec.width, spec.height];
            self.renderer
                .read(self.api, spec.handle, whole, spec.stride(), 0)?;
            good &= guest.read(pieces) == right;
        }
        Ok(good)
    }

    fn give_back(self, guest: &mut Guest) {
        for pieces in &self.pieces {
            guest.give_back(pieces);
        }
    }
}

impl Workload for Textures<'_> {
    fn run(&mut self, n: u64) -> Result<()> {
        self.upload(n)?;
        // A readback of one texel of the target waits for everything before it.
        Ok(self.renderer.read(self.api, TARGET, [0, 0, 1, 1], 4, 0)?)
    }

    fn warm_up(&self) -> u64 {
        let each = if self.is_layer { USES_TO_PAY } else { 2 };
        each * self.specs.len() as u64
    }

    fn path(&self) -> Option<String> {
        None
    }
}

impl Drop for Textures<'_> {
    fn drop(&mut self) {
        for (spec, list) in self.specs.iter().zip(&self.lists) {
            self.renderer.detach(self.api, spec.handle, list);
            self.renderer.unref(self.api, spec.handle);
        }
    }
}

/// Uploads of one buffer.
struct BufferUploads<'a> {
    renderer: &'a Renderer,
    api: &'a Api,
    handle: u32,
    bytes: u32,
    list: Attached,
}

impl<'a> BufferUploads<'a> {
    fn new(
        renderer: &'a Renderer,
        api: &'a Api,
        bytes: u32,
        guest: &mut Guest,
        next: &mut u32,
    ) -> Result<Self> {
        let handle = *next;
        *next += 1;
        let pieces = guest.take(u64::from(bytes))?;
        guest.write(&pieces, &contents(u64::from(bytes), 3));
        let mut list = Attached::new(guest, &pieces);
        renderer.create_buffer(api, handle, bytes)?;
        renderer.attach(api, handle, &mut list)?;
        Ok(Self {
            renderer,
            api,
            handle,
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
        self.renderer.detach(self.api, self.handle, &self.list);
        self.renderer.unref(self.api, self.handle);
    }
}

/// Noise, different for every texture: shows a wrong stride or piece, which one colour hides.
fn contents(bytes: u64, index: usize) -> Vec<u8> {
    let seed = (index as u64 + 1) << 40;
    (0..bytes)
        .map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0])
        .collect()
}

/// More transfers than any list here needs before its view has paid.
const USES_TO_PAY: u64 = 80;

const TARGET: u32 = 1;
