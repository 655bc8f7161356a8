//! Textures and buffers of one arm, and what is uploaded to them.

use anyhow::Result;
use towpath_virgl_client::{Api, Attached, Format, Guest, Piece, Renderer, Spec, commands};

use super::super::rows::{Row, Test};
use super::super::timing::Workload;

/// Textures and the pieces behind them, not attached.
pub(super) struct Bank {
    row: Row,
    pub(super) specs: Vec<Spec>,
    pieces: Vec<Vec<Piece>>,
    lists: Vec<Attached>,
}

impl Bank {
    /// Makes textures with different contents in their pieces.
    pub(super) fn new(
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
    pub(super) fn made(
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

    pub(super) fn end(&self, renderer: &Renderer, api: &Api) {
        for spec in &self.specs {
            renderer.unref(api, spec.handle);
        }
    }

    pub(super) fn give_back(self, guest: &mut Guest) {
        for pieces in self.pieces.iter().rev() {
            guest.give_back(pieces);
        }
    }
}

/// Textures of one arm, attached by its functions.
pub(super) struct Textures<'a, 'b> {
    renderer: &'a Renderer,
    pub(super) api: &'a Api,
    pub(super) bank: &'b Bank,
    turn: u64,
    /// Uploads of each texture before anything is timed.
    pub(super) uses: u64,
}

impl<'a, 'b> Textures<'a, 'b> {
    pub(super) fn attach(renderer: &'a Renderer, api: &'a Api, bank: &'b mut Bank) -> Result<Self> {
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

    pub(super) fn upload(&mut self, n: u64) -> Result<()> {
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

    pub(super) fn draw_all(&self) -> Result<()> {
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
    pub(super) fn texels(&self, guest: &Guest) -> Result<bool> {
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
pub(super) struct BufferUploads<'a> {
    renderer: &'a Renderer,
    api: &'a Api,
    handle: u32,
    bytes: u32,
    list: &'a Attached,
}

impl<'a> BufferUploads<'a> {
    pub(super) fn attach(
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
pub(super) fn contents(bytes: u64, index: usize) -> Vec<u8> {
    let seed = (index as u64 + 1) << 40;
    (0..bytes)
        .map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0])
        .collect()
}

/// The target's number.
pub(super) const TARGET: u32 = 1;
