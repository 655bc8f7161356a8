//! Copies between a backing and linear memory, rows to rows, with no buffer in between.

use towpath_memory::lanes::Lanes;
use towpath_memory::volatile::VolatileBytes;

use super::backing::Backing;
use super::error::{Error, Result};
use super::plan::{Direction, Lines};

/// How bytes are stored into the destination.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there are two ways to store")]
pub enum Stores {
    /// Through the caches: the reader is the processor, or the copy is small.
    Cached,
    /// Past the caches: the reader is a device, and the copy is large.
    Streaming,
}

/// Copies `guest`'s rows of `backing` to or from `linear`'s rows of `memory`.
///
/// Rows without gaps on both sides are copied as one. Nothing is copied unless all rows are inside.
///
/// # Cost
///
/// One read and one write per byte; O(log n) for the first row, O(1) for those that follow in the same or
/// the next piece. No allocation, no system call. Uploads copy several pieces in turn
/// ([`Lanes`]): from 4 KiB pieces that do not lie in the caches about twice as fast as one after the other.
/// Downloads keep the order, since a guest's pieces may overlap.
///
/// # Errors
///
/// [`Error::Backing`] or [`Error::Request`] if rows are outside, [`Error::Revoked`] if the memory is gone.
pub fn copy(
    backing: &Backing,
    guest: &Lines,
    memory: &VolatileBytes<'_>,
    linear: &Lines,
    direction: Direction,
    stores: Stores,
) -> Result<()> {
    backing.generation().ok_or(Error::Revoked)?;
    check(guest, backing.len())?;
    check(linear, memory.len() as u64)?;
    let mut cursor = backing.cursor();
    let mut lanes = Lanes::new(stores == Stores::Streaming);
    let (row_bytes, rows, layers) = coalesce(guest, linear);
    for layer in 0..layers {
        for row in 0..rows {
            let mut at = linear.row(layer, row);
            let fits = cursor.visit(guest.row(layer, row), row_bytes, |part| {
                let len = part.bytes.len();
                // `check` made sure that the row is inside; an empty part would copy nothing.
                let place = usize::try_from(at).ok().and_then(|at| memory.get(at, len));
                match (place, direction) {
                    (Some(place), Direction::Upload) => lanes.add(&part.bytes, &place),
                    (Some(place), Direction::Download) => store(&place, &part.bytes, stores),
                    (None, _) => {}
                }
                at += len as u64;
            });
            debug_assert!(fits, "checked above");
        }
    }
    lanes.finish();
    Ok(())
}

/// Copies `from_lines` of `from` to `to_lines` of `to`, both linear; the latter do not overlap.
///
/// # Errors
///
/// [`Error::Request`] if rows are outside.
pub fn copy_linear(
    from: &VolatileBytes<'_>,
    from_lines: &Lines,
    to: &VolatileBytes<'_>,
    to_lines: &Lines,
    stores: Stores,
) -> Result<()> {
    check(from_lines, from.len() as u64)?;
    check(to_lines, to.len() as u64)?;
    let mut lanes = Lanes::new(stores == Stores::Streaming);
    each_row(from, from_lines, to, to_lines, |source, target| {
        lanes.add(source, target);
    })?;
    lanes.finish();
    Ok(())
}

/// As [`copy_linear`], row after row by ordinary copies: how others do it.
///
/// # Errors
///
/// [`Error::Request`] if rows are outside.
pub fn copy_plainly(
    from: &VolatileBytes<'_>,
    from_lines: &Lines,
    to: &VolatileBytes<'_>,
    to_lines: &Lines,
) -> Result<()> {
    check(from_lines, from.len() as u64)?;
    check(to_lines, to.len() as u64)?;
    each_row(from, from_lines, to, to_lines, |source, target| {
        store(source, target, Stores::Cached);
    })
}

/// Hands every row of both sides to `copy`, or an error at the first that is outside.
fn each_row<'a>(
    from: &VolatileBytes<'a>,
    from_lines: &Lines,
    to: &VolatileBytes<'a>,
    to_lines: &Lines,
    mut copy: impl FnMut(&VolatileBytes<'a>, &VolatileBytes<'a>),
) -> Result<()> {
    let (row_bytes, rows, layers) = coalesce(from_lines, to_lines);
    for layer in 0..layers {
        for row in 0..rows {
            let (Some(source), Some(target)) = (
                sub(from, from_lines.row(layer, row), row_bytes),
                sub(to, to_lines.row(layer, row), row_bytes),
            ) else {
                return Err(OUTSIDE);
            };
            copy(&source, &target);
        }
    }
    Ok(())
}

fn sub<'a>(bytes: &VolatileBytes<'a>, at: u64, len: u64) -> Option<VolatileBytes<'a>> {
    bytes.get(usize::try_from(at).ok()?, usize::try_from(len).ok()?)
}

fn store(from: &VolatileBytes<'_>, to: &VolatileBytes<'_>, stores: Stores) {
    match stores {
        Stores::Cached => from.copy_into(to),
        Stores::Streaming => from.stream_into(to),
    };
}

/// Row bytes, rows and layers to copy, where neighbouring rows may have become one.
fn coalesce(a: &Lines, b: &Lines) -> (u64, u64, u64) {
    if a.is_gapless() && b.is_gapless() {
        return (a.payload(), 1, 1);
    }
    let rows_touch = |lines: &Lines| lines.rows <= 1 || lines.stride == lines.row_bytes;
    if rows_touch(a) && rows_touch(b) {
        return (a.row_bytes * a.rows, 1, a.layers);
    }
    (a.row_bytes, a.rows, a.layers)
}

fn check(lines: &Lines, present: u64) -> Result<()> {
    let needed = lines.end();
    if needed > present {
        return Err(Error::Backing { needed, present });
    }
    Ok(())
}

const OUTSIDE: Error = Error::Request {
    reason: "rows outside the memory",
};
