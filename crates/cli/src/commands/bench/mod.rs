//! `towpath bench`: the host paths measured on this machine, arms alternated, bytes checked.

use std::process::ExitCode;

use anyhow::Result;

mod arm;
mod cache;
mod calibrate;
mod calls;
mod cell;
mod layer;
mod memory;
mod output;
mod probe;
mod readback;
mod textures;
mod transfer;
mod upload;
mod waits;

pub(crate) use probe::{Listed, Probed, list as list_devices, measure as probe_device};

/// Measures a host path on this machine.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  towpath bench readback --device NVIDIA --quick --json readback.json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Measures each OpenCL device once and stores which fix pays at which size.
    Calibrate(calibrate::Args),
    /// Device to host: driver, prefault, staging, and the pinned ceiling.
    Readback(ReadbackArgs),
    /// Our OpenCL layer against the driver alone, cell by cell: what is proven slower, and averages.
    Layer(layer::Args),
    /// Host to device: driver, staging, and the pinned ceiling; or textures from scattered memory.
    Upload(UploadArgs),
    /// Pipeline caches: what saving costs a disk and its other readers.
    Cache(cache::Args),
    /// Sync objects: checks, signals, waits, round trips, frames.
    Waits(waits::Args),
}

/// Options of `bench readback`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  towpath bench readback --device NVIDIA --json readback.json\n  \
                  towpath bench readback --glbench"
)]
struct ReadbackArgs {
    #[command(flatten)]
    transfer: transfer::Args,
    /// glbench's three pixel_read forms in place of the sizes: a window of 512 x 512 pixels of four
    /// bytes, rows at multiples of four bytes, packed, and packed to an odd address. Also in its lines.
    #[arg(long)]
    glbench: bool,
}

/// Options of `bench upload`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  towpath bench upload --device NVIDIA --json upload.json\n  \
                  towpath bench upload --glbench --json textures.json"
)]
struct UploadArgs {
    #[command(flatten)]
    transfer: transfer::Args,
    #[command(flatten)]
    textures: textures::Args,
}

/// Runs the bench that was asked for.
///
/// # Errors
///
/// No such device, the driver refused something that every arm needs, or wrong bytes.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Calibrate(args) => calibrate::run(args),
        What::Readback(args) => readback::run(args),
        What::Layer(args) => layer::run(args),
        What::Upload(args) if args.textures.is_asked() => {
            textures::run(&args.textures, &args.transfer.common())
        }
        What::Upload(args) => upload::run(&args.transfer),
        What::Cache(args) => cache::run(args),
        What::Waits(args) => waits::run(args),
    }
}
