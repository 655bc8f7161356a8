//! Sets up an unmodified darktable on PoCL in a folder of its own, never in the user's home.
//!
//! darktable 4.2 refuses PoCL twice, and only for devices that it has not seen before: as an
//! emulation by the CPU, and by name. [`Darktable::prepare`] therefore lets it see the device once,
//! then switches the device on in the settings file. Facts: `docs/readback.md`.
//!
//! ```no_run
//! let darktable = towpath_darktable::Darktable::prepare("/tmp/demo".as_ref())?;
//! darktable.compile_kernels()?; // about a minute, once per folder
//! let mut command = darktable.command(towpath_darktable::History::Plain, "a.jpg".as_ref());
//! command.env("OPENCL_LAYERS", "layer.so").status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod history;
mod picture;
mod settings;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use history::History;

/// Why darktable could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or program of the set-up failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// darktable ended without naming an OpenCL device.
    #[error("darktable-cltest found no OpenCL device: {log}")]
    NoDevice {
        /// What it printed.
        log: String,
    },
    /// darktable did not use OpenCL for the export.
    #[error("darktable did not use OpenCL: {log}")]
    NotUsed {
        /// The last lines that it printed.
        log: String,
    },
}

/// A folder in which darktable runs on PoCL.
#[derive(Clone, Debug)]
pub struct Darktable {
    folder: PathBuf,
}

impl Darktable {
    /// Makes settings, a 3888x2592 picture (121 MB), histories and `run.sh` under `folder`, or finds
    /// them there. Starts `darktable-cltest` once (about a second).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a file or program fails, [`Error::NoDevice`] without an OpenCL device.
    pub fn prepare(folder: &Path) -> Result<Self, Error> {
        let this = Self {
            folder: folder.to_path_buf(),
        };
        for name in ["home", "pocl", "cache", "settings"] {
            create_folder(&folder.join(name))?;
        }
        if !folder.join("picture.pfm").exists() {
            picture::write(&folder.join("picture.pfm"))?;
        }
        let rc = folder.join("settings/darktablerc");
        let known = fs::read_to_string(&rc).unwrap_or_default();
        if !settings::is_ready(&known) {
            let log = this.show_device()?;
            let text = fs::read_to_string(&rc).unwrap_or_default();
            let text = settings::switch_on(&text).ok_or(Error::NoDevice { log })?;
            write(&rc, &text)?;
        }
        write(&folder.join("heavy.xmp"), &history::heavy())?;
        write(&folder.join("plain.xmp"), &history::plain())?;
        write(&folder.join("light.xmp"), &history::light())?;
        write(&folder.join("once.xmp"), &history::once())?;
        write(&folder.join("framed.xmp"), &history::framed())?;
        write(&folder.join("run.sh"), RUN)?;
        Ok(this)
    }

    /// The folder given to [`Self::prepare`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command that exports the picture to `output` (a JPEG).
    ///
    /// It is `sh run.sh HISTORY OUTPUT [darktable's own further arguments]`; the script puts fresh
    /// settings in place (darktable rewrites its own and switches OpenCL off in them) and then becomes
    /// `darktable-cli`. It prints darktable's log, which [`Self::check`] understands.
    pub fn command(&self, history: History, output: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .arg(self.folder.join("run.sh"))
            .arg(history.name())
            .arg(output);
        command
    }

    /// Runs darktable once so that PoCL compiles and keeps the kernels: about a minute the first time.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be started, [`Error::NotUsed`] if it did not use OpenCL.
    pub fn compile_kernels(&self) -> Result<(), Error> {
        let output = self.folder.join("first.jpg");
        let mut command = self.command(History::Heavy, &output);
        let done = command
            .env_remove("OPENCL_LAYERS")
            .output()
            .map_err(io("start", Path::new("darktable-cli")))?;
        let log = String::from_utf8_lossy(&done.stdout).into_owned();
        Self::check(&log)
    }

    /// Whether a log of an export shows that OpenCL was used.
    ///
    /// # Errors
    ///
    /// [`Error::NotUsed`] with the end of the log if not.
    pub fn check(log: &str) -> Result<(), Error> {
        let used = log.contains("[Read Image (from device to host)]");
        if used && !log.contains("NOT utilized") {
            return Ok(());
        }
        let lines: Vec<&str> = log.lines().rev().take(8).collect();
        Err(Error::NotUsed {
            log: lines.into_iter().rev().collect::<Vec<_>>().join("\n"),
        })
    }

    fn show_device(&self) -> Result<String, Error> {
        let done = Command::new("darktable-cltest")
            .arg("--configdir")
            .arg(self.folder.join("settings"))
            .arg("--cachedir")
            .arg(self.folder.join("cache"))
            .args(["--library", ":memory:"])
            .env("HOME", self.folder.join("home"))
            .env("POCL_CACHE_DIR", self.folder.join("pocl"))
            .env_remove("OPENCL_LAYERS")
            .output()
            .map_err(io("start", Path::new("darktable-cltest")))?;
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

/// A settings folder per run: darktable-cli locks its own.
const RUN: &str = r#"#!/bin/sh
# usage: sh run.sh plain|heavy|light|once|framed OUTPUT.jpg [more arguments of darktable, such as --disable-opencl]
here=$(cd "$(dirname "$0")" && pwd) || exit 1
history=$1 output=$2
shift 2
rm -rf "$here/run-settings" "$output"
cp -r "$here/settings" "$here/run-settings" || exit 1
HOME=$here/home POCL_CACHE_DIR=$here/pocl
export HOME POCL_CACHE_DIR
exec darktable-cli "$here/picture.pfm" "$here/$history.xmp" "$output" --width 0 --height 0 --hq true \
  --apply-custom-presets false --core --configdir "$here/run-settings" --cachedir "$here/cache" \
  --library :memory: --conf opencl=TRUE -d opencl -d perf "$@"
"#;

fn create_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(io("create", path))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(io("write", path))
}

fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_path_buf();
    move |source| Error::Io {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_a_readback_is_not_a_pass() {
        let read = "1.0 spent 0.1 seconds in [Read Image (from device to host)]";
        assert!(Darktable::check(read).is_ok());
        assert!(Darktable::check("processed `grain' on CPU").is_err());
        assert!(Darktable::check(&format!("{read}\nopencl NOT utilized")).is_err());
    }
}
