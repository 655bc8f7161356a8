//! Fossilize's stream archive (`fossilize_db.cpp`, format version 6): create-infos and SPIR-V, no driver blobs.
//!
//! 16 bytes magic with the version last; per entry 40 hexadecimal digits (24 of tag, 16 of hash), then
//! stored size, flags, CRC-32 (0 means none), size once unpacked, and the payload.

use super::{Check, Contents, Format, Item};
use crate::bytes::u32_at;

const MAGIC: &[u8; 15] = b"\x81FOSSILIZEDB\0\0\0";
const NAME_LEN: usize = 40;
const HEADER_LEN: usize = NAME_LEN + 16;

pub(super) fn read(bytes: &[u8]) -> Option<Contents> {
    let version = *bytes.strip_prefix(MAGIC)?.first()?;
    let mut contents = Contents::new(Format::Fossilize);
    contents.fields.push(("version", version.to_string()));
    if !(5..=6).contains(&version) {
        contents
            .problems
            .push(format!("version {version} is not known"));
    }
    let mut at = MAGIC.len() + 1;
    while at < bytes.len() {
        let Some((item, end)) = entry(bytes, at) else {
            // The format allows one cut entry at the end; a damaged size looks the same.
            let left = bytes.len() - at;
            contents
                .problems
                .push(format!("the last {left} bytes are no whole entry"));
            break;
        };
        if item.check == Check::Bad {
            contents
                .problems
                .push(format!("entry {} fails its CRC-32", item.name));
        }
        contents.items.push(item);
        at = end;
    }
    Some(contents)
}

fn entry(bytes: &[u8], at: usize) -> Option<(Item, usize)> {
    let header = bytes.get(at..at.checked_add(HEADER_LEN)?)?;
    let name = std::str::from_utf8(header.get(..NAME_LEN)?).ok()?;
    if !name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let stored = usize::try_from(u32_at(header, NAME_LEN)?).ok()?;
    let flags = u32_at(header, NAME_LEN + 4)?;
    let crc = u32_at(header, NAME_LEN + 8)?;
    let start = at + HEADER_LEN;
    let end = start.checked_add(stored)?;
    let payload = bytes.get(start..end)?;
    let check = match crc {
        0 => Check::Unchecked,
        crc if crc == crc32(payload) => Check::Good,
        _ => Check::Bad,
    };
    let tag = u64::from_str_radix(name.get(..24)?.trim_start_matches('0'), 16).unwrap_or(0);
    let packing = match flags & 3 {
        1 => "plain",
        2 => "deflate",
        _ => "unknown packing",
    };
    let item = Item {
        name: name.to_owned(),
        kind: format!("{}, {packing}", tag_name(tag)),
        payload: start..end,
        check,
    };
    Some((item, end))
}

/// Fossilize's resource tags.
fn tag_name(tag: u64) -> &'static str {
    const NAMES: [&str; 11] = [
        "application info",
        "sampler",
        "descriptor set layout",
        "pipeline layout",
        "shader module",
        "render pass",
        "graphics pipeline",
        "compute pipeline",
        "application blob link",
        "raytracing pipeline",
        "other",
    ];
    let index = usize::try_from(tag).unwrap_or(usize::MAX);
    NAMES.get(index).copied().unwrap_or("other")
}

/// CRC-32 as zlib has it.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        let index = (crc ^ u32::from(*byte)) & 0xff;
        let entry = usize::try_from(index)
            .ok()
            .and_then(|index| TABLE.get(index));
        entry.copied().unwrap_or(0) ^ (crc >> 8)
    })
}

const TABLE: [u32; 256] = table();

#[expect(
    clippy::indexing_slicing,
    reason = "a constant table, filled at compile time"
)]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    let mut value = 0_u32;
    while index < 256 {
        let mut crc = value;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
        value += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_zlibs() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
