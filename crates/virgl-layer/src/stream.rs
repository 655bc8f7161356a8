//! Transfers inside a guest's command stream.
//!
//! A stream is words of 32 bits. Each command begins with `number | object << 8 | words << 16`; `words`
//! follow. Transfers (number 43, 13 words): resource, level, usage, stride, layer stride, box (x, y, z,
//! width, height, depth), offset, direction. Copies from another resource's pieces (number 45, 14 words):
//! the same up to the box, then that resource.

use towpath_transfer::textures::{Direction, Region, Request};

/// A use of a resource's attached pieces while the renderer executes the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the caller must handle each")]
pub enum Transfer {
    /// Between a texture and its own pieces.
    Own {
        /// The texture.
        resource: u32,
        /// What is asked for.
        request: Request,
    },
    /// From or to the pieces of a resource, for another texture.
    Other {
        /// The resource whose pieces are used.
        resource: u32,
    },
}

/// The transfers of a stream, in order. A command that claims more words than there are ends it.
#[must_use]
pub const fn transfers(words: &[u32]) -> Transfers<'_> {
    Transfers { words }
}

/// See [`transfers`].
#[derive(Clone, Debug)]
pub struct Transfers<'a> {
    words: &'a [u32],
}

impl Iterator for Transfers<'_> {
    type Item = Transfer;

    fn next(&mut self) -> Option<Transfer> {
        loop {
            let (&header, rest) = self.words.split_first()?;
            let len = usize::try_from(header >> 16).ok()?;
            let (body, rest) = rest.split_at_checked(len)?;
            self.words = rest;
            let found = match header & 0xff {
                TRANSFER3D => own(body),
                COPY_TRANSFER3D => body.get(11).map(|&resource| Transfer::Other { resource }),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

fn own(body: &[u32]) -> Option<Transfer> {
    let &[
        resource,
        level,
        _usage,
        stride,
        layer_stride,
        x,
        y,
        z,
        width,
        height,
        depth,
        offset,
        direction,
        ..,
    ] = body
    else {
        return None;
    };
    Some(Transfer::Own {
        resource,
        request: Request {
            level,
            region: Region {
                x,
                y,
                z,
                width,
                height,
                depth,
            },
            offset: u64::from(offset),
            stride: u64::from(stride),
            layer_stride: u64::from(layer_stride),
            direction: if direction == TO_HOST {
                Direction::Upload
            } else {
                Direction::Download
            },
        },
    })
}

/// `VIRGL_CCMD_COPY_TRANSFER3D`.
const COPY_TRANSFER3D: u32 = 45;
/// `VIRGL_CCMD_TRANSFER3D`.
const TRANSFER3D: u32 = 43;
/// `VIRGL_TRANSFER_TO_HOST`.
const TO_HOST: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(resource: u32) -> Vec<u32> {
        let mut words = vec![TRANSFER3D | 13 << 16, resource, 2, 0, 256, 512, 1, 2, 3];
        words.extend([64, 32, 1, 99, TO_HOST]);
        words
    }

    #[test]
    fn transfers_are_found_between_other_commands() {
        let mut words = vec![16 | (2 << 16), 7, 7];
        words.extend(transfer(5));
        words.push(0);
        let mut copy = vec![COPY_TRANSFER3D | 14 << 16];
        copy.extend(0..14);
        words.extend(copy);
        let found: Vec<_> = transfers(&words).collect();
        let right = Transfer::Own {
            resource: 5,
            request: Request {
                level: 2,
                region: Region {
                    x: 1,
                    y: 2,
                    z: 3,
                    width: 64,
                    height: 32,
                    depth: 1,
                },
                offset: 99,
                stride: 256,
                layer_stride: 512,
                direction: Direction::Upload,
            },
        };
        assert_eq!(found, [right, Transfer::Other { resource: 11 }]);
    }

    #[test]
    fn cut_flipped_and_random_streams_end() {
        let words = [transfer(1), transfer(2), transfer(3)].concat();
        for len in 0..words.len() {
            assert_eq!(transfers(&words[..len]).count(), len / 14);
        }
        let mut random = fastrand::Rng::with_seed(5);
        for _round in 0..2000 {
            let mut words = words.clone();
            let at = random.usize(..words.len());
            words[at] ^= 1 << random.u32(..32);
            assert!(transfers(&words).count() <= 3);
            let noise: Vec<u32> = (0..40).map(|_| random.u32(..)).collect();
            assert!(transfers(&noise).count() <= 40);
        }
    }
}
