//! glbench's rows: names, sizes, and the line that it prints.
//!
//! glbench calls its unit `mtexel_sec` and multiplies texels by their bytes: it is megabytes per second.
//! The name is kept for comparison, the true unit stands beside it.

use serde::Serialize;

/// What a row does over and over.
#[expect(clippy::enum_variant_names, reason = "glbench's names")]
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Test {
    /// Uploads to eight textures in turn and draws nothing.
    TextureUpload,
    /// Uploads to one texture and draws with it each time.
    TextureUpdate,
    /// Uploads to eight textures in turn and draws with all after the eighth.
    TextureReuse,
}

/// How the texture is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Flavour {
    /// As a new picture of the same size.
    Teximage2d,
    /// Into the picture that is there.
    Texsubimage2d,
}

/// One row of glbench.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) test: Test,
    pub(super) is_luminance: bool,
    pub(super) flavour: Flavour,
    pub(super) side: u32,
}

impl Row {
    /// All 96 rows; with `is_quick` those of three sizes.
    pub(super) fn all(is_quick: bool, part: &str) -> Vec<Self> {
        let sizes: &[u32] = if is_quick { &[128, 512, 2048] } else { &SIZES };
        let mut rows = Vec::new();
        for test in [Test::TextureUpload, Test::TextureUpdate, Test::TextureReuse] {
            for is_luminance in [true, false] {
                for flavour in [Flavour::Teximage2d, Flavour::Texsubimage2d] {
                    rows.extend(sizes.iter().map(|&side| Self {
                        test,
                        is_luminance,
                        flavour,
                        side,
                    }));
                }
            }
        }
        rows.retain(|row| row.name().contains(part));
        rows
    }

    /// glbench's name.
    pub(super) fn name(self) -> String {
        let test = match self.test {
            Test::TextureUpload => "texture_upload",
            Test::TextureUpdate => "texture_update",
            Test::TextureReuse => "texture_reuse",
        };
        let format = if self.is_luminance {
            "luminance"
        } else {
            "rgba"
        };
        let flavour = match self.flavour {
            Flavour::Teximage2d => "teximage2d",
            Flavour::Texsubimage2d => "texsubimage2d",
        };
        format!("{test}_{format}_{flavour}_{}", self.side)
    }

    /// Bytes of a texel.
    pub(super) const fn texel_bytes(self) -> u32 {
        if self.is_luminance { 1 } else { 4 }
    }

    /// Bytes of the picture.
    pub(super) const fn bytes(self) -> u64 {
        self.side as u64 * self.side as u64 * self.texel_bytes() as u64
    }

    /// Textures that take turns.
    pub(super) const fn textures(self) -> usize {
        match self.test {
            Test::TextureUpdate => 1,
            Test::TextureUpload | Test::TextureReuse => TEXTURES,
        }
    }

    /// The line that glbench prints for a time per upload in nanoseconds.
    pub(super) fn line(self, nanos: f64) -> String {
        let value = if nanos > 0.0 {
            self.bytes() as f64 * 1000.0 / nanos
        } else {
            -1.0
        };
        let name = self.name();
        format!(
            "@RESULT: {name:<45} = {value:>10.2} {:<15} [none]",
            "mtexel_sec"
        )
    }

    /// Millions of texels per second.
    pub(super) fn true_mtexel(self, nanos: f64) -> f64 {
        f64::from(self.side) * f64::from(self.side) * 1000.0 / nanos.max(1e-9)
    }
}

/// glbench's textures and client buffers.
pub(super) const TEXTURES: usize = 8;

const SIZES: [u32; 8] = [32, 128, 256, 512, 768, 1024, 1536, 2048];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lines_are_those_of_glbench() {
        let rows = Row::all(false, "");
        assert_eq!(rows.len(), 96);
        assert_eq!(Row::all(false, "_rgba_").len(), 48);
        let row = rows
            .iter()
            .find(|row| row.name() == "texture_update_rgba_texsubimage2d_1024")
            .unwrap();
        // 4 MiB in 1 ms are 4194.3 MB/s.
        let expected = "@RESULT: texture_update_rgba_texsubimage2d_1024        \
                        =    4194.30 mtexel_sec      [none]";
        assert_eq!(row.line(1e6), expected);
        assert!((row.true_mtexel(1e6) - 1048.576).abs() < 1e-6);
    }
}
