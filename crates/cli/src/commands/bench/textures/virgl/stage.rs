//! The rows and the buffers, each measured in two halves between which the arms change places.

use anyhow::{Result, ensure};
use towpath_measure::random::Random;
use towpath_virgl_client::{Api, Attached, Format, Guest, Piece, Renderer, Spec};

use super::super::guest::Pieces;
use super::super::output::Cell;
use super::super::rows::{Row, TEXTURES};
use super::super::timing::{self, Against, Arm, Design, Workload};
use super::bank::{Bank, BufferUploads, Textures, contents};

/// The library, and the library behind the layer.
#[derive(Clone, Copy)]
pub(super) struct Apis<'a> {
    pub(super) real: &'a Api,
    pub(super) layer: &'a Api,
}

pub(super) const BUFFERS: [u32; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

pub(super) fn buffer_name(bytes: u32) -> String {
    format!("buffer_upload_{bytes}")
}

/// The renderer with a target that is drawn to.
pub(super) struct Stage<'a> {
    pub(super) renderer: &'a Renderer,
    target: Spec,
    target_pieces: Vec<Piece>,
    guest: Guest,
    _target_list: Attached,
    pub(super) next: u32,
}

impl<'a> Stage<'a> {
    pub(super) fn new(renderer: &'a Renderer, real: &Api) -> Result<Self> {
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

    pub(super) fn row(
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

    pub(super) fn buffer(
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
/// More transfers than any list here needs before its view has paid (82 by the default model) and was judged
/// (32 more).
const USES_TO_PAY: u64 = 120;
