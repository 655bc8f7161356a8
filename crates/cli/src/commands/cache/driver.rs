//! Blobs shown to the driver, each in a child process that may die of them.
#![expect(unsafe_code, reason = "Vulkan calls through ash")]

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use ash::vk;
use serde_json::{Value, json};
use towpath_cache::{ContentId, Kind, Store, safety};

/// Gives files to the driver as initial data of a pipeline cache; dies if the driver does.
#[derive(Debug, clap::Args)]
pub(super) struct TryArgs {
    /// Number of the Vulkan device.
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Files with one VkPipelineCache blob each.
    files: Vec<PathBuf>,
}

/// What became of blobs in the driver's hands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The driver took them.
    Survived,
    /// The driver returned an error.
    Refused,
    /// The process died by this signal.
    Died(i32),
}

impl Outcome {
    pub(super) fn is_survived(self) -> bool {
        self == Self::Survived
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Survived => f.write_str("took it"),
            Self::Refused => f.write_str("refused it"),
            Self::Died(signal) => write!(f, "died of it, signal {signal}"),
        }
    }
}

/// Which blobs of a store the driver does not survive.
pub(super) struct Tried {
    pub(super) blobs: usize,
    pub(super) bad: Vec<ContentId>,
}

impl Tried {
    pub(super) fn json(&self) -> Value {
        let bad: Vec<String> = self.bad.iter().map(ToString::to_string).collect();
        json!({ "blobs": self.blobs, "quarantined": bad })
    }
}

/// Gives one blob to the driver in a child process.
pub(super) fn try_one(blob: &[u8], device: usize) -> Result<Outcome> {
    let folder = Scratch::new()?;
    let file = folder.put("blob", blob)?;
    run_child(&[file], device)
}

/// Gives all overlay blobs to the driver in child processes, halving until the bad ones are known, and
/// puts these into quarantine.
pub(super) fn try_store(store: &Store, device: usize) -> Result<Tried> {
    let folder = Scratch::new()?;
    let mut blobs = Vec::new();
    for entry in store.entries(Some(Kind::OVERLAY)) {
        if let Some(blob) = store.lookup(entry.kind, &entry.key)
            && !safety::is_quarantined(store, blob.id())
        {
            folder.put(&blob.id().to_string(), &blob)?;
            blobs.push(blob.id());
        }
    }
    // A machine without Vulkan must not put everything into quarantine.
    if !run_child(&[], device)?.is_survived() {
        bail!("no Vulkan device {device} to try the blobs on");
    }
    let mut failure = None;
    let bad = safety::find_bad(&blobs, &mut |set| {
        let files: Vec<PathBuf> = set
            .iter()
            .map(|id| folder.path.join(id.to_string()))
            .collect();
        match run_child(&files, device) {
            Ok(outcome) => outcome.is_survived(),
            Err(error) => {
                failure.get_or_insert(error);
                true
            }
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    for id in &bad {
        safety::quarantine(
            store,
            *id,
            "towpath cache verify --driver: the driver does not survive it",
        )?;
    }
    store.seal()?;
    Ok(Tried {
        blobs: blobs.len(),
        bad,
    })
}

fn run_child(files: &[PathBuf], device: usize) -> Result<Outcome> {
    use std::os::unix::process::ExitStatusExt as _;
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let status = Command::new(program)
        .args(["cache", "try-blobs", "--device", &device.to_string()])
        .args(files)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot start a child process")?;
    Ok(match (status.code(), status.signal()) {
        (Some(0), _) => Outcome::Survived,
        (_, Some(signal)) => Outcome::Died(signal),
        _ => Outcome::Refused,
    })
}

/// The child: makes a device, and a pipeline cache of each file, merged into one.
pub(super) fn try_blobs(args: &TryArgs) -> Result<ExitCode> {
    let blobs: Vec<Vec<u8>> = args
        .files
        .iter()
        .map(|path| super::inspect::read(path))
        .collect::<Result<_>>()?;
    // SAFETY: the system's Vulkan loader; this process exists to run it.
    let entry = unsafe { ash::Entry::load() }.context("no Vulkan loader")?;
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the create info is valid and lives through the call.
    let instance = unsafe { entry.create_instance(&info, None) }.context("vkCreateInstance")?;
    // SAFETY: the instance is alive.
    let all = unsafe { instance.enumerate_physical_devices() }?;
    let physical = *all.get(args.device).context("no such device")?;
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: queue family 0 exists on every device.
    let device =
        unsafe { instance.create_device(physical, &info, None) }.context("vkCreateDevice")?;
    let mut caches = Vec::new();
    for blob in blobs.iter().map(Vec::as_slice).chain([&[][..]]) {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(blob);
        // SAFETY: the blob may be anything: that the driver dies of it is what this process is for.
        caches.push(unsafe { device.create_pipeline_cache(&info, None) }?);
    }
    if let Some(target) = caches.pop() {
        if !caches.is_empty() {
            // SAFETY: all caches are alive and used by nobody else.
            unsafe { device.merge_pipeline_caches(target, &caches) }?;
        }
        // SAFETY: the cache is alive.
        let _data = unsafe { device.get_pipeline_cache_data(target) };
    }
    // The process ends here; the driver's own teardown is no part of the question.
    std::io::stdout().flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A private folder that goes with this value.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let name = format!("towpath-try-{}-{:x}", std::process::id(), rand());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// A number that two runs of one process do not share.
fn rand() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left_behind: std::io::Result<()> = std::fs::remove_dir_all(Path::new(&self.path));
    }
}
