//! Compiled code and the data of pipeline caches: plain bytes, no Vulkan objects.
//!
//! ```text
//! offset  size  field
//!      0    32  VkPipelineCacheHeaderVersionOne
//!     32     8  "MOCKBLOB"
//!     40     4  entries, little-endian
//!     44     4  0
//!     48     n  entries: key u64, size u32, check u32, code
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Length of `VkPipelineCacheHeaderVersionOne`.
pub(crate) const HEADER: usize = 32;
/// Length of header, magic and count.
pub(crate) const PREFIX: usize = 48;
/// Length of one entry without its code.
const ENTRY: usize = 16;
const MAGIC: &[u8; 8] = b"MOCKBLOB";
/// What code begins with that policy `aborting` dies of.
const MARK: &[u8; 8] = b"MOCKMARK";

/// Identity of one driver on one GPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    pub(crate) vendor: u32,
    pub(crate) device: u32,
    pub(crate) uuid: [u8; 16],
}

impl Identity {
    /// The 32 bytes in front of every blob of this identity.
    pub(crate) fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let words = [32, 1, self.vendor, self.device];
        let bytes = words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .chain(self.uuid);
        for (slot, byte) in header.iter_mut().zip(bytes) {
            *slot = byte;
        }
        header
    }
}

/// Compiled code: a range of shared bytes, so that a loaded blob is held once.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl Code {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self {
            bytes: bytes.into(),
            range,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or(&[])
    }
}

/// Compiles: code of a size between half and one and a half times `mean`, decided by `key`.
pub(crate) fn compile(key: u64, mean: usize, marked: bool) -> Code {
    let spread = usize::try_from(key % 1001).unwrap_or(0);
    let size = (mean / 2 + mean * spread / 1000).max(16);
    let mut code = Vec::with_capacity(size + 8);
    code.extend_from_slice(if marked { MARK } else { b"MOCKCODE" });
    // A counter through a 64-bit mixer: cheap, and no two codes share a run of bytes.
    let mut state = key;
    while code.len() < size {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        code.extend_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes());
    }
    code.truncate(size);
    Code::new(code)
}

/// What loading a blob found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Loaded {
    /// All entries.
    Whole,
    /// Header of another driver, device or version: ignored.
    Foreign,
    /// The right header and damaged content: undefined behaviour in a real driver.
    Corrupt,
    /// An entry that kills a driver of policy `aborting`.
    Marked,
}

/// Entries of a cache, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    order: Vec<u64>,
    codes: HashMap<u64, Code>,
    bytes: usize,
}

impl Entries {
    pub(crate) fn get(&self, key: u64) -> Option<Code> {
        self.codes.get(&key).cloned()
    }

    pub(crate) fn insert(&mut self, key: u64, code: Code) {
        let size = code.bytes().len();
        if self.codes.insert(key, code).is_none() {
            self.order.push(key);
            self.bytes += size;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for key in &other.order {
            if let Some(code) = other.codes.get(key) {
                self.insert(*key, code.clone());
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Size of the whole blob, in bytes.
    pub(crate) fn size(&self) -> usize {
        PREFIX + self.order.len() * ENTRY + self.bytes
    }

    /// Writes as many whole entries as fit; returns the bytes written.
    pub(crate) fn write(&self, header: [u8; HEADER], shuffled: bool, out: &mut [u8]) -> usize {
        let Some((head, rest)) = out.split_at_mut_checked(HEADER) else {
            return 0;
        };
        head.copy_from_slice(&header);
        if rest.len() < PREFIX - HEADER {
            return HEADER;
        }
        let mut order = self.order.clone();
        if shuffled {
            let salt = u64::try_from(order.len())
                .unwrap_or(0)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            order.sort_by_key(|key| (key ^ salt).wrapping_mul(0xbf58_476d_1ce4_e5b9));
        }
        let mut at = PREFIX - HEADER;
        let mut count: u32 = 0;
        for key in order {
            let Some(code) = self.codes.get(&key).map(Code::bytes) else {
                continue;
            };
            let Some(slot) = rest.get_mut(at..at + ENTRY + code.len()) else {
                break;
            };
            let (fields, body) = slot.split_at_mut(ENTRY);
            fields.copy_from_slice(&entry_fields(key, code));
            body.copy_from_slice(code);
            at += ENTRY + code.len();
            count += 1;
        }
        let start = MAGIC
            .iter()
            .copied()
            .chain(count.to_le_bytes())
            .chain([0; 4]);
        for (slot, byte) in rest.iter_mut().zip(start) {
            *slot = byte;
        }
        HEADER + at
    }

    /// Takes the entries of `blob`.
    pub(crate) fn load(&mut self, identity: &Identity, blob: &[u8]) -> Loaded {
        if blob.get(..HEADER) != Some(&identity.header()[..]) {
            return Loaded::Foreign;
        }
        if blob.len() == HEADER {
            return Loaded::Whole;
        }
        self.take_entries(blob).unwrap_or(Loaded::Corrupt)
    }

    fn take_entries(&mut self, blob: &[u8]) -> Option<Loaded> {
        if blob.get(HEADER..HEADER + 8)? != MAGIC {
            return None;
        }
        let bytes: Arc<[u8]> = blob.into();
        let mut at = PREFIX;
        let mut found = Loaded::Whole;
        for _ in 0..read_u32(blob, HEADER + 8)? {
            let key = u64::from_le_bytes(blob.get(at..at + 8)?.try_into().ok()?);
            let size = usize::try_from(read_u32(blob, at + 8)?).ok()?;
            let range = at + ENTRY..at + ENTRY + size;
            let code = blob.get(range.clone())?;
            if blob.get(at..at + ENTRY)? != entry_fields(key, code) {
                return None;
            }
            if code.starts_with(MARK) {
                found = Loaded::Marked;
            }
            at = range.end;
            self.insert(
                key,
                Code {
                    bytes: Arc::clone(&bytes),
                    range,
                },
            );
        }
        (at == blob.len()).then_some(found)
    }
}

fn entry_fields(key: u64, code: &[u8]) -> [u8; ENTRY] {
    let size = u32::try_from(code.len()).unwrap_or(u32::MAX);
    let [a, b, c, d, ..] = xxh3_64_with_seed(code, key).to_le_bytes();
    let mut fields = [0; ENTRY];
    let bytes = key
        .to_le_bytes()
        .into_iter()
        .chain(size.to_le_bytes())
        .chain([a, b, c, d]);
    for (slot, byte) in fields.iter_mut().zip(bytes) {
        *slot = byte;
    }
    fields
}

fn read_u32(blob: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(blob.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        vendor: 1,
        device: 2,
        uuid: [7; 16],
    };

    fn filled(keys: Range<u64>) -> Entries {
        let mut entries = Entries::default();
        for key in keys {
            entries.insert(key, compile(key, 100, false));
        }
        entries
    }

    fn blob(entries: &Entries, shuffled: bool) -> Vec<u8> {
        let mut out = vec![0; entries.size()];
        assert_eq!(
            entries.write(IDENTITY.header(), shuffled, &mut out),
            out.len()
        );
        out
    }

    #[test]
    fn what_is_written_loads_in_any_order_and_any_cut_that_the_writer_made() {
        let entries = filled(1..20);
        for shuffled in [false, true] {
            let whole = blob(&entries, shuffled);
            let mut again = Entries::default();
            assert_eq!(again.load(&IDENTITY, &whole), Loaded::Whole);
            assert_eq!(again.len(), 19);
            for room in 0..whole.len() {
                let mut cut = vec![0; room];
                let written = entries.write(IDENTITY.header(), shuffled, &mut cut);
                assert!(written == 0 || written >= HEADER, "room {room}");
                if let Some(valid) = cut.get(..written).filter(|valid| !valid.is_empty()) {
                    let loaded = Entries::default().load(&IDENTITY, valid);
                    assert_eq!(loaded, Loaded::Whole, "room {room}");
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_noticed_and_shuffling_moves_old_entries() {
        let whole = blob(&filled(1..6), false);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            let loaded = Entries::default().load(&IDENTITY, &damaged);
            let ignored_field = (HEADER + 12..PREFIX).contains(&at);
            assert_eq!(loaded == Loaded::Whole, ignored_field, "byte {at}");
            if at > HEADER {
                assert_eq!(
                    Entries::default().load(&IDENTITY, &whole[..at]),
                    Loaded::Corrupt
                );
            }
        }
        let before = blob(&filled(1..20), true);
        let after = blob(&filled(1..21), true);
        assert_ne!(before.get(PREFIX..600), after.get(PREFIX..600));
    }
}
