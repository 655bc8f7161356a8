//! The fixes and how each is switched, packed into one word that a ledger can hold.

use std::fmt;
use std::str::FromStr;

/// A change that towpath applies to one host path.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Fix {
    /// Device to host copies into cold memory.
    Readback,
    /// Host to device copies.
    Upload,
    /// Driver caches on disk.
    Cache,
    /// Waits on fences, events and timelines.
    Waits,
}

impl Fix {
    /// Every fix, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Readback, Self::Upload, Self::Cache, Self::Waits];

    /// The name used on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Readback => "readback",
            Self::Upload => "upload",
            Self::Cache => "cache",
            Self::Waits => "waits",
        }
    }

    /// The fix of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fix| fix.name() == name)
    }

    /// Position of the fix's two bits in [`Fixes::to_bits`].
    const fn shift(self) -> u32 {
        match self {
            Self::Readback => 0,
            Self::Upload => 2,
            Self::Cache => 4,
            Self::Waits => 6,
        }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How one fix is switched.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Mode {
    /// Observed only.
    #[default]
    Off,
    /// Applied where the calibration says that it pays.
    Auto,
    /// Applied wherever it is correct.
    Forced,
}

impl Mode {
    /// Whether the fix may be applied at all.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }

    const fn bits(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Auto => 1,
            Self::Forced => 2,
        }
    }

    const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            1 => Self::Auto,
            2 => Self::Forced,
            // 3 is written by nobody; off is the harmless reading of a damaged word.
            _ => Self::Off,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Forced => "forced",
        }
    }
}

/// The mode of every fix.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Fixes(u32);

impl Fixes {
    /// Every fix off.
    #[must_use]
    pub const fn none() -> Self {
        Self(0)
    }

    /// Every fix as its calibration says.
    #[must_use]
    pub const fn auto() -> Self {
        Self(0b0101_0101)
    }

    /// Every fix forced.
    #[must_use]
    pub const fn forced() -> Self {
        Self(0b1010_1010)
    }

    /// Reads `none`, `auto`, `all`, or a comma list of `FIX` (forced) and `FIX=off|auto|forced`.
    ///
    /// `auto` or `none` may open a list: `auto,upload=off`.
    ///
    /// # Errors
    ///
    /// [`FixError`] names the item that is not one of these.
    pub fn parse(text: &str) -> Result<Self, FixError> {
        let mut fixes = Self::none();
        for (position, item) in text.split(',').map(str::trim).enumerate() {
            fixes = match item {
                "none" if position == 0 => Self::none(),
                "auto" if position == 0 => Self::auto(),
                "all" if position == 0 => Self::forced(),
                _ => fixes.with_item(item)?,
            };
        }
        Ok(fixes)
    }

    fn with_item(self, item: &str) -> Result<Self, FixError> {
        let unknown = || FixError {
            item: item.to_owned(),
        };
        let (name, mode) = item.split_once('=').unwrap_or((item, "forced"));
        let fix = Fix::from_name(name).ok_or_else(unknown)?;
        let mode = [Mode::Off, Mode::Auto, Mode::Forced]
            .into_iter()
            .find(|known| known.name() == mode)
            .ok_or_else(unknown)?;
        Ok(self.with(fix, mode))
    }

    /// How `fix` is switched.
    #[must_use]
    pub const fn mode(self, fix: Fix) -> Mode {
        Mode::from_bits(self.0 >> fix.shift())
    }

    /// The same with `fix` switched to `mode`.
    #[must_use]
    pub const fn with(self, fix: Fix, mode: Mode) -> Self {
        Self((self.0 & !(3 << fix.shift())) | (mode.bits() << fix.shift()))
    }

    /// The packed word: two bits per fix, in the order of [`Fix::ALL`] from the lowest.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The fixes of a packed word. Unknown bits are dropped; an unknown mode reads as off.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Fix::ALL.into_iter().fold(Self::none(), |fixes, fix| {
            fixes.with(fix, Mode::from_bits(bits >> fix.shift()))
        })
    }
}

impl fmt::Display for Fixes {
    /// Writes what [`Fixes::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            fixes if fixes == Self::none() => return f.write_str("none"),
            fixes if fixes == Self::auto() => return f.write_str("auto"),
            _ => {}
        }
        let mut separator = "";
        for fix in Fix::ALL {
            match self.mode(fix) {
                Mode::Off => continue,
                Mode::Forced => write!(f, "{separator}{fix}")?,
                Mode::Auto => write!(f, "{separator}{fix}=auto")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for Fixes {
    type Err = FixError;

    fn from_str(text: &str) -> Result<Self, FixError> {
        Self::parse(text)
    }
}

/// An item of a list of fixes that names none.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "\"{item}\" is no fix: expected none, auto, all, or a list of readback, upload, cache, waits, \
     each alone or with =off, =auto, =forced"
)]
pub struct FixError {
    /// What was found.
    pub item: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [Mode; 3] = [Mode::Off, Mode::Auto, Mode::Forced];

    #[test]
    fn every_combination_survives_text_and_bits() {
        for code in 0..81_usize {
            let digit = |place: u32| MODES[code / 3_usize.pow(place) % 3];
            let fixes = (0..4)
                .zip(Fix::ALL)
                .fold(Fixes::none(), |all, (place, fix)| {
                    all.with(fix, digit(place))
                });
            assert_eq!(Fixes::parse(&fixes.to_string()).unwrap(), fixes, "{fixes}");
            assert_eq!(Fixes::from_bits(fixes.to_bits()), fixes);
        }
    }

    #[test]
    fn a_named_fix_is_forced_and_the_rest_stays_off() {
        let fixes = Fixes::parse("readback").unwrap();
        assert_eq!(fixes.mode(Fix::Readback), Mode::Forced);
        assert_eq!(fixes.mode(Fix::Waits), Mode::Off);
        let fixes = Fixes::parse("auto, upload=off").unwrap();
        assert_eq!(fixes.mode(Fix::Readback), Mode::Auto);
        assert_eq!(fixes.mode(Fix::Upload), Mode::Off);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in [
            "",
            "readbck",
            "readback=maybe",
            "upload,none",
            "readback,,waits",
            "AUTO",
        ] {
            assert!(Fixes::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_damaged_word_never_forces_what_was_off() {
        assert_eq!(Fixes::from_bits(u32::MAX), Fixes::none());
        assert_eq!(Fixes::from_bits(0xffff_ff00), Fixes::none());
    }
}
