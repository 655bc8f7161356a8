//! How the text of a variable becomes a value.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::Fixes;

/// A type that a setting can have.
pub trait Value: Sized + Default {
    /// What the text must look like, for help pages and problems.
    const FORM: &'static str;

    /// Reads a text that is not empty.
    ///
    /// # Errors
    ///
    /// Why the text is not a value, in words.
    fn read(text: &OsStr) -> Result<Self, String>;
}

impl Value for Option<PathBuf> {
    const FORM: &'static str = "PATH";

    fn read(text: &OsStr) -> Result<Self, String> {
        Ok(Some(PathBuf::from(text)))
    }
}

impl Value for Option<OsString> {
    const FORM: &'static str = "TEXT";

    fn read(text: &OsStr) -> Result<Self, String> {
        Ok(Some(text.to_owned()))
    }
}

impl Value for Fixes {
    const FORM: &'static str = "none|auto|LIST";

    fn read(text: &OsStr) -> Result<Self, String> {
        let text = text.to_str().ok_or("not valid text")?;
        Self::parse(text).map_err(|error| error.to_string())
    }
}

impl Value for bool {
    const FORM: &'static str = "0|1";

    fn read(text: &OsStr) -> Result<Self, String> {
        match text.to_str() {
            Some("1" | "true" | "yes" | "on") => Ok(true),
            Some("0" | "false" | "no" | "off") => Ok(false),
            _ => Err("neither 0 nor 1".to_owned()),
        }
    }
}

impl Value for Option<u64> {
    const FORM: &'static str = "NUMBER";

    fn read(text: &OsStr) -> Result<Self, String> {
        let text = text.to_str().ok_or("not valid text")?;
        text.trim()
            .parse()
            .map(Some)
            .map_err(|error| format!("not a whole number: {error}"))
    }
}

/// What the cache layer does with the driver's blobs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CacheMode {
    /// Serves what is stored and stores what is new; the program's own file stays as it is.
    #[default]
    Fill,
    /// Counts only.
    Observe,
    /// Also keeps the program from rewriting its own file where nothing changed.
    Takeover,
}

impl Value for CacheMode {
    const FORM: &'static str = "fill|observe|takeover";

    fn read(text: &OsStr) -> Result<Self, String> {
        match text.to_str() {
            Some("fill") => Ok(Self::Fill),
            Some("observe") => Ok(Self::Observe),
            Some("takeover") => Ok(Self::Takeover),
            _ => Err("none of fill, observe, takeover".to_owned()),
        }
    }
}

/// By which mechanism bytes move between host and device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TransferWay {
    /// As the calibration says; without one, destinations are brought in and nothing is staged.
    #[default]
    Auto,
    /// The driver's own copy, into pages that were brought in.
    Prefault,
    /// Through pinned memory, wherever a call may be staged.
    Staged,
}

impl Value for TransferWay {
    const FORM: &'static str = "auto|prefault|staged";

    fn read(text: &OsStr) -> Result<Self, String> {
        match text.to_str() {
            Some("auto") => Ok(Self::Auto),
            Some("prefault") => Ok(Self::Prefault),
            Some("staged") => Ok(Self::Staged),
            _ => Err("none of auto, prefault, staged".to_owned()),
        }
    }
}
