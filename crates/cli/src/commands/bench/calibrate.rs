//! `towpath bench calibrate`: measures each device once and stores what pays.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use towpath_settings::Settings;
use towpath_settings::calibration::{Entry, Key, Store, default_folder};
use towpath_transfer::opencl::{Cl, Device, Functions, Options, calibrate, devices};
use towpath_transfer::policy::{Calibration, Direction, Warmth};

use super::arm::mib;

/// Options of the calibration.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  towpath bench calibrate --device NVIDIA --budget 10")]
pub(crate) struct Args {
    /// Only devices whose name or platform has this in it, whatever the case.
    #[arg(long, value_name = "NAME", default_value = "")]
    device: String,
    /// Seconds per device.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    budget: u64,
    /// Measure again what is stored.
    #[arg(long)]
    again: bool,
}

/// Calibrates and prints what was found.
///
/// # Errors
///
/// No such device, or the store cannot be written. A device that fails is said and left out.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (settings, _problems) = Settings::from_environment();
    let store = Store::new(default_folder(&settings)?);
    let functions = Functions::load("libOpenCL.so.1").context("no OpenCL here")?;
    let all = devices(&functions).context("no OpenCL device here")?;
    let wanted: Vec<&Device> = all
        .iter()
        .filter(|device| device.matches(&args.device))
        .collect();
    if wanted.is_empty() {
        bail!("no device has '{}' in its name", args.device);
    }
    for device in wanted {
        say!(
            "{} ({}, driver {})",
            device.name,
            device.platform,
            device.driver
        );
        let key = key(device);
        if let Some(stored) = store.load(&key)?.filter(|_| !args.again) {
            let calibration: Calibration = stored.values()?;
            say!("  (stored; --again measures it again)");
            say_part!("{}", lines(&calibration));
            continue;
        }
        match measure(&functions, device, Duration::from_secs(args.budget)) {
            Ok(calibration) => {
                store.save(&Entry::new(key, &calibration)?)?;
                say_part!("{}", lines(&calibration));
            }
            Err(error) => say!("  cannot be calibrated: {error:#}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Calibrates what has no calibration yet, and prints what holds.
///
/// # Errors
///
/// As [`run`].
pub(super) fn ensure(device: &str, budget_s: u64) -> Result<()> {
    let _code = run(&Args {
        device: device.to_owned(),
        budget: budget_s,
        again: false,
    })?;
    Ok(())
}

/// The key under which a device's calibration is stored; the layer asks with the same.
fn key(device: &Device) -> Key {
    Key::of_this_machine(Calibration::SUBJECT, &device.name, &device.driver)
}

fn measure(functions: &Functions, device: &Device, budget: Duration) -> Result<Calibration> {
    let cl = Cl::open(functions, device)?;
    let mut options = Options::default();
    options.budget = budget;
    Ok(calibrate(&cl, device, &options)?)
}

fn lines(calibration: &Calibration) -> String {
    calibration
        .classes
        .iter()
        .map(|class| {
            let direction = match class.direction {
                Direction::Read => "read",
                Direction::Write => "write",
            };
            let warmth = match class.warmth {
                Warmth::Cold => "cold",
                Warmth::ColdHuge => "cold, huge",
                Warmth::Warm => "warm",
            };
            format!(
                "  {direction:<5} {:>4} {warmth:<10}  {}\n",
                mib(class.bytes),
                class.text()
            )
        })
        .collect()
}
