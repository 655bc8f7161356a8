//! The cache fix of one device: the store's overlay under the program's pipeline creation.
//!
//! What may be served, and how the device's feature is switched on, `towpath_cache::policy` decides;
//! saving, checking and merging is `towpath_cache::vulkan`. Here is only what a layer has to add: whose
//! store it is, when to save, and what the program's own caches become under takeover.

#![expect(unsafe_code, reason = "hands the next layer's functions to ash")]

mod copied;
pub(crate) mod describe;
pub(crate) mod feature;
mod saver;
mod sizes;
pub(crate) mod takeover;

use core::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ash::vk;
use ash::vk::Handle as _;
use towpath_cache::policy::Mode;
use towpath_cache::safety::{self, Canary};
use towpath_cache::vulkan::{Made, Overlay};
use towpath_cache::{Identity, Opened, Options, open_or_memory, vulkan};
use towpath_ledger::{Counter, within_size_limit};
use towpath_settings::CacheMode;

use crate::fork;
use crate::instance::Instance;
use crate::process::{self, Process};
use crate::record;
use saver::Saver;
pub(crate) use saver::instance_ends;

/// Copies of a program's blob for which there must be room: ours, the driver's, and one for all else.
const COPIES: usize = 3;

/// The fix, ready for one device.
pub(crate) struct CacheFix {
    pub(crate) mode: Mode,
    overlay: Arc<Overlay>,
    identity: Identity,
    loaded: takeover::Loaded,
    saver: Saver,
}

impl CacheFix {
    /// Opens the store and loads it into the driver; `None` where the fix cannot be, and the log says
    /// why.
    pub(crate) fn open(
        process: &Process,
        instance: &Instance,
        physical: vk::PhysicalDevice,
        device: vk::Device,
        get_device: vk::PFN_vkGetDeviceProcAddr,
    ) -> Option<Self> {
        let mode = match process.cache_mode()? {
            CacheMode::Fill => Mode::Fill,
            CacheMode::Takeover => Mode::Takeover,
            // Nothing is changed, so nothing need be opened.
            CacheMode::Observe => return None,
        };
        let identity = identity(instance, physical);
        let roots = roots(process);
        let options = Options::new(identity.hash());
        let opened = within_size_limit(|| open_or_memory(&roots, &identity, &options));
        for problem in &opened.problems {
            process.log(problem);
        }
        let canary = within_size_limit(|| canary(process, &opened, &identity));
        let functions = device_functions(device, get_device);
        // SAFETY: the device was made just now; the overlay is dropped before the device is destroyed,
        // or never (see `close`).
        let loaded = unsafe {
            Overlay::load(
                functions,
                Arc::clone(&opened.store),
                &identity,
                canary.as_ref(),
            )
        };
        let overlay = match loaded {
            Ok(overlay) => Arc::new(overlay),
            Err(error) => {
                process.log(&format!("no cache: {}", error.one_line()));
                return None;
            }
        };
        overlay
            .report()
            .lines
            .iter()
            .for_each(|line| process.log(line));
        record::count(Counter::CacheBytesRead, overlay.report().bytes_accepted);
        let loaded = takeover::Loaded::of(&overlay);
        let saver = Saver::start(
            Arc::clone(&overlay),
            opened.folder,
            instance.handle.as_raw(),
        );
        Some(Self {
            mode,
            overlay,
            identity,
            loaded,
            saver,
        })
    }

    /// Makes one pipeline: see [`Overlay::create`].
    pub(crate) fn create(
        &self,
        attempt: impl FnMut(vk::PipelineCache, vk::PipelineCreateFlags) -> vk::Result,
    ) -> Made {
        let made = self.overlay.create(attempt);
        if made == Made::New {
            self.saver.something_new();
        }
        made
    }

    /// The header of the driver's caches.
    pub(crate) fn header(&self) -> [u8; 32] {
        takeover::header(
            self.identity.vendor,
            self.identity.device,
            self.identity.cache_uuid,
        )
    }

    /// Whether the driver has this blob from the store, so that it need not be given to it.
    pub(crate) fn has(&self, blob: &[u8]) -> bool {
        self.loaded.has(blob)
    }

    /// Keeps a program's blob in the store; a thread of ours writes it. Where memory is short, as it is
    /// in 32-bit processes, the program keeps its file as it was.
    pub(crate) fn import(&self, blob: &[u8]) {
        if safety::check(blob, &self.identity).is_err() {
            return;
        }
        match copy(blob) {
            Some(copy) => self.saver.import(copy),
            None => process::get().log("pipeline cache not taken over: too little memory"),
        }
    }

    /// Saves what is new and lets go of the driver's caches. In a forked child nothing is touched: the
    /// thread and its locks are the parent's.
    pub(crate) fn close(self) {
        if fork::is_child() {
            Box::leak(Box::new(self));
            return;
        }
        self.saver.stop();
    }
}

/// A copy of `blob`, if there is room for more of them: the driver makes at least one of its own after us,
/// and one that finds no memory may end the program.
fn copy(blob: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(blob.len().checked_mul(COPIES)?)
        .ok()?;
    copy.extend_from_slice(blob);
    copy.shrink_to_fit();
    Some(copy)
}

/// Where the store may be: each program has its own, so that no start loads another program's blobs.
fn roots(process: &Process) -> Vec<PathBuf> {
    let settings = &process.settings;
    let home = settings.home.as_ref().map(|home| home.join(".cache"));
    let usual = settings
        .cache_home
        .clone()
        .or(home)
        .map(|folder| folder.join("towpath/vulkan"));
    let all = settings.cache_dir.clone().into_iter().chain(usual);
    all.map(|root| root.join(program())).collect()
}

/// The program's name.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    named(&own, &command)
}

/// A program by its own file and its command line.
///
/// Under Wine all Windows programs are one Unix program: there it is the one that Wine was told to run.
/// A file that an update has replaced keeps its name.
fn named(own: &str, command: &[u8]) -> String {
    let own = own.trim_end_matches(" (deleted)");
    let words = command
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy);
    let files = words.map(|word| word.rsplit(['/', '\\']).next().map(str::to_owned));
    let is_wine = own.starts_with("wine");
    let told = files.flatten().find(|name| {
        let is_program = !matches!(name.as_str(), "" | "." | "..");
        is_wine && is_program && !name.starts_with("wine")
    });
    let own = if own.is_empty() { "unknown" } else { own };
    told.unwrap_or_else(|| own.to_owned())
}

/// The canary lives on tmpfs, so that power loss is never taken for a driver's crash.
fn canary(process: &Process, opened: &Opened, identity: &Identity) -> Option<Canary> {
    let folder = process
        .settings
        .runtime_dir
        .as_deref()
        .unwrap_or(Path::new("/dev/shm"));
    let (canary, leftovers) = Canary::open(folder, identity.hash()).ok()?;
    for leftover in leftovers {
        let line = match safety::note_death(&opened.store, leftover.id) {
            Ok(true) => "is in quarantine now",
            Ok(false) => "gets one more try",
            Err(_) => "could not be noted",
        };
        process.log(&format!(
            "process {} died while the driver read a cached blob; it {line}",
            leftover.pid
        ));
    }
    Some(canary)
}

fn identity(instance: &Instance, physical: vk::PhysicalDevice) -> Identity {
    let get = |name: &CStr| {
        // Only what is needed: loader 1.3.239 calls a null pointer when a layer asks it for some names.
        if name != c"vkGetPhysicalDeviceProperties2" {
            return core::ptr::null();
        }
        // SAFETY: the next element's function on its own instance.
        let function = unsafe { (instance.get_proc)(instance.handle, name.as_ptr()) };
        function.map_or(core::ptr::null(), |function| function as *const c_void)
    };
    // SAFETY: the look-up gives the functions of this instance; it is alive while a device is made.
    let functions = unsafe { ash::Instance::load_with(get, instance.handle) };
    // SAFETY: a physical device of this instance; `feature::plan` has checked the version.
    unsafe { vulkan::identity(&functions, physical) }
}

fn device_functions(device: vk::Device, get: vk::PFN_vkGetDeviceProcAddr) -> ash::Device {
    let get = |name: &CStr| {
        // SAFETY: the next element's function on its own device.
        let function = unsafe { get(device, name.as_ptr()) };
        function.map_or(core::ptr::null(), |function| function as *const c_void)
    };
    // SAFETY: the look-up gives the functions of this device, which is alive.
    unsafe { ash::Device::load_with(get, device) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windows_program_is_named_by_what_wine_was_told_to_run() {
        let names = [
            ("vkcube", "vkcube\0--count", "vkcube"),
            ("vkcube (deleted)", "vkcube", "vkcube"),
            ("", "", "unknown"),
            (
                "wine64-preloader",
                "C:\\games\\Two Towers.exe\0-x",
                "Two Towers.exe",
            ),
            ("wine-preloader", "/opt/wine/bin/wine\0./a.exe", "a.exe"),
            ("wine64", "wine64\0..\0", "wine64"),
            ("python3", "C:\\not\\wine.exe", "python3"),
        ];
        for (own, command, expected) in names {
            assert_eq!(named(own, command.as_bytes()), expected);
        }
    }
}
