//! `texture_upload.c` in Rust: same sizes, same rounds, same pages.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;

use towpath_measure::sample::median;
use towpath_memory::Mapping;
use towpath_memory::view::{FilePiece, View};
use towpath_memory::volatile::VolatileBytes;
use towpath_transfer::textures::gather::{Stores, copy};
use towpath_transfer::textures::{Backing, Direction, Entry, Lines, Memory, Ram};

use crate::{Outcome, milliseconds, says_ratio};

const PAGE: u64 = 4096;
const PIECES: u64 = 1024;

/// 4 MiB in 1024 pieces, by way of a temporary buffer, gathered past the caches, and seen as one: each of the three
/// leaves its traces in the caches of the next.
pub(crate) fn upload() -> Outcome {
    let ram = Arc::new(Ram::new(PAGE * PIECES)?);
    let entries: Vec<Entry> = (0..PIECES)
        .map(|piece| Entry {
            address: piece * 7 % PIECES * PAGE,
            len: PAGE,
        })
        .collect();
    fill(&ram, &entries)?;
    let memory: Arc<dyn Memory> = Arc::<Ram>::clone(&ram);
    let backing = Backing::attach(&memory, &entries)?;
    let view = seen_as_one(&ram, &entries)?;
    let (mut texture, mut temporary) = (pages()?, pages()?);
    let (mut before, mut ours) = (Vec::new(), Vec::new());
    for _round in 0..20 {
        texture.as_mut_slice().fill(0);
        let start = Instant::now();
        copied(&ram, &entries, temporary.as_mut_slice())?;
        texture.as_mut_slice().copy_from_slice(temporary.as_slice());
        before.push(milliseconds(start));
        check(texture.as_slice())?;

        texture.as_mut_slice().fill(0);
        let start = Instant::now();
        gathered(&backing, texture.as_mut_slice())?;
        ours.push(milliseconds(start));
        check(texture.as_slice())?;

        texture.as_mut_slice().fill(0);
        let _copied = view.bytes().copy_to(texture.as_mut_slice());
        check(texture.as_slice())?;
    }
    says_ratio("a texture in pieces", median(&before), median(&ours));
    Ok(())
}

fn pages() -> Outcome<Mapping> {
    let mut pages = Mapping::anonymous(usize::try_from(PAGE * PIECES)?)?;
    pages.as_mut_slice().fill(1);
    Ok(pages)
}

/// Puts the right bytes into the pieces.
fn fill(ram: &Ram, entries: &[Entry]) -> Outcome {
    let right: Vec<u8> = (0..PAGE * PIECES).map(value_at).collect();
    for (entry, page) in entries.iter().zip(right.chunks(4096)) {
        let piece = ram.bytes().get(usize::try_from(entry.address)?, page.len());
        let _copied = piece.ok_or("a piece is outside")?.copy_from(page);
    }
    Ok(())
}

/// One piece after the other, as it was done before.
fn copied(ram: &Ram, entries: &[Entry], to: &mut [u8]) -> Outcome {
    let seen = ram.bytes();
    for (entry, page) in entries.iter().zip(to.chunks_mut(4096)) {
        let piece = seen.get(usize::try_from(entry.address)?, page.len());
        piece.ok_or("a piece is outside")?.copy_to(page);
    }
    Ok(())
}

fn gathered(backing: &Backing, to: &mut [u8]) -> Outcome {
    let whole = Lines {
        offset: 0,
        row_bytes: PAGE * PIECES,
        rows: 1,
        stride: PAGE * PIECES,
        layers: 1,
        layer_stride: PAGE * PIECES,
    };
    copy(
        backing,
        &whole,
        &VolatileBytes::of(to),
        &whole.packed(),
        Direction::Upload,
        Stores::Streaming,
    )?;
    Ok(())
}

fn seen_as_one(ram: &Ram, entries: &[Entry]) -> Outcome<View> {
    let files: Vec<FilePiece<'_>> = entries
        .iter()
        .map(|entry| FilePiece {
            file: ram.file().as_fd(),
            offset: entry.address,
            len: entry.len,
        })
        .collect();
    Ok(View::stitch(&files)?)
}

/// What the C example has there.
fn value_at(place: u64) -> u8 {
    let [low, middle, high, ..] = place.to_le_bytes();
    low ^ middle ^ high
}

/// Looks at every byte, as the C example does: what is in the caches decides the times.
fn check(texture: &[u8]) -> Outcome {
    let is_right = texture
        .iter()
        .zip(0..)
        .all(|(seen, place)| *seen == value_at(place));
    if is_right {
        Ok(())
    } else {
        Err("a byte is wrong".into())
    }
}
