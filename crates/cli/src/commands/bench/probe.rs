//! A short look at one device: cold against warm, for `towpath doctor`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use towpath_memory::margin;
use towpath_transfer::opencl::{Cl, Device as Described, Functions, devices};

use super::arm::{Meter, Sample};
use super::calls::{self, Device};
use super::memory::{State, fresh, warm_host};

/// What one device took, in nanoseconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Probed {
    /// Bytes of each read.
    pub(crate) bytes: usize,
    /// Blocking reads into fresh memory.
    pub(crate) cold_ns: Vec<u64>,
    /// The same again into the same memory.
    pub(crate) warm_ns: Vec<u64>,
    /// Into fresh memory whose pages are brought in first, that time included.
    pub(crate) prefault_ns: Vec<u64>,
}

/// A device as the loader lists it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) platform: String,
    pub(crate) driver: String,
}

/// All devices, in the loader's order.
///
/// # Errors
///
/// No loader, or one without a platform.
pub(crate) fn list() -> Result<Vec<Listed>> {
    let (_, all) = open()?;
    let listed = all.into_iter().map(|device| Listed {
        name: device.name,
        platform: device.platform,
        driver: device.driver,
    });
    Ok(listed.collect())
}

/// Measures the device of that place in the list, up to five times and not much longer than `budget`.
///
/// # Errors
///
/// What the driver refuses, or too little memory.
pub(crate) fn measure(place: usize, budget: Duration) -> Result<Probed> {
    let started = Instant::now();
    let (functions, all) = open()?;
    let device = all.get(place).context("no such device")?;
    let most = usize::try_from(device.allocation_bytes_max).unwrap_or(usize::MAX);
    let bytes = BYTES.min(most).min(margin::available() / 8) & !0xffff;
    if bytes == 0 {
        bail!("too little memory");
    }
    let cl = Cl::open(&functions, device)?;
    let memory = Device::Buffer(cl.buffer(bytes).context("no device memory")?);
    let mut probed = Probed {
        bytes,
        cold_ns: Vec::new(),
        warm_ns: Vec::new(),
        prefault_ns: Vec::new(),
    };
    // The first round makes what is made at first use, and does not count.
    for round in 0..=ROUNDS {
        let [cold, warm] = plain(&cl, &memory, bytes)?;
        let prefault = prefaulted(&cl, &memory, bytes)?;
        if round > 0 || started.elapsed() > budget {
            probed.cold_ns.push(cold.wall_ns);
            probed.warm_ns.push(warm.wall_ns);
            probed.prefault_ns.push(prefault.wall_ns);
        }
        if started.elapsed() > budget {
            break;
        }
    }
    Ok(probed)
}

fn open() -> Result<(Functions, Vec<Described>)> {
    let functions = Functions::load("libOpenCL.so.1").context("no OpenCL here")?;
    let all = devices(&functions).context("no OpenCL device here")?;
    Ok((functions, all))
}

fn plain(cl: &Cl, memory: &Device, bytes: usize) -> Result<[Sample; 2]> {
    warm_host(bytes)?;
    let host = fresh(bytes, State::Cold)?;
    let call = memory.call(host.range().address);
    let once = || {
        let meter = Meter::start();
        calls::read(cl, &call)?;
        Ok(meter.stop())
    };
    let cold: Result<Sample> = once();
    Ok([cold?, once()?])
}

fn prefaulted(cl: &Cl, memory: &Device, bytes: usize) -> Result<Sample> {
    warm_host(bytes)?;
    let host = fresh(bytes, State::Cold)?;
    let call = memory.call(host.range().address);
    let meter = Meter::start();
    calls::prefault_and_read(cl, &call)?;
    Ok(meter.stop())
}

/// 64 MiB: far above caches, a tenth of a second where memory is slow.
const BYTES: usize = 64 << 20;
const ROUNDS: usize = 5;
