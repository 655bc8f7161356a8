//! vkd3d-proton's stream archive (`libs/vkd3d/cache.c`): PSO descriptions, SPIR-V, optional driver blobs.
//!
//! 48 bytes of header ("VKS" and a version, vendor, device, zero, build, shader-interface key, UUID);
//! per entry hash, checksum, size, type (SPIR-V, driver cache, pipeline), payload.

use super::{Check, Contents, Format, Item};
use crate::bytes::{array_at, hex, u32_at, u64_at};

const HEADER_LEN: usize = 48;
const ENTRY_LEN: usize = 24;

pub(super) fn read(bytes: &[u8]) -> Option<Contents> {
    let magic: [u8; 4] = array_at(bytes, 0)?;
    // MAKE_MAGIC puts 'V' 'K' 'S' in order and the version last.
    if !magic.starts_with(b"VKS") || bytes.len() < HEADER_LEN {
        return None;
    }
    let mut contents = Contents::new(Format::Vkd3dProton);
    contents.fields.extend([
        ("version", magic.last()?.to_string()),
        ("vendor", format!("{:#06x}", u32_at(bytes, 4)?)),
        ("device", format!("{:#06x}", u32_at(bytes, 8)?)),
        ("vkd3d build", format!("{:#018x}", u64_at(bytes, 16)?)),
        (
            "shader interface key",
            format!("{:#018x}", u64_at(bytes, 24)?),
        ),
        ("uuid", hex(&array_at::<16>(bytes, 32)?)),
    ]);
    let mut at = HEADER_LEN;
    while at < bytes.len() {
        let Some((item, end)) = entry(bytes, at) else {
            let left = bytes.len() - at;
            contents
                .problems
                .push(format!("the last {left} bytes are no whole entry"));
            break;
        };
        contents.items.push(item);
        at = end;
    }
    settle_checks(&mut contents);
    Some(contents)
}

/// The checksum's rule belongs to a build: if no entry fits, it is another rule and not damage.
fn settle_checks(contents: &mut Contents) {
    let is_known = contents.items.iter().any(|item| item.check == Check::Good);
    for item in &mut contents.items {
        if item.check == Check::Bad && !is_known {
            item.check = Check::Unchecked;
        } else if item.check == Check::Bad {
            contents
                .problems
                .push(format!("entry {} fails its checksum", item.name));
        }
    }
}

fn entry(bytes: &[u8], at: usize) -> Option<(Item, usize)> {
    let hash = u64_at(bytes, at)?;
    let checksum = u64_at(bytes, at.checked_add(8)?)?;
    let size = u32_at(bytes, at.checked_add(16)?)?;
    let kind = u32_at(bytes, at.checked_add(20)?)?;
    let start = at.checked_add(ENTRY_LEN)?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    let payload = bytes.get(start..end)?;
    let name = match kind {
        0 => "SPIR-V",
        1 => "driver cache",
        2 => "pipeline",
        _ => return None,
    };
    let is_good = self::checksum(payload, hash, size, kind) == checksum;
    let item = Item {
        name: format!("{hash:016x}"),
        kind: name.to_owned(),
        payload: start..end,
        check: if is_good { Check::Good } else { Check::Bad },
    };
    Some((item, end))
}

/// FNV-1 over the payload's bytes, then over hash (two halves), size and type.
fn checksum(payload: &[u8], hash: u64, size: u32, kind: u32) -> u64 {
    let step = |h: u64, value: u64| h.wrapping_mul(0x0100_0000_01b3) ^ value;
    let h = payload
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, byte| step(h, u64::from(*byte)));
    let h = step(step(h, hash & 0xffff_ffff), hash >> 32);
    step(step(h, u64::from(size)), u64::from(kind))
}

#[cfg(test)]
pub(super) fn sample(entries: &[&[u8]]) -> Vec<u8> {
    let mut file = b"VKS\x03".to_vec();
    file.resize(HEADER_LEN, 1);
    for (hash, payload) in (7_u64..).zip(entries) {
        let size = u32::try_from(payload.len()).unwrap();
        file.extend_from_slice(&hash.to_le_bytes());
        file.extend_from_slice(&checksum(payload, hash, size, 2).to_le_bytes());
        file.extend_from_slice(&size.to_le_bytes());
        file.extend_from_slice(&2_u32.to_le_bytes());
        file.extend_from_slice(payload);
    }
    file
}
