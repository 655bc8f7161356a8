//! A guest's memory, handed out in scattered pieces.

use std::sync::Arc;

use towpath_memory::volatile::VolatileBytes;
use towpath_transfer::textures::Ram;

use crate::{Error, Result};

/// A run of guest memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// First byte, in the guest's addresses.
    pub address: u64,
    /// Bytes.
    pub len: u64,
}

/// Guest memory in pieces of one size, given out in random order, so that neighbours are rare.
#[derive(Debug)]
pub struct Guest {
    ram: Arc<Ram>,
    piece: u64,
    free: Vec<u64>,
}

impl Guest {
    /// `bytes` of memory in pieces of `piece` bytes; `seed` is the order.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`].
    pub fn new(bytes: u64, piece: u64, seed: u64) -> Result<Self> {
        let ram = Ram::new(bytes).map_err(|source| Error::Memory { source })?;
        Ok(Self::over(Arc::new(ram), piece, seed))
    }

    /// As [`new`](Self::new), in huge pages.
    ///
    /// # Errors
    ///
    /// Also where too few huge pages are reserved.
    pub fn huge(bytes: u64, piece: u64, seed: u64) -> Result<Self> {
        let ram = Ram::huge(bytes).map_err(|source| Error::Memory { source })?;
        Ok(Self::over(Arc::new(ram), piece, seed))
    }

    fn over(ram: Arc<Ram>, piece: u64, seed: u64) -> Self {
        let bytes = ram.bytes().len() as u64;
        let mut free: Vec<u64> = (0..bytes / piece).map(|index| index * piece).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut free);
        Self { ram, piece, free }
    }

    /// The memory.
    #[must_use]
    pub const fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }

    /// Pieces for `bytes` bytes; the last may be used in part.
    ///
    /// # Errors
    ///
    /// [`Error::GuestFull`].
    pub fn take(&mut self, bytes: u64) -> Result<Vec<Piece>> {
        let full = Error::GuestFull {
            bytes,
            piece: self.piece,
        };
        let count = usize::try_from(bytes.div_ceil(self.piece)).unwrap_or(usize::MAX);
        let Some(rest) = self.free.len().checked_sub(count) else {
            return Err(full);
        };
        let mut left = bytes;
        let pieces = self.free.drain(rest..).map(|address| {
            let len = left.min(self.piece);
            left -= len;
            Piece { address, len }
        });
        Ok(pieces.collect())
    }

    /// Gives pieces back.
    pub fn give_back(&mut self, pieces: &[Piece]) {
        self.free.extend(pieces.iter().map(|piece| piece.address));
    }

    /// Writes `bytes` into the pieces, in order.
    pub fn write(&self, pieces: &[Piece], bytes: &[u8]) {
        let mut at = 0;
        for piece in pieces {
            let Some(run) = self.bytes(*piece) else {
                continue;
            };
            at += run.copy_from(bytes.get(at..).unwrap_or_default());
        }
    }

    /// Reads the pieces, in order.
    #[must_use]
    pub fn read(&self, pieces: &[Piece]) -> Vec<u8> {
        let runs = pieces.iter().filter_map(|piece| self.bytes(*piece));
        runs.flat_map(|run| run.to_vec()).collect()
    }

    /// The bytes of a piece.
    #[must_use]
    pub fn bytes(&self, piece: Piece) -> Option<VolatileBytes<'_>> {
        let at = usize::try_from(piece.address).ok()?;
        self.ram.bytes().get(at, usize::try_from(piece.len).ok()?)
    }
}
