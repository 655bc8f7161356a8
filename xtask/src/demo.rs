//! `cargo xtask demo`: the main job on a real, unmodified program.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use towpath_darktable::{Darktable, History};

use crate::packages::{self, Set};
use crate::run::{cargo, root, run as start, say};

/// Two scenes: the machine as it is, and the seed's machine emulated.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pairs of runs in each scene.
    #[arg(long, default_value_t = 10)]
    pairs: u32,
    /// Only this scene.
    #[arg(long)]
    scene: Option<Which>,
    /// Leaves the system's packages as they are.
    #[arg(long)]
    no_install: bool,
}

/// A scene's name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Which {
    /// darktable on PoCL as it is here.
    Here,
    /// The seed's machine.
    Emulated,
}

/// Nanoseconds that the emulated driver charges for each page that is still cold: 2318 ms for 39,366
/// pages, as the seed measured on its GB10.
const SEED_NS_PER_PAGE: &str = "59000";

/// Installs, builds, prepares, and runs both scenes and the arm without OpenCL.
///
/// # Errors
///
/// If a step fails, or if the pictures of the arms differ.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.no_install {
        packages::install(Set::Demo)?;
    }
    say("Building towpath and its layers.");
    let mut words = vec!["build", "--release"];
    for package in [
        "towpath-cli",
        "towpath-opencl-layer",
        "towpath-penalty-layer",
    ] {
        words.extend(["-p", package]);
    }
    start(&cargo(), &words)?;
    let program = prepare()?;
    let wanted = |scene: Which| args.scene.is_none_or(|only| only == scene);
    if wanted(Which::Here) {
        say("\nScene 1: darktable on PoCL as it is on this machine.");
        let here = Scene {
            name: "here",
            history: History::Framed,
            primary: "readback-time",
            environment: &[],
        };
        scene(&program, args.pairs, &here)?;
    }
    if wanted(Which::Emulated) {
        say(
            "\nScene 2 (EMULATED): the seed's machine. A layer between ours and PoCL charges 59 us for \
             each destination page that is still cold when the driver gets the call.",
        );
        let layer = root().join("target/release/libtowpath_penalty_layer.so");
        let penalty = [
            ("OPENCL_LAYERS", layer.display().to_string()),
            ("TOWPATH_PENALTY_NS_PER_PAGE", SEED_NS_PER_PAGE.to_owned()),
        ];
        let emulated = Scene {
            name: "emulated",
            history: History::Framed,
            primary: "wall",
            environment: &penalty,
        };
        scene(&program, args.pairs, &emulated)?;
    }
    without_opencl(&program)
}

/// Settings, picture and kernels in a folder of the demo, never in the user's home.
fn prepare() -> Result<Darktable> {
    say("Preparing darktable in target/demo (picture 3888x2592, settings, history).");
    let program = Darktable::prepare(&root().join("target/demo"))?;
    let done = program.folder().join("kernels.done");
    if !done.exists() {
        let progress = ProgressBar::new_spinner()
            .with_message("darktable compiles its OpenCL kernels, once: about a minute");
        progress.enable_steady_tick(Duration::from_millis(200));
        if progress.is_hidden() {
            say("darktable compiles its OpenCL kernels, once: about a minute.");
        }
        program.compile_kernels()?;
        progress.finish_and_clear();
        fs::write(done, "")?;
    }
    Ok(program)
}

/// One comparison of the demo.
struct Scene<'a> {
    name: &'a str,
    history: History,
    /// The metric that decides.
    primary: &'a str,
    environment: &'a [(&'a str, String)],
}

fn scene(program: &Darktable, pairs: u32, scene: &Scene<'_>) -> Result<()> {
    let name = scene.name;
    for arm in ["a", "b"] {
        let picture = picture(program, arm);
        if picture.exists() {
            fs::remove_file(picture)?;
        }
    }
    let out = program.folder().join("out.jpg");
    let keep = format!(
        "mv -f '{}' '{}'/out-$TOWPATH_ARM.jpg",
        out.display(),
        program.folder().display()
    );
    let export = program.command(scene.history, &out);
    let status = Command::new(root().join("target/release/towpath"))
        .args([
            "ab",
            "--pairs",
            &pairs.to_string(),
            "--primary",
            scene.primary,
            "--cleanup",
            &keep,
        ])
        .arg("--json")
        .arg(program.folder().join(format!("{name}.json")))
        .arg("--")
        .arg(export.get_program())
        .args(export.get_args())
        // What is calibrated stays in the demo's folder, as all that it makes.
        .env("XDG_STATE_HOME", program.folder().join("state"))
        .env("POCL_CACHE_DIR", program.folder().join("pocl"))
        .envs(scene.environment.iter().map(|(name, value)| (name, value)))
        .status()
        .context("cannot start towpath")?;
    // 2 is a proven regression: shown above, and not a failure of the demo's machinery.
    if !matches!(status.code(), Some(0 | 2)) {
        bail!("towpath ab failed: {status}");
    }
    compare_pictures(program)
}

/// Decoded pixels, since equal exports differ in their metadata.
fn compare_pictures(program: &Darktable) -> Result<()> {
    let decode = |arm: &str| {
        let path = picture(program, arm);
        image::open(&path).with_context(|| format!("cannot decode {}", path.display()))
    };
    let (a, b) = (decode("a")?.into_rgb8(), decode("b")?.into_rgb8());
    if a != b {
        bail!("the pictures of A and B differ");
    }
    say(&format!(
        "Pictures of A and B: {}x{}, equal pixel for pixel.",
        a.width(),
        a.height()
    ));
    Ok(())
}

fn picture(program: &Darktable, arm: &str) -> PathBuf {
    program.folder().join(format!("out-{arm}.jpg"))
}

fn without_opencl(program: &Darktable) -> Result<()> {
    say("\nFor comparison, the same export without OpenCL (3 runs, CPU only):");
    let out = program.folder().join("out.jpg");
    for _ in 0..3 {
        let begin = Instant::now();
        let done = program
            .command(History::Light, &out)
            .arg("--disable-opencl")
            .output()?;
        if !done.status.success() {
            bail!("darktable-cli --disable-opencl failed: {}", done.status);
        }
        say(&format!("  {:.1} s", begin.elapsed().as_secs_f64()));
    }
    Ok(())
}
