//! Files of other programs that hold pipeline caches: told apart, listed, checked, rebuilt.
//!
//! Nothing here trusts a length: every reader gives what is sound and says what is not.

mod diff;
mod fossilize;
mod headers;
mod vkd3d;

use std::ops::Range;

pub use diff::{Difference, Objects, diff};
pub use headers::{HeaderForm, blob_range, wrap};

use crate::safety::BlobHeader;
use crate::saving::mesa;

/// Which program's form a file has.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// A VkPipelineCache blob as the driver gave it.
    VkPipelineCache,
    /// A blob behind another header.
    Wrapped(HeaderForm),
    /// Fossilize's stream archive, `.foz`.
    Fossilize,
    /// vkd3d-proton's stream archive, `vkd3d-proton.cache` and `.cache.write`.
    Vkd3dProton,
}

impl Format {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::VkPipelineCache => "VkPipelineCache",
            Self::Wrapped(form) => form.name(),
            Self::Fossilize => "Fossilize archive",
            Self::Vkd3dProton => "vkd3d-proton archive",
        }
    }
}

/// What a checksum in a file says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Check {
    /// It fits the bytes.
    Good,
    /// It does not.
    Bad,
    /// There is none, or its rule is not known.
    Unchecked,
}

/// One entry of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Item {
    /// Its name, as the format has it.
    pub name: String,
    /// Its kind, as the format has it.
    pub kind: String,
    /// Where its payload is in the file.
    pub payload: Range<usize>,
    /// What its checksum says.
    pub check: Check,
}

/// What a file holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Contents {
    /// The file's form.
    pub format: Format,
    /// Header fields by name.
    pub fields: Vec<(&'static str, String)>,
    /// Entries in the order of the file; Mesa's objects for a blob of Mesa's.
    pub items: Vec<Item>,
    /// Where the VkPipelineCache blob is, for forms that hold one.
    pub blob: Option<Range<usize>>,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}

impl Contents {
    fn new(format: Format) -> Self {
        Self {
            format,
            fields: Vec::new(),
            items: Vec::new(),
            blob: None,
            problems: Vec::new(),
        }
    }

    /// Whether nothing wrong was found.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && !self.items.iter().any(|item| item.check == Check::Bad)
    }
}

/// Reads a file of any known form; `None` if it has none.
///
/// # Cost
///
/// One or two passes over the bytes, no copy of payloads.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Contents> {
    fossilize::read(bytes)
        .or_else(|| vkd3d::read(bytes))
        .or_else(|| headers::read(bytes))
        .or_else(|| raw(bytes))
}

/// A VkPipelineCache blob by itself.
fn raw(bytes: &[u8]) -> Option<Contents> {
    let header = BlobHeader::read(bytes)?;
    if !looks_like_blob(bytes) {
        return None;
    }
    let mut contents = Contents::new(Format::VkPipelineCache);
    contents.blob = Some(0..bytes.len());
    describe_blob(bytes, 0, &mut contents);
    if bytes.len() == BlobHeader::LEN {
        contents.problems.push("a header without data".to_owned());
    }
    if header.version != 1 {
        let line = format!("header version {} is not known", header.version);
        contents.problems.push(line);
    }
    Some(contents)
}

/// Whether the first bytes can be a driver's header: versions and sizes are small numbers.
fn looks_like_blob(bytes: &[u8]) -> bool {
    BlobHeader::read(bytes).is_some_and(|header| {
        let is_first = header.version == 1 && header.header_bytes == 32;
        // Qualcomm's data-graph header (28 bytes): version 1000000000 plus.
        let is_other = header.header_bytes == 28 && header.version >= 1_000_000_000;
        is_first || is_other
    })
}

/// Fields and, where the blob is Mesa's, objects of the blob at `start`.
fn describe_blob(blob: &[u8], start: usize, contents: &mut Contents) {
    let Some(header) = BlobHeader::read(blob) else {
        contents
            .problems
            .push("the blob is shorter than its header".to_owned());
        return;
    };
    contents.fields.extend([
        (
            "blob vendor",
            format!("{:#06x} {}", header.vendor, vendor_name(header.vendor)),
        ),
        ("blob device", format!("{:#06x}", header.device)),
        ("blob uuid", crate::bytes::hex(&header.cache_uuid)),
        ("blob bytes", blob.len().to_string()),
    ]);
    let Some(objects) = mesa::parse(blob).filter(|objects| !objects.is_empty()) else {
        return;
    };
    contents
        .fields
        .push(("blob layout", "Mesa common runtime".to_owned()));
    contents
        .items
        .extend(objects.into_iter().map(|object| Item {
            name: crate::bytes::hex(blob.get(object.key).unwrap_or_default()),
            kind: format!("object type {}", object.kind),
            payload: start + object.data.start..start + object.data.end,
            check: Check::Unchecked,
        }));
}

fn vendor_name(vendor: u32) -> &'static str {
    match vendor {
        0x10de => "NVIDIA",
        0x1002 => "AMD",
        0x8086 => "Intel",
        0x13b5 => "Arm",
        0x5143 => "Qualcomm",
        0x1010 => "Imagination",
        0x106b => "Apple",
        0x10005 => "Mesa",
        _ => "",
    }
}
