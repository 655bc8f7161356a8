//! `cargo xtask demo`: the main job on a real, unmodified program.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::darktable::{self, Darktable};
use crate::packages::{self, Set};
use crate::run::{cargo, root, run as start, say};

/// Two scenes: the machine as it is, and the seed's machine emulated.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pairs of runs in each scene.
    #[arg(long, default_value_t = 10)]
    pairs: u32,
    /// Only this scene: here, emulated.
    #[arg(long)]
    scene: Option<String>,
    /// Leaves the system's packages as they are.
    #[arg(long)]
    no_install: bool,
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
    start(
        &cargo(),
        &[
            "build",
            "--release",
            "-p",
            "towpath-cli",
            "-p",
            "towpath-opencl-layer",
            "-p",
            "towpath-penalty-layer",
        ],
    )?;
    let program = Darktable::prepare()?;
    let wanted = |scene: &str| args.scene.as_deref().is_none_or(|only| only == scene);
    if wanted("here") {
        say("\nScene 1: darktable on PoCL as it is on this machine.");
        scene(&program, args.pairs, "readback time", &[])?;
    }
    if wanted("emulated") {
        say(
            "\nScene 2 (EMULATED): the seed's machine. A layer between ours and PoCL charges 59 us for \
             each destination page that is still cold when the driver gets the call.",
        );
        let layer = root().join("target/release/libtowpath_penalty_layer.so");
        let penalty = [
            ("OPENCL_LAYERS", layer.display().to_string()),
            ("TOWPATH_PENALTY_NS_PER_PAGE", SEED_NS_PER_PAGE.to_owned()),
        ];
        scene(&program, args.pairs, "wall", &penalty)?;
    }
    without_opencl(&program)
}

fn scene(
    program: &Darktable,
    pairs: u32,
    primary: &str,
    environment: &[(&str, String)],
) -> Result<()> {
    for arm in ["a", "b"] {
        let picture = program.path(&format!("out-{arm}.jpg"));
        if picture.exists() {
            fs::remove_file(picture)?;
        }
    }
    let keep = format!(
        "mv -f '{}' '{}'-$TOWPATH_ARM.jpg",
        program.path("out.jpg").display(),
        program.path("out").display()
    );
    let status = Command::new(root().join("target/release/towpath"))
        .args(["ab", "--pairs", &pairs.to_string(), "--primary", primary])
        .args(["--prepare", &program.reset(), "--cleanup", &keep])
        .arg("--json")
        .arg(program.path(if environment.is_empty() {
            "here.json"
        } else {
            "emulated.json"
        }))
        .arg("--")
        .args(program.command(true))
        .envs(program.environment())
        .envs(environment.iter().map(|(name, value)| (name, value)))
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
        let path = program.path(&format!("out-{arm}.jpg"));
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

fn without_opencl(program: &Darktable) -> Result<()> {
    say("\nFor comparison, darktable without OpenCL (3 runs, CPU only):");
    for _ in 0..3 {
        let start = Instant::now();
        program.export(false)?;
        say(&format!("  {:.1} s", start.elapsed().as_secs_f64()));
    }
    // The next comparison must find a working OpenCL again.
    let log = program.export(true)?;
    darktable::check_log(&log)
}
