//! `towpath bench upload --glbench|--vulkan|--calibrate`: textures from scattered guest memory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use towpath_settings::calibration::{Entry, Store, default_folder};
use towpath_settings::{Fix, Mode, Settings};
use towpath_transfer::textures::{Model, calibrate};

mod guest;
mod imports;
mod memory;
mod output;
mod replay;
mod rows;
mod timing;
mod virgl;
mod vulkan;

/// Options of the texture benches.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Textures through the real libvirglrenderer, as it is and behind towpath's layer, in glbench's rows.
    #[arg(long, group = "textures")]
    glbench: bool,
    /// Textures on Vulkan images by every way, in glbench's rows, and which imports the driver takes.
    #[arg(long, group = "textures")]
    vulkan: bool,
    /// Textures in memory by every way, by size and piece size: what is copied and how fast, without a device.
    #[arg(long, group = "textures")]
    memory: bool,
    /// Measures what copies and mappings cost here, and stores it for the library and the layer.
    #[arg(long, group = "textures")]
    calibrate: bool,
    /// Plays a stream that the virgl layer recorded (TOWPATH_TEXTURE_TRACE) by every way.
    #[arg(long, group = "textures", value_name = "TRACE")]
    replay: Option<PathBuf>,
    /// Bytes of a piece of guest memory, with K or M, or `hugetlb` (2 MiB pages) [default: 4K; for --vulkan
    /// and --memory 4K,64K,2M].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = guest::piece)]
    pieces: Vec<guest::Pieces>,
    /// Time of one sample in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    sample_ms: u64,
    /// Rows whose name has this in it.
    #[arg(long, value_name = "TEXT", default_value = "")]
    row: String,
}

/// What the texture benches need of the options that all of `bench upload` has.
#[derive(Clone, Debug)]
pub(super) struct Common {
    /// Part of the device's name.
    pub(super) device: String,
    /// Few rows and rounds.
    pub(super) is_quick: bool,
    /// Rounds; every arm runs once in each, in random order.
    pub(super) rounds: usize,
    /// Seed of that order.
    pub(super) seed: u64,
    /// Also writes every sample to this file.
    pub(super) json: Option<PathBuf>,
}

impl Args {
    /// Whether one of these benches is asked for.
    pub(super) const fn is_asked(&self) -> bool {
        self.glbench || self.vulkan || self.memory || self.calibrate || self.replay.is_some()
    }

    /// The piece sizes asked for.
    fn pieces(&self, default: &[guest::Pieces]) -> Vec<guest::Pieces> {
        if self.pieces.is_empty() {
            default.to_vec()
        } else {
            self.pieces.clone()
        }
    }
}

/// Runs the bench that was asked for.
///
/// # Errors
///
/// No library, driver or memory, or wrong bytes.
pub(super) fn run(args: &Args, common: &Common) -> Result<ExitCode> {
    if args.calibrate {
        return store(common.json.as_deref());
    }
    if let Some(path) = &args.replay {
        return replay::run(path, args, common);
    }
    if args.memory {
        return memory::run(args, common);
    }
    if args.vulkan {
        return vulkan::run(args, common);
    }
    let (settings, _problems) = Settings::from_environment();
    if settings.fix.mode(Fix::Upload) != Mode::Auto {
        return again_with_fix();
    }
    virgl::run(args, common, &settings)
}

/// The layer reads its settings once: the bench runs in a process in which they say `auto`.
fn again_with_fix() -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let status = std::process::Command::new(program)
        .args(std::env::args_os().skip(1))
        .env("TOWPATH_FIX", "auto")
        .status()
        .context("cannot start this program again")?;
    match status.code() {
        Some(0) => Ok(ExitCode::SUCCESS),
        Some(_) => Ok(ExitCode::FAILURE),
        None => bail!("the bench was ended: {status}"),
    }
}

fn store(json: Option<&Path>) -> Result<ExitCode> {
    let model = calibrate::calibrate()?;
    let (settings, _problems) = Settings::from_environment();
    let folder = default_folder(&settings)?;
    Store::new(folder.clone()).save(&Entry::new(Model::key(), &model)?)?;
    let text = serde_json::to_string_pretty(&model)?;
    say!("{text}\nstored in {}", folder.display());
    if let Some(path) = json {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
