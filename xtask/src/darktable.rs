//! An unmodified darktable on PoCL in a folder of its own: settings, kernels and caches never touch the
//! user's home.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;

use crate::picture;
use crate::run::{root, say};

/// Where everything of the demo lives.
#[derive(Debug)]
pub(crate) struct Darktable {
    folder: PathBuf,
}

impl Darktable {
    /// Makes picture, history and settings, and compiles the kernels if that has not been done.
    ///
    /// # Errors
    ///
    /// If darktable is missing or refuses PoCL.
    pub(crate) fn prepare() -> Result<Self> {
        let this = Self {
            folder: root().join("target/demo"),
        };
        fs::create_dir_all(this.folder.join("pocl"))?;
        if !this.path("in.pfm").exists() {
            say("Making the picture (3888x2592).");
            picture::write_pfm(&this.path("in.part"))?;
            fs::rename(this.path("in.part"), this.path("in.pfm"))?;
        }
        picture::write_history(&this.path("history.xmp"))?;
        if !this.path("settings").exists() {
            this.make_settings()?;
        }
        this.compile_kernels()?;
        Ok(this)
    }

    /// A path inside the demo's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What one export needs in its environment.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("HOME", self.path("home")),
            ("POCL_CACHE_DIR", self.path("pocl")),
        ]
    }

    /// The command of one export, as a person would type it, less the environment.
    pub(crate) fn command(&self, opencl: bool) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let mut words: Vec<String> =
            vec!["darktable-cli".into(), path("in.pfm"), path("history.xmp")];
        words.extend([
            path("out.jpg"),
            "--width".into(),
            "0".into(),
            "--height".into(),
            "0".into(),
        ]);
        for word in ["--hq", "true", "--apply-custom-presets", "false", "--core"] {
            words.push(word.into());
        }
        words.extend(self.core_words());
        let last: &[&str] = if opencl {
            &["--conf", "opencl=TRUE"]
        } else {
            &["--disable-opencl"]
        };
        words.extend(["-d", "opencl", "-d", "perf"].map(String::from));
        words.extend(last.iter().map(ToString::to_string));
        words
    }

    /// The shell command that puts fresh settings in place before a run; darktable rewrites its own at exit.
    pub(crate) fn reset(&self) -> String {
        let path = |name: &str| self.path(name).display().to_string();
        format!(
            "rm -rf '{config}' '{out}' && cp -r '{settings}' '{config}'",
            config = path("config"),
            out = path("out.jpg"),
            settings = path("settings"),
        )
    }

    fn core_words(&self) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let mut words = vec!["--configdir".into(), path("config"), "--cachedir".into()];
        words.extend([path("cache"), "--tmpdir".into(), path("tmp")]);
        words.extend(["--library".into(), ":memory:".into()]);
        words
    }

    /// darktable refuses CPU devices and PoCL when it sees them first: let it see the device, then allow it.
    fn make_settings(&self) -> Result<()> {
        for name in ["config", "cache", "home", "tmp"] {
            fs::create_dir_all(self.path(name))?;
        }
        let log = File::create(self.path("cltest.log"))?;
        Command::new("darktable-cltest")
            .args(self.core_words())
            .envs(self.environment())
            .stderr(log.try_clone()?)
            .stdout(log)
            .status()
            .context("cannot start darktable-cltest")?;
        let file = self.path("config").join("darktablerc");
        let text = fs::read_to_string(&file)
            .with_context(|| format!("darktable made no {}", file.display()))?;
        fs::write(&file, allow_pocl(&text)?)?;
        fs::rename(self.path("config"), self.path("settings"))?;
        Ok(())
    }

    fn compile_kernels(&self) -> Result<()> {
        if self.path("kernels.done").exists() {
            return Ok(());
        }
        let progress = ProgressBar::new_spinner()
            .with_message("darktable compiles its OpenCL kernels, once: about a minute");
        progress.enable_steady_tick(Duration::from_millis(200));
        if progress.is_hidden() {
            say("darktable compiles its OpenCL kernels, once: about a minute.");
        }
        let log = self.export(true)?;
        progress.finish_and_clear();
        check_log(&log)?;
        fs::write(self.path("kernels.done"), "")?;
        Ok(())
    }

    /// One export outside any comparison; returns its log.
    ///
    /// # Errors
    ///
    /// If darktable cannot be started or fails.
    pub(crate) fn export(&self, opencl: bool) -> Result<String> {
        let reset = Command::new("sh").args(["-c", &self.reset()]).status()?;
        if !reset.success() {
            bail!("cannot put fresh settings into {}", self.folder.display());
        }
        let words = self.command(opencl);
        let (program, arguments) = words.split_first().context("an empty command")?;
        let out = Command::new(program)
            .args(arguments)
            .envs(self.environment())
            .stdin(Stdio::null())
            .output()
            .context("cannot start darktable-cli")?;
        let log = String::from_utf8_lossy(&out.stdout).into_owned()
            + &String::from_utf8_lossy(&out.stderr);
        fs::write(self.path("export.log"), &log)?;
        if !out.status.success() {
            bail!(
                "darktable-cli failed: {}; see {}",
                out.status,
                self.path("export.log").display()
            );
        }
        Ok(log)
    }
}

/// Fails if darktable did not use OpenCL: such a run would prove nothing.
///
/// # Errors
///
/// If the log lacks a read from the device, or says that OpenCL was not used.
pub(crate) fn check_log(log: &str) -> Result<()> {
    if log.contains("NOT utilized") || !log.contains("[Read Image") {
        bail!("darktable did not use OpenCL; its log has no read from the device");
    }
    Ok(())
}

/// Allows PoCL in darktable's settings: the eighth field of the device line is "disabled"; the include
/// path goes without quotes, which PoCL would not strip; the version mark keeps darktable from resetting
/// both.
fn allow_pocl(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut device = None;
    for line in text.lines() {
        let line = match line.split_once('=') {
            Some((key, fields)) if is_device(key) => {
                device = Some(key.to_owned());
                format!("{key}={}", enable(fields))
            }
            Some(("performance_configuration_version_completed", _)) => {
                "performance_configuration_version_completed=14".to_owned()
            }
            Some(("opencl", _)) => "opencl=TRUE".to_owned(),
            _ => line.to_owned(),
        };
        out += &line;
        out.push('\n');
    }
    let device = device.context("darktable saw no OpenCL device; is PoCL installed?")?;
    let kernels = Path::new("/usr/share/darktable/kernels").display();
    out += &format!("{device}_building=-cl-fast-relaxed-math -I{kernels}\n");
    Ok(out)
}

fn is_device(key: &str) -> bool {
    key.starts_with("cldevice_v4_") && !key.ends_with("_building") && !key.contains("_id")
}

fn enable(fields: &str) -> String {
    let changed: Vec<&str> = fields
        .split(' ')
        .enumerate()
        .map(|(index, field)| if index == 7 { "0" } else { field })
        .collect();
    changed.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_disabled_field_of_the_device_changes() {
        let text = "cldevice_v4_pthread=0 1000 0 16 16 128 0 1 0.0 0.0\n\
                    cldevice_v4_pthread_id0=400\nopencl=FALSE\n\
                    performance_configuration_version_completed=0\n";
        let changed = allow_pocl(text).unwrap();
        assert!(changed.contains("cldevice_v4_pthread=0 1000 0 16 16 128 0 0 0.0 0.0\n"));
        assert!(changed.contains("cldevice_v4_pthread_id0=400\nopencl=TRUE\n"));
        assert!(changed.contains("completed=14\ncldevice_v4_pthread_building=-cl-fast"));
    }

    #[test]
    fn a_log_without_a_read_is_refused() {
        assert!(check_log("all fine").is_err());
        assert!(check_log("[Read Image (from device to host)]").is_ok());
        assert!(check_log("[Read Image] OpenCL NOT utilized").is_err());
    }
}
