//! Blobs behind a header of the program's own: zeux's article, wgpu, Godot, yuzu.
//!
//! Each form is known by its own fields and by the driver's header that must follow at the right place.

use std::ops::Range;

use super::{Contents, Format, describe_blob, looks_like_blob};
use crate::bytes::{array_at, hex, len64, u32_at, u64_at};
use crate::safety::BlobHeader;

/// Whose header stands before the blob.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum HeaderForm {
    /// zeux.io/2019/07/17: magic, size, hash, vendor, device, driver version, pointer size, UUID; 48 bytes.
    Zeux,
    /// wgpu's `PipelineCacheHeader`: "WGPUPLCH", big-endian; 64 bytes.
    Wgpu,
    /// Godot 4's: zeux's fields with the UUID before the pointer size; 48 bytes.
    Godot,
    /// yuzu's and its forks': 8 letters and a version; 12 bytes.
    Yuzu,
}

impl HeaderForm {
    /// All forms, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Wgpu, Self::Yuzu, Self::Godot, Self::Zeux];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeux => "VkPipelineCache behind zeux's header",
            Self::Wgpu => "VkPipelineCache behind wgpu's header",
            Self::Godot => "VkPipelineCache behind Godot's header",
            Self::Yuzu => "VkPipelineCache behind yuzu's header",
        }
    }

    /// Length of the header in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Zeux | Self::Godot => 48,
            Self::Wgpu => 64,
            Self::Yuzu => 12,
        }
    }

    /// Never: each form has a header.
    #[must_use]
    pub fn is_empty(self) -> bool {
        false
    }

    fn matches(self, bytes: &[u8]) -> bool {
        let Some(blob) = bytes.get(self.len()..) else {
            return false;
        };
        let follows = looks_like_blob(blob);
        let device = u32_at(blob, 8).zip(u32_at(blob, 12));
        let same_device = device.is_some() && device == u32_at(bytes, 16).zip(u32_at(bytes, 20));
        let uuid: Option<[u8; 16]> = array_at(blob, 16);
        let uuid_at = |at| uuid.is_some() && uuid == array_at(bytes, at);
        match self {
            Self::Wgpu => bytes.starts_with(b"WGPUPLCH"),
            // Forks change the letters; what follows the version must be a driver's header.
            Self::Yuzu => {
                let letters = bytes.get(..8).unwrap_or_default();
                follows && letters.iter().all(u8::is_ascii_alphanumeric)
            }
            Self::Godot => follows && same_device && uuid_at(28),
            Self::Zeux => follows && same_device && uuid_at(32),
        }
    }
}

pub(super) fn read(bytes: &[u8]) -> Option<Contents> {
    let form = HeaderForm::ALL
        .into_iter()
        .find(|form| form.matches(bytes))?;
    let mut contents = Contents::new(Format::Wrapped(form));
    let blob = form.len()..bytes.len();
    match form {
        HeaderForm::Wgpu => wgpu(bytes, &mut contents),
        HeaderForm::Yuzu => yuzu(bytes, &mut contents),
        HeaderForm::Godot => {
            zeux(bytes, 44, 28, &mut contents);
            let said = u64_at(bytes, 8).unwrap_or(0);
            if said != godot_hash(bytes.get(blob.clone()).unwrap_or_default()) {
                let line = "the data hash does not fit the data: Godot will not take it";
                contents.problems.push(line.to_owned());
            }
        }
        HeaderForm::Zeux => zeux(bytes, 28, 32, &mut contents),
    }
    describe_blob(
        bytes.get(blob.clone()).unwrap_or_default(),
        blob.start,
        &mut contents,
    );
    contents.blob = Some(blob);
    Some(contents)
}

fn zeux(bytes: &[u8], abi_at: usize, uuid_at: usize, contents: &mut Contents) {
    let number = |at| u32_at(bytes, at).unwrap_or(0);
    let size = number(4);
    contents.fields.extend([
        ("magic", format!("{:#010x}", number(0))),
        ("data bytes", size.to_string()),
        (
            "data hash",
            format!("{:#018x}", u64_at(bytes, 8).unwrap_or(0)),
        ),
        ("driver version", format!("{:#010x}", number(24))),
        (
            "pointer bytes",
            bytes.get(abi_at).copied().unwrap_or(0).to_string(),
        ),
        (
            "uuid",
            hex(&array_at::<16>(bytes, uuid_at).unwrap_or_default()),
        ),
    ]);
    expect_len(u64::from(size), bytes.len().saturating_sub(48), contents);
}

fn wgpu(bytes: &[u8], contents: &mut Contents) {
    // Big-endian, unlike everything else here.
    let word = |at| array_at(bytes, at).map_or(0, u32::from_be_bytes);
    let long = |at| array_at(bytes, at).map_or(0, u64::from_be_bytes);
    contents.fields.extend([
        ("version", word(8).to_string()),
        ("pointer bytes", word(12).to_string()),
        ("backend", bytes.get(16).copied().unwrap_or(0).to_string()),
        ("vendor", format!("{:#06x}", word(20))),
        ("device", format!("{:#06x}", word(24))),
        (
            "validation key",
            hex(&array_at::<16>(bytes, 32).unwrap_or_default()),
        ),
        ("data bytes", long(48).to_string()),
        ("hash field", format!("{:#018x}", long(56))),
    ]);
    expect_len(long(48), bytes.len().saturating_sub(64), contents);
}

fn yuzu(bytes: &[u8], contents: &mut Contents) {
    let magic = String::from_utf8_lossy(bytes.get(..8).unwrap_or_default()).into_owned();
    let version = u32_at(bytes, 8).unwrap_or(0).to_string();
    contents
        .fields
        .extend([("magic", magic), ("version", version)]);
}

fn expect_len(said: u64, is: usize, contents: &mut Contents) {
    if said != len64(is) {
        contents.problems.push(format!(
            "the header says {said} bytes of data, there are {is}"
        ));
    }
}

/// Puts `blob` behind the header of `original`, with the length in it corrected: the form that a program
/// reads again. `None` if the original has no such header.
///
/// Godot's hash is made anew. Which hash a program with zeux's header takes is its own choice: that is
/// kept, and fits only an unchanged blob.
#[must_use]
pub fn wrap(original: &[u8], blob: &[u8]) -> Option<Vec<u8>> {
    let form = HeaderForm::ALL
        .into_iter()
        .find(|form| form.matches(original))?;
    let mut out = original.get(..form.len())?.to_vec();
    match form {
        HeaderForm::Wgpu => {
            let [a, b, c, d, e, f, g, h] = len64(blob.len()).to_le_bytes();
            crate::bytes::put(&mut out, 48, &[h, g, f, e, d, c, b, a]);
        }
        HeaderForm::Zeux | HeaderForm::Godot => {
            let len = u32::try_from(blob.len()).ok()?;
            crate::bytes::put(&mut out, 4, &len.to_le_bytes());
            if form == HeaderForm::Godot {
                crate::bytes::put(&mut out, 8, &godot_hash(blob).to_le_bytes());
            }
        }
        HeaderForm::Yuzu => {}
    }
    out.extend_from_slice(blob);
    Some(out)
}

/// What Godot writes as `data_hash`: MurmurHash3 of 32 bits with Godot's own seed.
fn godot_hash(data: &[u8]) -> u64 {
    murmur3(data, 0x07f0_7c65).into()
}

/// MurmurHash3_x86_32 (Austin Appleby, public domain).
fn murmur3(data: &[u8], seed: u32) -> u32 {
    let mix = |word: u32| {
        word.wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593)
    };
    let (words, tail) = data.as_chunks::<4>();
    let mut hash = words.iter().fold(seed, |hash, word| {
        let hash = (hash ^ mix(u32::from_le_bytes(*word))).rotate_left(13);
        hash.wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    hash ^= mix(u32::from_le_bytes(last));
    // The length counts in 32 bits, as the algorithm has it.
    let [a, b, c, d, ..] = data.len().to_le_bytes();
    hash ^= u32::from_le_bytes([a, b, c, d]);
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Where the blob is in a file of these forms.
#[must_use]
pub fn blob_range(bytes: &[u8]) -> Option<Range<usize>> {
    let form = HeaderForm::ALL
        .into_iter()
        .find(|form| form.matches(bytes))?;
    BlobHeader::read(bytes.get(form.len()..)?)?;
    Some(form.len()..bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::{Check, Format, read, vkd3d};

    fn blob() -> Vec<u8> {
        let mut blob = Vec::new();
        for field in [32_u32, 1, 0x10de, 7] {
            blob.extend_from_slice(&field.to_le_bytes());
        }
        blob.extend_from_slice(b"0123456789abcdef");
        blob.extend_from_slice(b"the driver's own data");
        blob
    }

    /// One file of each form.
    fn files() -> Vec<(HeaderForm, Vec<u8>)> {
        let blob = blob();
        let len = u32::try_from(blob.len()).unwrap();
        let start = [
            &[9; 4][..],
            &len.to_le_bytes(),
            &[3; 8],
            &blob[8..16],
            &[5; 4],
        ]
        .concat();
        let zeux = [&start[..], &8_u32.to_le_bytes(), &blob[16..32], &blob].concat();
        let mut godot = [&start[..], &blob[16..32], &[8, 0, 0, 0], &blob].concat();
        godot[8..16].copy_from_slice(&godot_hash(&blob).to_le_bytes());
        let mut wgpu = [&b"WGPUPLCH"[..], &[0, 0, 0, 1, 0, 0, 0, 8, 1], &[255; 3]].concat();
        wgpu.extend([0, 0, 0x10, 0xde, 0, 0, 0, 7, 255, 255, 255, 255]);
        wgpu.extend([6; 16]);
        wgpu.extend([0, 0, 0, 0, 0, 0, 0, u8::try_from(blob.len()).unwrap()]);
        wgpu.extend([0xfe; 8]);
        wgpu.extend(&blob);
        let yuzu = [&b"yuzuvkch"[..], &11_u32.to_le_bytes(), &blob].concat();
        vec![
            (HeaderForm::Zeux, zeux),
            (HeaderForm::Godot, godot),
            (HeaderForm::Wgpu, wgpu),
            (HeaderForm::Yuzu, yuzu),
        ]
    }

    /// A Fossilize archive of two entries.
    fn archive() -> Vec<u8> {
        let mut file = b"\x81FOSSILIZEDB\0\0\0\x06".to_vec();
        for (tag, payload) in [(4, &b"spirv"[..]), (7, b"compute")] {
            file.extend_from_slice(format!("{tag:024x}{:016x}", 0xabc).as_bytes());
            let len = u32::try_from(payload.len()).unwrap();
            for field in [len, 1, crate::foreign::fossilize::crc32(payload), len] {
                file.extend_from_slice(&field.to_le_bytes());
            }
            file.extend_from_slice(payload);
        }
        file
    }

    #[test]
    fn each_form_is_told_from_the_others_and_rebuilds_byte_by_byte() {
        for (form, file) in files() {
            let contents = read(&file).unwrap();
            assert_eq!(contents.format, Format::Wrapped(form));
            assert!(contents.is_sound(), "{form:?}: {:?}", contents.problems);
            let inner = &file[contents.blob.unwrap()];
            assert_eq!(inner, blob());
            assert_eq!(wrap(&file, inner).unwrap(), file);
            assert_eq!(blob_range(&file).unwrap().start, form.len());
            // A longer blob behind the same header is sound again.
            let longer = [inner, b"more"].concat();
            assert!(read(&wrap(&file, &longer).unwrap()).unwrap().is_sound());
        }
        assert_eq!(read(&blob()).unwrap().format, Format::VkPipelineCache);
        assert!(read(b"").is_none() && read(b"#!/bin/sh\n").is_none());
    }

    #[test]
    fn godots_hash_is_murmur3_and_finds_damage() {
        for (text, seed, hash) in [
            ("", 0, 0),
            ("hello", 0, 0x248b_fa47),
            ("hello, world", 0, 0x149b_bb7f),
            (
                "The quick brown fox jumps over the lazy dog",
                0x9747_b28c,
                0x2fa8_26cd,
            ),
        ] {
            assert_eq!(murmur3(text.as_bytes(), seed), hash, "{text}");
        }
        let (_, mut godot) = files().swap_remove(1);
        *godot.last_mut().unwrap() ^= 1;
        let problems = read(&godot).unwrap().problems;
        assert!(problems[0].contains("hash"), "{problems:?}");
    }

    #[test]
    fn archives_are_listed_and_a_cut_tail_is_named() {
        let contents = read(&archive()).unwrap();
        assert_eq!(contents.format, Format::Fossilize);
        assert_eq!(contents.items[1].kind, "compute pipeline, plain");
        assert!(contents.is_sound());
        let cut = read(&archive()[..archive().len() - 1]).unwrap();
        assert_eq!((cut.items.len(), cut.problems.len()), (1, 1));
        let file = vkd3d::sample(&[b"one", b"three"]);
        let contents = read(&file).unwrap();
        assert_eq!(contents.items.len(), 2);
        assert!(contents.items.iter().all(|item| item.check == Check::Good));
        let mut bad = file.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert!(!read(&bad).unwrap().is_sound());
    }

    #[test]
    fn cut_flipped_and_random_files_of_each_form_are_never_a_panic() {
        let mut all: Vec<Vec<u8>> = files().into_iter().map(|(_, file)| file).collect();
        all.extend([archive(), vkd3d::sample(&[b"one", b"two"]), blob()]);
        let mut random = fastrand::Rng::with_seed(4);
        for file in all {
            for len in 0..file.len() {
                let _any = read(&file[..len]);
            }
            for bit in 0..file.len() * 8 {
                let mut bad = file.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                if let Some(contents) = read(&bad) {
                    for item in contents.items {
                        assert!(bad.get(item.payload).is_some());
                    }
                    assert!(contents.blob.is_none_or(|blob| bad.get(blob).is_some()));
                }
            }
            for _ in 0..300 {
                let mut bad = file.clone();
                let start = random.usize(..bad.len());
                random.fill(&mut bad[start..]);
                let _any = read(&bad);
                let _any = wrap(&bad, b"x");
            }
        }
    }
}
